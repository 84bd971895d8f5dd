"""Flame graphs as interactive SVG, drawn straight from a tree of frames, in the conventions of inferno's `flamegraph`.

Equal stacks give the frames, titles, percentages, labels and deterministic colours that inferno 0.12 draws
(``flamegraph/mod.rs``). Ours are the script, the style, ``fg:kind`` on each frame, and notes that can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple
from xml.sax.saxutils import escape

from ipuenv.engine.colors import Fill, Palette, fills
from ipuenv.engine.folded import drawn_name, label_text, printable
from ipuenv.engine.layout import NO_LABEL, Layout, lay_out
from ipuenv.engine.stacks import FrameKind, FrameTree, Label
from ipuenv.ground.errors import UsageError

FLUID_WIDTH_PX = 1200
"""Width of a picture that has none of its own, until its script fits it to the window."""

MARGIN_PX = 10
FRAME_HEIGHT_PX = 16
FRAME_GAP_PX = 1
FONT_SIZE_PX = 12
FONT_WIDTH_EM = 0.59
TEXT_INDENT_PX = 3.0
BASELINE_PX = 10.5
MAX_PERCENT = 100
MIN_LABEL_CHARS = 3
"""A narrower frame has no label: one character and two dots."""

_SVG_ATTRIBUTES = 'xmlns="http://www.w3.org/2000/svg" xmlns:fg="http://github.com/jonhoo/inferno"'


@dataclass(frozen=True, kw_only=True, slots=True)
class SvgOptions:
    """How a flame graph is drawn.

    ``image_width`` is in pixels, None for as wide as the window; ``min_width`` is the narrowest frame drawn, in percent
    of all samples. Without ``deterministic`` colours, frames of one name differ in colour. ``notes`` are shown while no
    frame is pointed at.
    """

    title: str = "Flame Graph"
    subtitle: str = ""
    notes: str = ""
    image_width: int | None = None
    min_width: float = 0.01
    deterministic: bool = False
    palette: Palette = Palette.HOT

    def __post_init__(self) -> None:
        if self.image_width is not None and self.image_width <= 2 * MARGIN_PX:
            raise UsageError(
                f"image width {self.image_width} leaves no room for frames",
                expected=f"more than {2 * MARGIN_PX} pixels; 1200 and 1800 are common",
                hint="Give a larger image width, or none to fit the window.",
            )
        if not 0 <= self.min_width <= MAX_PERCENT:
            raise UsageError(
                f"min width {self.min_width:g} is not a percentage",
                expected="0 to 100: the narrowest frame that is drawn, in percent of all samples",
                hint="Give 0.2, for instance.",
            )


def render(tree: FrameTree, options: SvgOptions | None = None) -> bytes:
    """The tree's flame graph, an SVG file in UTF-8. A tree without samples is a :class:`UsageError`."""
    if not tree.total:
        raise UsageError(
            "there is nothing to draw: the stacks hold no samples",
            expected="at least one stack with a weight above 0",
            hint="Check that the program ran long enough to be sampled, and that no filter removed every stack.",
        )
    return "".join(_svg(tree, options or SvgOptions())).encode()


class _Page(NamedTuple):
    """Measures of the whole picture, in pixels; ``frames_bottom`` is the lower edge of the root frame."""

    width: int
    height: int
    frames_bottom: int

    @property
    def footer_y(self) -> int:
        return self.height - (2 * FONT_SIZE_PX + 10) // 2


def _page(options: SvgOptions, levels: int) -> _Page:
    above = FONT_SIZE_PX * (5 if options.subtitle else 3)
    below = FONT_SIZE_PX * 2 + 10
    bottom = above + levels * FRAME_HEIGHT_PX
    return _Page(options.image_width or FLUID_WIDTH_PX, bottom + below, bottom)


def _svg(tree: FrameTree, options: SvgOptions) -> Iterator[str]:
    total = tree.total
    layout = lay_out(tree, options.min_width)
    page = _page(options, layout.levels)
    yield from _head(options, page)
    yield (
        f'<svg id="frames" x="{MARGIN_PX}" width="{page.width - 2 * MARGIN_PX}" total_samples="{total}"'
        f' fg:fluid="{"no" if options.image_width else "yes"}">\n'
    )
    yield from _frames(layout, options, page, total)
    yield f"</svg>\n<script><![CDATA[\n{_asset('flamegraph.js')}]]></script>\n</svg>\n"


