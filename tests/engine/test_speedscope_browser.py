"""speedscope itself, from npm and in a browser, reads what we write: its own JSON and pprof."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import re
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jsonschema
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from ipuenv.engine import cuts, recording
from ipuenv.engine.folding import StackTree
from ipuenv.engine.pprof import write_pprof
from ipuenv.engine.speedscope import write_speedscope
from tests.engine.conftest import Recorded, tool
from tests.engine.generated import names_of

VERSION = "1.25.0"
ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
HARMLESS = re.compile(r"GL Driver Message|GPU stall")
"""What a browser that draws without a graphics card complains of."""


@pytest.fixture(scope="module")
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of speedscope's release, kept in pytest's cache for the next time."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    name = f"speedscope-{VERSION}"
    folder = cache.mkdir(name) if cache is not None else tmp_path_factory.mktemp(name)
    modules = folder / "node_modules"
    if not modules.exists():
        own = folder / f"installing-{os.getpid()}"
        own.mkdir()
        install = (
            tool("npm", "npm"),
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-save",
            "--prefix",
            own,
        )
        done = subprocess.run([*install, f"speedscope@{VERSION}"], check=False, capture_output=True, text=True, cwd=own)
        assert done.returncode == 0, f"npm could not install speedscope@{VERSION}: {done.stderr}"
        with contextlib.suppress(OSError):  # another worker may have been faster
            (own / "node_modules").rename(modules)
        shutil.rmtree(own)
    return modules / "speedscope" / "dist" / "release"


@dataclass(frozen=True)
class Shown:
    """The sandwich view: the title of the profile, and total and own weight as printed, by name of the function."""

    title: str
    functions: dict[str, tuple[str, str]]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the method that is replaced
        pass


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = tool("chromium", "chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def show(release: Path, browser: Browser, tmp_path: Path) -> Iterator[Callable[[str, bytes], Shown]]:
    """Loads a file; afterwards no page may have reported an error."""
    root = tmp_path / "served"
    shutil.copytree(release, root)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    context = browser.new_context(viewport={"width": 1400, "height": 4000})
    complaints: list[str] = []

    def load(name: str, data: bytes) -> Shown:
        (root / name).write_bytes(data)
        page = context.new_page()
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(f"{address}/index.html#profileURL={address}/{name}&view=sandwich")
        return read_table(page)

    yield load
    context.close()
    server.shutdown()
    server.server_close()
    thread.join()
    assert [text for text in complaints if not HARMLESS.search(text)] == []


READ_ROWS = """() => {
  const shown = Array.from(document.querySelectorAll('tr')).filter((row) => row.offsetParent && row.cells.length === 3);
  const rows = shown.map((row) => Array.from(row.cells, (cell) => cell.innerText.trim()));
  return rows.length > 1 ? rows : null;
}"""


def read_table(page: Page) -> Shown:
    rows = page.wait_for_function(READ_ROWS, timeout=30_000).json_value()
    functions = {name: (total, own) for total, own, name in rows if name != "Symbol Name"}
    title = page.locator("body").inner_text().split("Sandwich\n", 1)[1].splitlines()[0]
    return Shown(title, functions)


def weights_by_name(stacks: StackTree, weights: list[int], *, inlined: bool) -> dict[str, tuple[int, int]]:
    """Total and own weight of every function, recursion counted once."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    frames, locations = stacks.table.frames, stacks.table.locations
    for node, weight in zip(stacks.rows.nodes.tolist(), weights, strict=True):
        names = names_of(stacks, node)[1:]
        if not inlined:
            names = tuple(frames[locations[key].frames[0]].name for key in stacks.tree.path(node)[1:])
        own[names[-1]] += weight
        for name in set(names):
            total[name] += weight
    return {name: (total[name], own[name]) for name in total}


def printed(weight: int, whole: int) -> str:
    """A weight as speedscope 1.25 prints it: ``src/lib/value-formatters.ts`` and ``formatPercent`` of ``utils.ts``."""
    seconds = weight * 1e-9
    scale, unit = next(
        ((s, u) for s, u in ((1, "s"), (1e-3, "ms"), (1e-6, "\u00b5s")) if seconds / s >= 1), (1e-9, "ns")
    )
    share = 100.0 * weight / whole
    percent = f"{fixed(share, 0)}%"
    if share == 100:
        percent = "100%"
    elif share > 99:
        percent = ">99%"
    elif share < 0.01:
        percent = "<0.01%"
    elif share < 10:
        percent = f"{fixed(share, 2 if share < 1 else 1)}%"
    return f"{fixed(seconds / scale, 2)}{unit} ({percent})"


def fixed(number: float, digits: int) -> Decimal:
    """JavaScript's ``toFixed``: of two that are equally near the larger."""
    return Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def as_json(stacks: StackTree) -> bytes:
    out = io.StringIO()
    write_speedscope(stacks, out, name="threads", exporter="ipuenv")
    return out.getvalue().encode()


def test_our_json_shows_each_thread_with_inlined_frames(
    recorded: Callable[[str], Recorded], show: Callable[[str, bytes], Shown], release: Path
) -> None:
    stacks = recording.read(recorded("rust-legacy").perf_data).stacks
    data = as_json(stacks)
    document = json.loads(data)
    jsonschema.validate(document, json.loads((release / "file-format-schema.json").read_text()))
    assert sum(profile["endValue"] for profile in document["profiles"]) == sum(stacks.periods)

    busiest = document["profiles"][0]
    shown = show("threads.speedscope.json", data)
    assert shown.title == f"{busiest['name']} (1/{len(document['profiles'])})"
    thread = cuts.by_thread(stacks, [re.findall(r"tid (\d+)", busiest["name"])[0]]).kept
    expected = weights_by_name(thread, thread.rows.periods.astype(int).tolist(), inlined=True)
    assert shown_equal(shown, expected, busiest["endValue"]) > 10
    assert "threads::mix" in shown.functions, "an inlined frame"


def test_pprof_shows_all_threads_at_once(
    recorded: Callable[[str], Recorded], show: Callable[[str, bytes], Shown]
) -> None:
    """speedscope takes a location's outermost function alone, so this is the view without inlined frames."""
    stacks = recording.read(recorded("rust-legacy").perf_data).stacks
    out = io.BytesIO()
    write_pprof(stacks, out)
    shown = show("threads.pb.gz", out.getvalue())
    assert shown.title == "threads.pb.gz"
    expected = weights_by_name(stacks, stacks.rows.periods.astype(int).tolist(), inlined=False)
    assert shown_equal(shown, expected, sum(stacks.periods)) > 5


def shown_equal(shown: Shown, expected: dict[str, tuple[int, int]], whole: int) -> int:
    """Compare the rows that are shown, which are those with most own weight; how many they were."""
    texts = {name: (printed(total, whole), printed(own, whole)) for name, (total, own) in expected.items()}
    for name, found in shown.functions.items():
        assert found == texts[name], name
    return len(shown.functions)
