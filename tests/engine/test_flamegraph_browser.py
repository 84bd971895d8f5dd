"""The flame graph in a browser: zoom, search, labels, keys, and what names may not do there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Frame, Page, sync_playwright

from ipuenv.engine.flamegraph import SvgOptions, render
from ipuenv.engine.folded import read_folded
from ipuenv.engine.stacks import ROOT, FrameKind, FrameTree, Label
from tests.engine.pictures import random_stacks

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
WINDOW = {"width": 1200, "height": 700}
NAMES = [
    f"{crate}::{name}" for crate in ("alpha", "beta", "Alpha") for name in ("search", "plan", "score", "insert_all_of")
]
NAMES += ["日本語の長い長い名前", "<[u8; 8] as Trait>::call", "closure_[i]", "sys_call_[k]", "alpha::search"]
FOLDED = random_stacks(11, 120, NAMES, depth=14)
SMALL = "main;left;deep;leaf 30\nmain;left;deep 10\nmain;right;leaf 40\nmain;right;leaf;right 15\nmain 5\n"

READ_FRAMES = """() => Array.from(document.querySelectorAll('#frames > g'), (g) => {
  const [title, rect, text] = g.children;
  const shown = getComputedStyle(g).display !== 'none';
  return {
    title: title.textContent, shown, classes: g.getAttribute('class') || '', label: text.textContent,
    x: rect.getAttribute('x'), width: rect.getAttribute('width'), fill: getComputedStyle(rect).fill,
    opacity: Number(getComputedStyle(rect).fillOpacity),
    pixels: shown ? rect.getBBox().width : 0, textPixels: shown ? text.getComputedTextLength() : 0,
    textRight: shown && text.textContent ? text.getBBox().x + text.getBBox().width : 0,
    right: shown ? rect.getBBox().x + rect.getBBox().width : 0,
  };
})"""

Show = Callable[..., Page]
Frames = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("'chromium' is needed by this test: apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a picture from its file; afterwards no page may have reported an error."""
    context = browser.new_context(viewport=WINDOW)  # type: ignore[arg-type]
    complaints: list[str] = []

    def open_picture(source: str | FrameTree = SMALL, query: str = "", **options: Any) -> Page:
        tree = read_folded(source.encode()).tree if isinstance(source, str) else source
        (tmp_path / "picture.svg").write_bytes(
            render(tree, SvgOptions(**{"min_width": 0.0, "deterministic": True} | options))
        )
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((tmp_path / "picture.svg").as_uri() + query)
        return page

    yield open_picture
    context.close()
    assert complaints == []


def frames_of(page: Page | Frame) -> Frames:
    """Frames by title; titles repeat, so later ones get a number."""
    frames: Frames = {}
    for frame in page.evaluate(READ_FRAMES):
        title = frame["title"]
        while title in frames:
            title += "'"
        frames[title] = frame
    return frames


def shown_frames(page: Page) -> Frames:
    return {title: frame for title, frame in frames_of(page).items() if frame["shown"]}


def named(frames: Frames, name: str) -> dict[str, Any]:
    return next(frame for title, frame in frames.items() if title.startswith(name + " ("))


def click(page: Page | Frame, name: str) -> None:
    position = page.evaluate(
        "name => Array.from(document.querySelectorAll('#frames > g > title'))"
        ".findIndex((title) => title.textContent.startsWith(name + ' ('))",
        name,
    )
    page.locator("#frames > g").nth(position).locator("rect").click()


def search(page: Page, term: str) -> None:
    page.keyboard.press("Control+f")
    page.locator("#searchbar input").fill(term)


def text_of(page: Page, element: str) -> str:
    return page.locator(f"#{element}").text_content() or ""


def matched_share(tree: FrameTree, pattern: str, top: int = ROOT) -> float:
    """Percent of the samples below ``top`` whose stack has a frame that matches: each sample once."""
    below = {top}
    total = hits = 0
    matching: set[int] = set()
    for node in range(len(tree)):
        parent = tree.tree.parents[node]
        if parent in below:
            below.add(node)
        if node == ROOT or node not in below:
            continue
        if parent in matching or re.search(pattern, tree.labels[tree.tree.keys[node]].name):
            matching.add(node)
        total += tree.weights[node]
        hits += tree.weights[node] if node in matching else 0
    return 100 * hits / (total + (tree.weights[ROOT] if top == ROOT else 0))


