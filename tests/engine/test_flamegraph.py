"""The SVG file itself: what is in it, what is left out, and what no name can do to it."""

from __future__ import annotations

import re
from importlib.resources import files
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipuenv.engine.colors import Palette, fills
from ipuenv.engine.flamegraph import SvgOptions, render
from ipuenv.engine.layout import lay_out
from ipuenv.engine.stacks import FrameKind, FrameTree, Label
from ipuenv.ground.errors import UsageError
from tests.engine.pictures import SVG, parse, read_picture

HOSTILE = [
    "<script>alert(1)</script>", "</title><script>alert(1)</script>", "]]><script>alert(1)</script>", "--><svg onload='a()'>",
    '" onclick="alert(1)', "&lt;&#x3c;&notanentity;", "a\x00b\x1b[31m\x7f", "two\nlines\r\nmore\u2028end", "\ud800\udfff\ufffe",
    "name (1 samples, 2%)", "%s {0} ${x} \\u0041", "\u202ereversed",
]  # fmt: skip


def native(*names: str) -> list[Label]:
    return [Label(name, FrameKind.NATIVE) for name in names]


def tree_of(*stacks: tuple[list[Label], int], unit: str = "samples") -> FrameTree:
    tree = FrameTree(unit)
    for stack, weight in stacks:
        tree.add(stack, weight)
    return tree


def element(svg: bytes, name: str) -> ET.Element:
    return next(found for found in parse(svg).iter() if found.get("id") == name)


