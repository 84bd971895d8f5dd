"""What the tests of pages share: a stored run, changed as wanted, and Markdown as a reader sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from ipuenv.front.pages import run_page
from ipuenv.stages import manifest, store

if TYPE_CHECKING:
    from markdown_it.token import Token

STORED = Path(__file__).parents[1] / "stages" / "manifest-1.json"
HOSTILE = "a|b `c` \\| **d** _e_ <script>alert(1)</script> [f](http://g) \n# h\n| i |\n--- | ---\n\x1b[31m &amp; ``` $j$ ~~k~~"


def parse(page: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").enable("strikethrough").parse(page)


def inline(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield from token.children or []


def visible(tokens: list[Token]) -> str:
    """The text that a reader sees of one inline token list."""
    parts = []
    for token in tokens:
        if token.type in ("text", "code_inline", "text_special"):
            parts.append(token.content)
        elif token.type != "html_inline":
            parts.append(f"<{token.type}>")
    return "".join(parts)


def run() -> manifest.RunManifest:
    return manifest.load(STORED.read_bytes())


def changed(**changes: object) -> manifest.RunManifest:
    """The stored run with its first variant changed, and no other."""
    stored = run()
    variant = stored.variants[0].model_copy(update=changes)
    return stored.model_copy(update={"variants": (variant,), "planned": (variant.id,)})


def section(page: str, title: str) -> str:
    return page.split(f"## {title}\n", 1)[1].split("\n## ", maxsplit=1)[0]


def publish(root: Path, stored: manifest.RunManifest) -> store.Published:
    collection = store.open_collection(root / "artifacts", "compiler-perf/flamegraph")
    with store.open_staging(collection, started_at=stored.started_at, revision=None) as staging:
        variants = tuple(variant.model_copy(update={"run_id": staging.run_id}) for variant in stored.variants)
        for variant in variants:
            (staging.variant_folder(variant.id) / "model.ipuexe").write_text("the package")
            (staging.variant_folder(variant.id) / "perf.data").touch()
        complete = stored.model_copy(update={"run_id": staging.run_id, "variants": variants})
        return store.publish(staging, manifest.with_commands(complete), page=run_page)