class TestZoom:
    def test_a_click_widens_the_frame_dims_what_it_stands_on_and_hides_the_rest(self, show: Show) -> None:
        page = show()
        before = frames_of(page)
        assert not page.locator("#unzoom").is_visible()
        click(page, "deep")
        page.mouse.move(5, 5)
        frames = frames_of(page)
        assert {title.split(" ")[0]: frame["classes"] for title, frame in frames.items() if frame["shown"]} == {
            "all": "parent", "main": "parent", "left": "parent", "deep": "", "leaf": "",
        }  # fmt: skip
        assert [named(frames, name)["width"] for name in ("all", "main", "left", "deep")] == ["100.0000%"] * 4
        assert (named(frames, "leaf")["x"], named(frames, "leaf")["width"]) == ("25.0000%", "75.0000%")
        assert named(frames, "left")["opacity"] < named(before, "left")["opacity"] / 2
        assert named(frames, "deep")["opacity"] == named(before, "deep")["opacity"]

    def test_reset_zoom_restores_the_picture_and_the_address(self, show: Show) -> None:
        page = show()
        before, address = frames_of(page), page.url
        click(page, "deep")
        assert page.url != address
        page.locator("#unzoom").click()
        page.mouse.move(5, 5)
        assert frames_of(page) == before
        assert page.url == address
        assert not page.locator("#unzoom").is_visible()

    def test_a_dimmed_frame_and_the_root_can_be_clicked(self, show: Show) -> None:
        page = show()
        click(page, "deep")
        click(page, "main")
        assert named(frames_of(page), "right")["shown"]
        assert page.locator("#unzoom").is_visible()
        click(page, "all")
        assert not page.locator("#unzoom").is_visible()

    def test_a_frame_drawn_in_two_parts_zooms_into_the_part(self, show: Show) -> None:
        page = show("f 4\nf;x 3\nf:g 2\n")
        click(page, "x")
        shown = [frame for frame in frames_of(page).values() if frame["shown"]]
        assert [frame["title"] for frame in shown] == [
            "all (9 samples, 100%)",
            "f (3 samples, 33.33%)",
            "x (3 samples, 33.33%)",
        ]


class TestSearch:
    @pytest.mark.parametrize(
        "pattern", ["alpha", "^beta::plan$", "search|score", "closure", r"\[u8", "日本", "main", "al", "nothing at all"]
    )
    def test_matches_are_marked_and_each_sample_counts_once(self, show: Show, pattern: str) -> None:
        page = show(FOLDED)
        tree = read_folded(FOLDED.encode()).tree
        search(page, pattern)
        frames = frames_of(page)
        for title, frame in frames.items():
            name = title.rpartition(" (")[0]
            is_match = name != "all" and re.search(pattern, name) is not None
            assert ("match" in frame["classes"].split()) == is_match
        share = f"{matched_share(tree, pattern):.1f}".replace("100.0", "100")
        assert text_of(page, "matched") == f"Matched: {share}%"

    def test_a_match_within_a_match_adds_nothing(self, show: Show) -> None:
        page = show()
        search(page, "right|leaf")
        assert text_of(page, "matched") == "Matched: 85.0%"
        marked = [frame["fill"] for frame in frames_of(page).values() if frame["classes"] == "match"]
        assert len(marked) == 4
        assert len(set(marked)) == 1

    def test_within_a_zoomed_frame_the_share_is_of_that_frame(self, show: Show) -> None:
        page = show()
        search(page, "leaf")
        assert text_of(page, "matched") == "Matched: 85.0%"
        click(page, "left")
        assert text_of(page, "matched") == "Matched: 75.0%"
        click(page, "all")
        assert text_of(page, "matched") == "Matched: 85.0%"

    def test_reset_search_restores_the_picture(self, show: Show) -> None:
        page = show(FOLDED)
        before, address = frames_of(page), page.url
        page.locator("#search").click()
        page.keyboard.type("alpha")
        assert text_of(page, "search") == "Reset Search"
        assert frames_of(page) != before
        page.locator("#search").click()
        page.mouse.move(5, 5)
        assert frames_of(page) == before
        assert (text_of(page, "search"), text_of(page, "matched"), page.url) == ("Search", "", address)
        assert not page.locator("#searchbar").is_visible()

    def test_an_invalid_pattern_is_reported_and_changes_nothing(self, show: Show) -> None:
        page = show()
        search(page, "leaf")
        before = frames_of(page)
        search(page, "leaf(")
        assert "Invalid regular expression" in text_of(page, "matched")
        assert page.locator("#searchbar input").get_attribute("aria-invalid") == "true"
        assert frames_of(page) == before
        search(page, "leaf()")
        assert text_of(page, "matched") == "Matched: 85.0%"
        assert page.locator("#searchbar input").get_attribute("aria-invalid") is None

    def test_case_counts_unless_told_otherwise(self, show: Show) -> None:
        page = show("Main;Work 1\nMain;work 1\n")
        search(page, "work")
        assert text_of(page, "matched") == "Matched: 50.0%"
        page.locator("#searchbar button").click()
        assert text_of(page, "matched") == "Matched: 100%"
        page.locator("#searchbar button").click()
        assert text_of(page, "matched") == "Matched: 50.0%"

    def test_kinds_can_be_searched(self, show: Show) -> None:
        page = show("app;f;inner_[i] 3\napp;sys_[k] 1\napp;kind 4\n")
        search(page, "kind:inlined")
        assert text_of(page, "matched") == "Matched: 37.5%"
        search(page, "kind:kernel")
        assert text_of(page, "matched") == "Matched: 12.5%"


