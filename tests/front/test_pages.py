"""Generated pages are true to the manifest, and silent where it is."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from ipuenv.front.pages import collection_page, run_page
from ipuenv.stages import manifest, store
from tests.front.reading import HOSTILE, STORED, changed, inline, parse, publish, run, section

GOLDEN = Path(__file__).parent / "run-page.md"


# -- a run's page -----------------------------------------------------------------------------------------------------


def test_the_page_of_the_stored_run() -> None:
    """Set IPUENV_BLESS=1 to accept a changed page; then read the difference."""
    page = run_page(run())
    if os.environ.get("IPUENV_BLESS"):
        GOLDEN.write_text(page, encoding="utf-8")
    assert page == GOLDEN.read_text(encoding="utf-8")


def test_every_picture_is_linked() -> None:
    links = {str(token.attrGet("href")) for token in inline(parse(run_page(run()))) if token.type == "link_open"}
    pictures = {f"16threads/{view.file}" for view in run().variants[0].views.values()}
    assert len(pictures) == 3
    assert links == {"manifest.json", *pictures}


def hostile(value: object) -> object:
    """Hostile text wherever a manifest holds free text."""
    if isinstance(value, dict):
        return {key: item if key in KEPT else hostile(item) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return f"{value} {HOSTILE}" if isinstance(value, str) and value else value


KEPT = (
    "schema",
    "started_at",
    "sha256",
    "diff_sha256",
    "digest",
    "revision",
    "status",
    "verdict",
    "quality",
    "kind",
    "touched",
    "holder",
    "id",
    "planned",
    "run_id",
)


def test_hostile_text_changes_nothing_of_a_pages_build() -> None:
    data = json.loads(STORED.read_bytes())
    bad = manifest.with_commands(manifest.load(json.dumps(hostile(data)).encode()))
    tokens, calm = parse(run_page(bad)), parse(run_page(run()))
    shape = [(token.type, token.tag, token.level) for token in calm]
    assert [(token.type, token.tag, token.level) for token in tokens] == shape
    assert {token.content for token in inline(tokens) if token.type == "html_inline"} == {"<code>", "</code>"}
    links = [str(token.attrGet("href")) for token in inline(tokens) if token.type == "link_open"]
    assert len(links) == 4
    assert not any(link.startswith("http") for link in links)
    assert "\x1b" not in run_page(bad)


def test_stand_ins_are_called_so() -> None:
    stored = run()
    assert stored.sdk is not None
    real = section(run_page(stored), "What was profiled")
    assert "stand" not in real
    bundled = stored.model_copy(
        update={
            "workspace": manifest.Workspace(root="/x", bundled=True),
            "sdk": stored.sdk.model_copy(update={"stand_in": True}),
        }
    )
    told = section(run_page(bundled), "What was profiled")
    assert "bundled with ipuenv: it stands in for a real one" in told
    assert "is ipuenv's stand-in, not Graphcore's" in told


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        (manifest.Device(touched="no", evidence="not opened"), "It does not execute the IPU: `not opened`."),
        (
            manifest.Device(touched="yes", evidence="loaded", lock_wait_s=61),
            "It executed the IPU: `loaded`. It waited 1 min 01 s for the device's lock.",
        ),
        (manifest.Device(), "Whether it executed the IPU is not known."),
    ],
)
def test_the_device_is_spoken_of_only_as_far_as_the_log_goes(device: manifest.Device, sentence: str) -> None:
    told = section(run_page(changed(device=device)), "What was profiled")
    assert [line for line in told.splitlines() if re.search(r"executed? the IPU", line)] == [f"* {sentence}"]


A, B = "a" * 64, "b" * 64


@pytest.mark.parametrize(
    ("sha256", "others", "baseline", "sentences"),
    [
        (A, {}, {}, ["There is no other variant to compare it with.", "There is no baseline to compare it with."]),
        (A, {"8threads": A}, {"R/16threads": B}, ["Byte-identical to that of the other variants (`8threads`).", "**Differs** from that of the baseline (`R/16threads`)."]),
        (A, {"8threads": A, "4threads": B}, {"R/16threads": A}, ["**Differs** from that of the other variants (`4threads`).", "Byte-identical to that of the baseline (`R/16threads`)."]),
        (None, {"8threads": A}, {"R/16threads": A}, ["`16threads/model.ipuexe` was not written."]),
    ],
)  # fmt: skip
def test_identity_is_claimed_only_for_equal_hashes(
    sha256: str | None, others: dict[str, str | None], baseline: dict[str, str | None], sentences: list[str]
) -> None:
    output = manifest.Output(
        file="model.ipuexe",
        sha256=sha256,
        size_bytes=None if sha256 is None else 8,
        others=manifest.Identity.judge(sha256, others),
        baseline=manifest.Identity.judge(sha256, baseline),
    )
    told = section(run_page(changed(output=output)), "Output bytes")
    assert all(sentence in told for sentence in sentences)
    assert told.count("Byte-identical") + told.count("**Differs**") == sum(
        "that of" in sentence for sentence in sentences
    )


def test_what_is_not_known_is_not_said() -> None:
    bare = changed(
        recording=None,
        output=None,
        executions=(),
        phases=(),
        parallelism=None,
        hot_functions=(),
        views={},
        executable=None,
        commands=(),
    ).model_copy(update={"git": None, "sdk": None, "remarks": ()})
    headings = [
        token.content
        for token in parse(run_page(bare))
        if token.type == "inline" and token.level == 1 and "#" in token.markup
    ]
    page = run_page(bare)
    titles = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert titles == ["Interactive outputs", "What was profiled", "Results", "Environment"]
    assert headings == []
    assert "The workspace is under no git revision." in page
    assert "| `16threads` | pass | - | - | - | - | - | - | - | - |" in page
    assert "perf.data" not in page


def test_variants_that_were_planned_but_not_run_are_named() -> None:
    stored = run().model_copy(update={"planned": ("16threads", "4threads", "1threads")})
    assert "* Planned but not run: `1threads`." in section(run_page(stored), "Results")


def test_the_stored_page_can_be_drawn_again_from_the_stored_manifest(tmp_path: Path) -> None:
    published = publish(tmp_path, run())
    assert run_page(store.read_manifest(published.path)) == (published.path / "README.md").read_text(encoding="utf-8")


# -- a collection's page ----------------------------------------------------------------------------------------------


def recent(stored: manifest.RunManifest, run_id: str, **changes: object) -> store.Recent:
    found = store.stored_run(store.open_collection(Path("/artifacts"), "compiler-perf/flamegraph"), run_id)
    return store.Recent(run=found, manifest=stored.model_copy(update={"run_id": run_id, **changes}))


def test_the_collections_page() -> None:
    newest = recent(run(), "20261130T101502Z-3f2a91c", label=None, sweep_id=None)
    older = recent(changed(status="pass"), "20261130T091502Z-3f2a91c", sweep_id="s")
    broken = store.Recent(run=recent(run(), "20261130T081502Z-nogit").run, manifest=None, problem="a | b")
    page = collection_page("compiler-perf/flamegraph", [newest, older, broken], 1234)
    assert "# SigLIP attention compiler: runs" in page
    assert "The newest 3 of 1,234 runs of `compiler-perf/flamegraph`, newest first. Written by ipuenv" in page
    rows = [line for line in page.splitlines() if line.startswith("| [`2026")]
    first = "[`16threads`](20261130T101502Z-3f2a91c/16threads/attention-compiler.svg)"
    assert (
        rows[0]
        == f"| [`20261130T101502Z-3f2a91c`](20261130T101502Z-3f2a91c/README.md) | 1 pass, 1 failed | 2 | 1 min 46 s |  | {first} |"
    )
    assert " | pass | 1 | 1 min 45 s | `indexed` | " in rows[1]
    assert " | unreadable: a &#124; b | - | - | - | - |" in rows[2]
    sweep = section(page, "Newest sweep")
    assert "| `16threads` | pass | 1 min 45 s | 6 min 11 s | 3.6 | 27% | 3.1 GB | `aaaaaaaaaaaa` |" in sweep
    assert "| `4threads` | failed | 0.50 s | 0.25 s | - | - | 50.0 MB | - |" in sweep


def test_runs_of_one_sweep_are_shown_together_and_oldest_first() -> None:
    one = [recent(changed(id=f"{n}threads"), f"20261130T10000{n}Z-nogit", sweep_id="s") for n in (4, 2, 1)]
    other = recent(changed(id="8threads"), "20261130T090000Z-nogit", sweep_id="other")
    sweep = section(collection_page("c", [*one, other], 4), "Newest sweep")
    assert re.findall(r"^\| `(\w+)`", sweep, re.MULTILINE) == ["1threads", "2threads", "4threads"]


def test_an_incomplete_run_and_an_empty_collection_are_called_so() -> None:
    incomplete = recent(changed(status="interrupted"), "20261130T101502Z-3f2a91c")
    assert "| interrupted, incomplete | 1 |" in collection_page("c", [incomplete], 1)
    assert (
        collection_page("c", [], 0)
        == "# `c`: runs\n\n0 runs of `c`, newest first. Written by ipuenv whenever a run is stored; do not edit.\n"
    )