def _head(options: SvgOptions, page: _Page) -> Iterator[str]:
    width, height = page.width, page.height
    right, top, footer = width - MARGIN_PX, FONT_SIZE_PX * 2, page.footer_y
    yield '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n'
    yield f'<svg version="1.1" width="{width}" height="{height}" viewBox="0 0 {width} {height}" {_SVG_ATTRIBUTES}'
    yield f' font-family="monospace" font-size="{FONT_SIZE_PX}px">\n'
    yield f"<title>{_text(options.title)}</title>\n"
    yield f'<desc id="notes">{_text(options.notes)}</desc>\n'
    yield f"<style><![CDATA[\n{_asset('flamegraph.css')}]]></style>\n"
    yield '<rect id="background" width="100%" height="100%" fill="#fcfbf8"/>\n'
    yield f'<text id="title" x="50%" y="{top}" text-anchor="middle" font-size="{FONT_SIZE_PX + 5}px">'
    yield f"{_text(options.title)}</text>\n"
    if options.subtitle:
        yield f'<text id="subtitle" x="50%" y="{2 * top}" text-anchor="middle">{_text(options.subtitle)}</text>\n'
    yield f'<text id="details" x="{MARGIN_PX}" y="{footer}">{_text(options.notes)}</text>\n'
    yield f'<text id="unzoom" class="button hide" x="{MARGIN_PX}" y="{top}">Reset Zoom</text>\n'
    yield f'<text id="search" class="button" x="{right}" y="{top}" text-anchor="end">Search</text>\n'
    yield f'<text id="matched" x="{right}" y="{footer}" text-anchor="end"></text>\n'


class _Style(NamedTuple):
    """What all frames of a label share; ``escaped_name`` is the same object as ``name`` where nothing is escaped."""

    open_tag: str
    name: str
    escaped_name: str
    name_bytes: int
    fill: str


class _Styles:
    """Styles by label, made once each; colours that are not deterministic are made anew for each frame."""

    def __init__(self, labels: list[Label], fill: Fill, *, keeps_fill: bool) -> None:
        self._labels = labels
        self._fill = fill
        self._keeps_fill = keeps_fill
        self._made: dict[int, _Style] = {}

    def __getitem__(self, label_id: int) -> _Style:
        style = self._made.get(label_id)
        if style is None:
            style = self._made[label_id] = self._make(self._labels[label_id])
        elif not self._keeps_fill:
            label = self._labels[label_id]
            style = style._replace(fill=self._fill(label_text(label), label.kind))
        return style

    def _make(self, label: Label) -> _Style:
        name = drawn_name(label)
        escaped = escape(name)
        return _Style(
            open_tag=f'<g fg:kind="{label.kind}"><title>{escaped}',
            name=name,
            escaped_name=name if escaped == name else escaped,
            name_bytes=len(name.encode()),
            fill=self._fill(label_text(label), label.kind),
        )


def _frames(layout: Layout, options: SvgOptions, page: _Page, total: int) -> Iterator[str]:
    """One ``<g>`` per frame; numbers are computed and printed in inferno's order of operations, so they are equal."""
    fill = fills(options.palette, deterministic=options.deterministic)
    styles = _Styles(layout.tree.labels, fill, keeps_fill=options.deterministic)
    root = _Style("<g><title>all", "", "", 0, fill("", FrameKind.NATIVE))
    unit = _text(layout.tree.unit)
    percent_each = 100.0 / total
    indent = 100.0 * TEXT_INDENT_PX / page.width
    char_percent = 100.0 * FONT_SIZE_PX * FONT_WIDTH_EM / page.width
    for label_id, level, x, weight in layout.frames:
        style = root if label_id == NO_LABEL else styles[label_id]
        percent = "100" if label_id == NO_LABEL else f"{100.0 * weight / total:.2f}"
        left = x * percent_each
        width = (x + weight) * percent_each - left
        top = page.frames_bottom - (level + 1) * FRAME_HEIGHT_PX + FRAME_GAP_PX
        yield (
            f"{style.open_tag} ({weight:,} {unit}, {percent}%)</title>"
            f'<rect x="{left:.4f}%" y="{top}" width="{width:.4f}%" height="{FRAME_HEIGHT_PX - FRAME_GAP_PX}"'
            f' fill="{style.fill}" fg:x="{x}" fg:w="{weight}"/>'
            f'<text x="{left + indent:.4f}%" y="{top + BASELINE_PX:.2f}">'
            f"{_label(style, int(width / char_percent))}</text></g>\n"
        )


def _label(style: _Style, fitting_chars: int) -> str:
    """The name, cut to fit, escaped. Its length is taken in bytes and cut in characters, as inferno does."""
    if fitting_chars < MIN_LABEL_CHARS:
        return ""
    if style.name_bytes < fitting_chars:
        return style.escaped_name
    cut = style.name[: fitting_chars - 2]
    return (cut if style.escaped_name is style.name else escape(cut)) + ".."


def _text(text: str) -> str:
    return escape(printable(text))


@cache
def _asset(name: str) -> str:
    """A file that lies beside this module."""
    return files("ipuenv.engine").joinpath(name).read_text(encoding="utf-8")