class TestFrames:
    def test_names_weights_and_places(self) -> None:
        tree = tree_of((native("main", "f"), 3), (native("main", "g"), 6), (native("main"), 1))
        picture = read_picture(render(tree, SvgOptions(image_width=1000)))
        shown = [(frame.level, frame.title, frame.x, frame.width, frame.label) for frame in picture.frames]
        assert shown == [
            (0, "all (10 samples, 100%)", "0.0000%", "100.0000%", ""),
            (1, "main (10 samples, 100.00%)", "0.0000%", "100.0000%", "main"),
            (2, "f (3 samples, 30.00%)", "10.0000%", "30.0000%", "f"),
            (2, "g (6 samples, 60.00%)", "40.0000%", "60.0000%", "g"),
        ]
        assert (picture.total_samples, picture.width, picture.height) == ("10", "1000", str(36 + 3 * 16 + 34))

    def test_large_numbers_and_the_unit(self) -> None:
        tree = tree_of((native("a"), 1_234_567), (native("b"), 1), unit="ns")
        titles = [frame.title for frame in read_picture(render(tree, SvgOptions(min_width=0))).frames]
        assert titles == ["all (1,234,568 ns, 100%)", "a (1,234,567 ns, 100.00%)", "b (1 ns, 0.00%)"]

    def test_every_frame_says_its_kind(self) -> None:
        stack = [Label(f"f{kind}", kind) for kind in FrameKind]
        picture = read_picture(render(tree_of((stack, 1)), SvgOptions()))
        assert picture.kinds == [None, *FrameKind]
        assert [frame.title.split(" ")[0] for frame in picture.frames] == ["all", *(f"f{kind}" for kind in FrameKind)]

    def test_a_frame_split_in_two_keeps_its_callees_together(self) -> None:
        tree = tree_of((native("f"), 4), (native("f", "x"), 3), (native("f:g"), 2))
        picture = read_picture(render(tree, SvgOptions()))
        places = [(frame.title.split(" ")[0], frame.fg_x, frame.fg_w) for frame in picture.frames]
        assert places == [("all", "0", "9"), ("f", "0", "4"), ("f:g", "4", "2"), ("f", "6", "3"), ("x", "6", "3")]

    def test_narrow_frames_go_with_all_above_them_and_lower_the_picture(self) -> None:
        tree = tree_of((native("wide"), 999), (native("narrow", *["deep"] * 50), 1))
        everything = read_picture(render(tree, SvgOptions(min_width=0)))
        pruned = read_picture(render(tree, SvgOptions(min_width=0.2)))
        assert [frame.title for frame in pruned.frames] == ["all (1,000 samples, 100%)", "wide (999 samples, 99.90%)"]
        assert int(everything.height) - int(pruned.height) == 50 * 16

    def test_a_frame_exactly_as_wide_as_the_limit_is_drawn(self) -> None:
        tree = tree_of((native("a"), 98), (native("b"), 2))
        assert len(read_picture(render(tree, SvgOptions(min_width=2))).frames) == 3
        assert len(read_picture(render(tree, SvgOptions(min_width=2.01))).frames) == 2

    def test_empty_stacks_widen_only_the_root(self) -> None:
        picture = read_picture(render(tree_of(([], 5), (native("a"), 5)), SvgOptions()))
        assert [(frame.fg_x, frame.fg_w) for frame in picture.frames] == [("0", "10"), ("0", "5")]

    def test_ten_thousand_levels(self) -> None:
        picture = read_picture(render(tree_of((native(*["f"] * 10_000), 2)), SvgOptions()))
        assert picture.frames[-1].level == 10_000

    def test_labels_are_cut_to_the_width_and_left_out_where_none_fits(self) -> None:
        stacks = [(native("n" * 10_000), 60), (native("abc<&>def"), 50), (native("x"), 1), (native("y"), 889)]
        frames = read_picture(render(tree_of(*stacks), SvgOptions(image_width=1200))).frames
        labels = {frame.title[0]: frame.label for frame in frames[1:]}
        assert labels == {"a": "abc<&>..", "n": "nnnnnnnn..", "x": "", "y": "y"}

    @given(st.lists(st.tuples(st.lists(st.sampled_from(HOSTILE), max_size=4), st.integers(1, 9)), min_size=1))
    def test_every_frame_lies_on_the_one_below_and_none_overlap(self, stacks: list[tuple[list[str], int]]) -> None:
        tree = tree_of(*((native(*names), weight) for names, weight in stacks))
        frames = lay_out(tree, 0).frames
        assert frames[0].weight == tree.total
        for number, frame in enumerate(frames[1:], 1):
            below = next(other for other in reversed(frames[:number]) if other.level == frame.level - 1)
            assert below.x <= frame.x
            assert frame.x + frame.weight <= below.x + below.weight
            same = [other for other in frames[:number] if other.level == frame.level]
            assert all(other.x + other.weight <= frame.x for other in same)
        assert sum(frame.weight for frame in frames if frame.level == 1) == tree.total - tree.weights[0]


class TestText:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_hostile_name_is_only_text(self, name: str) -> None:
        svg = render(tree_of((native("main", name), 1)), SvgOptions(title=name, subtitle=name, notes=name))
        plain = render(tree_of((native("main", "plain"), 1)), SvgOptions(title="t", subtitle="s", notes="n"))
        tags = [(found.tag, sorted(found.keys())) for found in parse(svg).iter()]
        assert tags == [(found.tag, sorted(found.keys())) for found in parse(plain).iter()]
        shown = re.sub("[\x00-\x08\x0a-\x1f\x7f\u2028\ud800-\udfff\ufffe]", "\ufffd", name)
        assert read_picture(svg).frames[-1].title == f"{shown} (1 samples, 100.00%)"
        assert element(svg, "title").text == element(svg, "subtitle").text == element(svg, "notes").text == shown
        assert element(svg, "details").text == shown

    @given(st.text(max_size=40))
    def test_any_name_makes_a_well_formed_file(self, name: str) -> None:
        frames = read_picture(render(tree_of((native("main", name), 1)), SvgOptions(title=name, notes=name))).frames
        assert len(frames) == 3

    def test_a_semicolon_is_drawn(self) -> None:
        assert read_picture(render(tree_of((native("[u8; 8]"), 1)), SvgOptions())).named("[u8; 8]")

    def test_script_and_style_hold_nothing_of_the_recording(self) -> None:
        names = [f"secret{number}" for number in range(5)]
        svg = render(tree_of((native(*names), 1), unit="secret unit"), SvgOptions(title="secret", notes="secret"))
        texts = {found.tag: found.text or "" for found in parse(svg).iter()}
        assert "secret" not in texts[SVG + "script"] + texts[SVG + "style"]
        assert len(texts[SVG + "script"]) > 1000

    def test_script_and_style_cannot_end_early_and_use_no_markup_sinks(self) -> None:
        folder = files("ipuenv.engine")
        text = "".join(folder.joinpath(name).read_text() for name in ("flamegraph.js", "flamegraph.css"))
        assert not re.search(r"]]>|</|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", text)