class TestLabels:
    def check(self, page: Page) -> int:
        labelled = [frame for frame in frames_of(page).values() if frame["shown"] and frame["label"]]
        for frame in labelled:
            assert frame["textPixels"] <= frame["pixels"]
            assert frame["textRight"] <= frame["right"]
            name = frame["title"].rpartition(" (")[0]
            assert frame["label"] == name or (frame["label"].endswith("..") and name.startswith(frame["label"][:-2]))
        return len(labelled)

    @pytest.mark.parametrize("image_width", [None, 1800, 700])
    def test_they_fit_from_the_start_and_after_zooming(self, show: Show, image_width: int | None) -> None:
        page = show(FOLDED, image_width=image_width)
        before = self.check(page)
        assert before > 20
        click(page, "日本語の長い長い名前")
        self.check(page)
        assert named(frames_of(page), "日本語の長い長い名前")["label"] == "日本語の長い長い名前"
        page.locator("#unzoom").click()
        assert self.check(page) == before

    def test_they_use_the_room_there_is(self, show: Show) -> None:
        frames = frames_of(show(FOLDED))
        char = named(frames, "main")["textPixels"] / len("main")
        for title, frame in frames.items():
            name = title.rpartition(" (")[0]
            if name.isascii() and frame["label"] != name and frame["pixels"] >= 4 * char:
                assert frame["pixels"] - frame["textPixels"] < 2 * char + 6

    def test_wide_characters_are_cut_where_they_end(self, show: Show) -> None:
        page = show(f"main;{'長い名前' * 50} 1\nmain;other 9\n")
        label = page.locator("#frames > g > text").nth(3)
        width = named(frames_of(page), "長い名前" * 50)["pixels"]
        assert "長い名前" in (label.text_content() or "")
        assert width - 40 < label.evaluate("text => text.getComputedTextLength()") <= width
        self.check(page)

    def test_a_fluid_picture_follows_the_window(self, show: Show) -> None:
        page = show(FOLDED)
        wide = named(frames_of(page), "all")["pixels"]
        page.set_viewport_size({"width": 600, "height": 700})
        page.wait_for_function("document.getElementById('frames').getAttribute('width') < 600")
        narrow = named(frames_of(page), "all")["pixels"]
        assert (wide, narrow) == (pytest.approx(1180, abs=20), pytest.approx(580, abs=20))
        self.check(page)
        box = page.locator("#search").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] == pytest.approx(narrow + 10, abs=1)

    def test_a_picture_with_a_width_keeps_it(self, show: Show) -> None:
        page = show(FOLDED, image_width=1800)
        assert named(frames_of(page), "all")["pixels"] == pytest.approx(1780)
        page.set_viewport_size({"width": 600, "height": 700})
        assert named(frames_of(page), "all")["pixels"] == pytest.approx(1780)


class TestDetails:
    def test_pointing_at_a_frame_shows_its_name_figures_and_kind(self, show: Show) -> None:
        page = show("app;<[u8: 8]>::into_[i] 3\napp 1\n", notes="16 workers")
        assert text_of(page, "details") == "16 workers"
        page.locator("#frames > g").nth(2).hover()
        assert text_of(page, "details") == "Function: <[u8: 8]>::into (3 samples, 75.00%) [inlined]"
        page.mouse.move(5, 5)
        assert text_of(page, "details") == "16 workers"

    def test_a_long_name_leaves_its_figures_in_sight(self, show: Show) -> None:
        page = show(f"app;{'n' * 10_000} 3\n")
        page.locator("#frames > g").nth(2).hover()
        assert text_of(page, "details").endswith("nn.. (3 samples, 100.00%)")
        assert page.locator("#details").evaluate("text => text.getComputedTextLength()") < 1180

    @pytest.mark.parametrize(
        "name",
        ["<script>window.hit = 1</script>", "]]><script>window.hit = 1</script>", "<img src=x onerror='window.hit = 1'>",
         "</title></g><script>window.hit = 1</script>", "javascript:window.hit=1"],
    )  # fmt: skip
    def test_a_name_is_text_wherever_it_shows(self, show: Show, name: str) -> None:
        tree = FrameTree()
        tree.add([Label("main", FrameKind.NATIVE), Label(name, FrameKind.NATIVE)], 3)
        page = show(tree, title=name, notes=name, subtitle=name)
        page.locator("#frames > g").nth(2).hover()
        assert text_of(page, "details") == f"Function: {name} (3 samples, 100.00%)"
        page.locator("#frames > g").nth(2).click()
        search(page, name)
        assert page.locator("#frames > g > text").nth(2).text_content() == name
        page.reload()
        assert page.evaluate("window.hit") is None
        assert page.locator("script").count() == 1


