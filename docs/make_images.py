"""The pictures of these pages, from a stored run: ``python docs/make_images.py RUN_FOLDER``.

RUN_FOLDER is a run of the profile ``attention-compiler``, such as ``artifacts/compiler-perf/flamegraph/latest``. Needs
the ``dev`` packages and Debian's ``chromium``.
"""  # noqa: INP001 - a script, in no package

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from ipuenv.engine import recording, views
from ipuenv.engine.flamegraph import SvgOptions, render
from ipuenv.stages import store

IMAGES = Path(__file__).parent / "images"
IMAGE_WIDTHS_PX = (1800, 1600, 1400)
"""The first that gives a file below the limit is taken."""

LARGEST_BYTES = 400_000
ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
NARROW_PX = 1200
"""A picture that is laid out this narrow and then enlarged can be read where a page shows it small."""

MIN_WIDTH_PERCENT = 0.7
"""Narrower frames have no label in a small picture."""

HEAD_PX = 42
SEARCHED = "sort"
ZOOMED = re.compile(
    r'<title>ipu_codegen::[^<]* \([^<]*, (?P<percent>[0-9.]+)%\)</title><rect [^>]* y="(?P<y>\d+)"[^>]* fg:x="(?P<x>\d+)"'
)
LARGEST_ZOOMED_PERCENT = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One picture: its view, how wide it is laid out, how much is shown from the bottom and if its head is, too."""

    view: str
    height_px: int
    width_px: int = NARROW_PX
    has_head: bool = False
    query: str = ""
    zooms: bool = False


SHOTS = {
    "full": Shot(view="full", height_px=850, width_px=1800),
    "functions": Shot(view="functions", height_px=642),
    "work": Shot(view="work", height_px=802),
    "zoom": Shot(view="work", height_px=690, has_head=True, zooms=True),
    "search": Shot(view="work", height_px=690, has_head=True, query=f"?s={SEARCHED}"),
}


def draw(run: Path) -> dict[str, str]:
    """The views of a run's first variant, as wide as the window."""
    manifest = store.read_manifest(run)
    variant = manifest.variants[0]
    folder = run / variant.id
    if variant.recording is None or variant.executable is None:
        sys.exit(f"'{folder}' holds no recording")
    read = recording.read(
        folder / "perf.data",
        stored=[folder / variant.executable.name],
        kallsyms=folder / "kallsyms.zst",
        program_pid=variant.recording.program_pid,
    )
    options = SvgOptions(
        title=manifest.profile.title, notes=variant.notes, min_width=MIN_WIDTH_PERCENT, deterministic=True
    )
    drawn = {}
    for name, view in variant.views.items():
        tree = views.draw(read.stacks, views.View(name=name, inline=view.inline, elide=view.elide))
        drawn[name] = render(tree, options).decode()
    return drawn


def zoom_query(picture: str) -> str:
    """The query that zooms in on the widest frame of the compiler's own that is not nearly everything."""
    found = [match for match in ZOOMED.finditer(picture) if float(match["percent"]) < LARGEST_ZOOMED_PERCENT]
    widest = max(found, key=lambda match: float(match["percent"]))
    return f"?x={widest['x']}&y={widest['y']}"


def page_of(shot: Shot, query: str, height_px: int) -> str:
    """A page with the head and the foot of the picture. A bare SVG document cannot be photographed."""
    foot_px = min(shot.height_px, height_px)
    parts = [("head", HEAD_PX, 0)] if shot.has_head else []
    parts += [("foot", foot_px, foot_px - height_px)]
    boxes = [
        f'<div style="height: {shown_px}px; overflow: hidden"><object name="{name}" data="picture.svg{query}"'
        f' style="display: block; width: 100%; height: {height_px}px; margin-top: {shift_px}px"></object></div>'
        for name, shown_px, shift_px in parts
    ]
    return f'<!doctype html><body style="margin: 0">{"".join(boxes)}'


def take(browser: Browser, shot: Shot, picture: str, image_width_px: int) -> bytes:
    """A photograph of a picture: a PNG file."""
    height_px = int(re.search(r' height="(\d+)"', picture)[1])  # type: ignore[index]
    query = zoom_query(picture) if shot.zooms else shot.query
    with tempfile.TemporaryDirectory() as name:
        Path(name, "picture.svg").write_text(picture, encoding="utf-8")
        Path(name, "page.html").write_text(page_of(shot, query, height_px), encoding="utf-8")
        page = browser.new_page(
            viewport={"width": shot.width_px, "height": shot.height_px + HEAD_PX},
            device_scale_factor=image_width_px / shot.width_px,
            color_scheme="light",
        )
        page.goto(Path(name, "page.html").as_uri(), wait_until="load")
        if shot.zooms:  # point at the frame, so that the foot tells of it
            (foot,) = (frame for frame in page.frames if frame.name == "foot")
            foot.locator("#frames > g:not(.parent):not(.hide) > rect").first.hover()
        shown_px = min(shot.height_px, height_px) + HEAD_PX * shot.has_head
        image = page.screenshot(clip={"x": 0, "y": 0, "width": shot.width_px, "height": shown_px})
        page.close()
        return image


def main() -> None:
    """Draw all pictures."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("'chromium' is needed: apt-get install chromium")
    pictures = draw(Path(sys.argv[1]))
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        for name, shot in SHOTS.items():
            images = (take(browser, shot, pictures[shot.view], width_px) for width_px in IMAGE_WIDTHS_PX)
            image = next((image for image in images if len(image) < LARGEST_BYTES), None)
            if image is None:
                sys.exit(f"'{name}' has more than {LARGEST_BYTES / 1000:.0f} kB in every width: show less of it")
            (IMAGES / f"{name}.png").write_bytes(image)
        browser.close()


if __name__ == "__main__":
    main()