class TestOptions:
    def test_a_tree_without_samples_is_a_usage_error(self) -> None:
        for tree in (FrameTree(), tree_of((native("a"), 0))):
            with pytest.raises(UsageError, match="no samples") as error:
                render(tree)
            assert error.value.expected
            assert error.value.hint

    @pytest.mark.parametrize("width", [-1, 0, 20])
    def test_a_width_without_room_is_refused(self, width: int) -> None:
        with pytest.raises(UsageError, match=f"image width {width} "):
            SvgOptions(image_width=width)

    @pytest.mark.parametrize("width", [-0.1, 100.5, float("nan")])
    def test_a_min_width_that_is_no_percentage_is_refused(self, width: float) -> None:
        with pytest.raises(UsageError, match="min width"):
            SvgOptions(min_width=width)

    def test_only_a_picture_without_a_width_is_fluid(self) -> None:
        tree = tree_of((native("a"), 1))
        assert b' fg:fluid="yes"' in render(tree)
        assert b' fg:fluid="no"' in render(tree, SvgOptions(image_width=1800))

    def test_no_subtitle_leaves_no_gap(self) -> None:
        tree = tree_of((native("a"), 1))
        heights = [int(read_picture(render(tree, SvgOptions(subtitle=text))).height) for text in ("", "batch 1")]
        assert heights[1] - heights[0] == 24


class TestColours:
    TREE = tree_of(*((native("main", "f" * (number + 1), "leaf"), 1) for number in range(8)))

    @pytest.mark.parametrize("palette", Palette)
    def test_deterministic_colours_follow_the_name(self, palette: Palette) -> None:
        picture = read_picture(render(self.TREE, SvgOptions(deterministic=True, palette=palette)))
        leaves = {fill for frame, fill in zip(picture.frames, picture.fills, strict=True) if frame.label == "leaf"}
        others = {fill for frame, fill in zip(picture.frames, picture.fills, strict=True) if frame.label[:1] == "f"}
        assert len(leaves) == 1
        assert len(others) > 1

    def test_other_colours_differ_for_one_name_but_not_from_one_time_to_the_next(self) -> None:
        first, second = (read_picture(render(self.TREE, SvgOptions())) for _ in range(2))
        leaves = {fill for frame, fill in zip(first.frames, first.fills, strict=True) if frame.label == "leaf"}
        assert len(leaves) > 4
        assert first == second

    def test_kinds_have_hues_of_their_own(self) -> None:
        fill = fills(Palette.KIND, deterministic=True)
        assert len({fill("f", kind) for kind in FrameKind}) == len(FrameKind)

    @given(st.text(), st.sampled_from(Palette), st.sampled_from(FrameKind))
    def test_every_channel_is_a_byte(self, text: str, palette: Palette, kind: FrameKind) -> None:
        channels = re.fullmatch(r"rgb\((\d+),(\d+),(\d+)\)", fills(palette, deterministic=True)(text, kind))
        assert channels is not None
        assert all(int(channel) <= 255 for channel in channels.groups())