class TestAddress:
    def test_zoom_and_search_survive_a_reload(self, show: Show) -> None:
        page = show(FOLDED)
        click(page, "alpha::search")
        search(page, "SCORE|plan+")
        page.locator("#searchbar button").click()
        page.mouse.move(5, 5)
        before, matched = shown_frames(page), text_of(page, "matched")
        assert re.search(r"\?x=\d+&y=\d+&s=SCORE%7Cplan%2B&i=1$", page.url)
        page.reload()
        assert shown_frames(page) == before
        assert text_of(page, "matched") == matched
        assert page.locator("#searchbar input").evaluate("input => input.value") == "SCORE|plan+"

    @pytest.mark.parametrize("mark", ["?", "#"])
    def test_parameters_as_inferno_writes_them(self, show: Show, mark: str) -> None:
        page = show(SMALL, image_width=1200)
        leaf = page.locator("#frames > g", has_text="right (").first
        x, y = (leaf.locator("rect").get_attribute(name) for name in ("fg:x", "y"))
        other = show(SMALL, f"{mark}x={x}&y={y}&s=%5Eleaf", image_width=1200)
        assert named(frames_of(other), "right")["width"] == "100.0000%"
        assert text_of(other, "matched") == "Matched: 100%"

    @pytest.mark.parametrize("query", ["?x=99999&y=1", "?s=(", "?x=&s=", "?%zz=1&x"])
    def test_parameters_that_fit_nothing_do_no_harm(self, show: Show, query: str) -> None:
        plain = frames_of(show())
        assert frames_of(show(SMALL, query)) == plain


class TestKeys:
    def test_frames_are_reached_and_zoomed_by_keys(self, show: Show) -> None:
        page = show()
        focused = "(document.activeElement.querySelector('title') || document.activeElement).textContent"
        for expected in ("Search", "all (100 samples, 100%)"):
            page.keyboard.press("Tab")
            assert page.evaluate(focused) == expected
        for key, expected in [
            ("ArrowUp", "main"), ("ArrowUp", "right"), ("ArrowLeft", "left"), ("ArrowLeft", "left"), ("ArrowRight", "right"),
            ("ArrowUp", "leaf"), ("ArrowDown", "right"),
        ]:  # fmt: skip
            page.keyboard.press(key)
            assert page.evaluate(focused).startswith(expected + " (")
            assert text_of(page, "details").startswith(f"Function: {expected} (")
        page.keyboard.press("Enter")
        assert not named(frames_of(page), "left")["shown"]

    def test_escape_ends_the_search_then_the_zoom(self, show: Show) -> None:
        page = show()
        before = frames_of(page)
        click(page, "left")
        search(page, "leaf")
        page.keyboard.press("Escape")
        assert text_of(page, "search") == "Search"
        assert not named(frames_of(page), "right")["shown"]
        page.keyboard.press("Escape")
        page.mouse.move(5, 5)
        assert frames_of(page) == before

    def test_buttons_answer_to_enter(self, show: Show) -> None:
        page = show()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.type("leaf")
        assert text_of(page, "matched") == "Matched: 85.0%"


def test_inside_an_object_element_of_a_page(show: Show, tmp_path: Path) -> None:
    page = show()
    (tmp_path / "page.html").write_text('<object data="picture.svg" width="900" height="300"></object>')
    page.goto((tmp_path / "page.html").as_uri())
    inner = page.frames[1]
    inner.wait_for_selector("#frames")
    click(inner, "deep")
    assert not named(frames_of(inner), "right")["shown"]
    assert named(frames_of(inner), "all")["pixels"] == pytest.approx(880)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_can_be_read_on_every_colour(show: Show, scheme: str) -> None:
    """Contrast of text and rectangle by WCAG 2.1; 3 is its floor for large text and for graphics."""
    page = show(FOLDED)
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    worst = page.evaluate(
        """() => {
          const parse = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
          const linear = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
          const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
          const paper = parse(getComputedStyle(document.getElementById('background')).fill);
          return Math.min(...Array.from(document.querySelectorAll('#frames > g'), (g) => {
            const style = getComputedStyle(g.children[1]);
            const fill = parse(style.fill).map((c, n) => c * style.fillOpacity + paper[n] * (1 - style.fillOpacity));
            const [a, b] = [light(fill), light(parse(getComputedStyle(g.children[2]).fill))].sort((p, q) => q - p);
            return (a + 0.05) / (b + 0.05);
          }));
        }"""
    )
    assert worst > 3
