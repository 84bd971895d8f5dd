"""speedscope's JSON: every sample of every thread, in its order, written in small pieces."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ipuenv.engine import views
from ipuenv.engine.folded import printable, read_folded
from ipuenv.engine.folding import StackTree, from_frame_tree
from ipuenv.engine.hot import hot_functions
from ipuenv.engine.speedscope import write_speedscope
from ipuenv.engine.stacks import Frame, FrameKind
from tests.engine.generated import CLOCK, CYCLES, PROGRAM, SAMPLES, Sampled, native, stack_tree


def written(stacks: StackTree) -> dict[str, Any]:
    out = io.StringIO()
    write_speedscope(stacks, out, name="a title", exporter="a test")
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def place(name: str, *inlined: str, file: str = "") -> tuple[tuple[Frame, ...], tuple[int, ...], str]:
    return (native(name, file), *(Frame(inner, FrameKind.INLINED, inner, PROGRAM, file) for inner in inlined)), (), ""


def stretches(document: dict[str, Any], profile: dict[str, Any]) -> list[tuple[tuple[str, ...], int]]:
    """Names of each stack, root first, and its weight."""
    names = [frame["name"] for frame in document["shared"]["frames"]]
    pairs = zip(profile["samples"], profile["weights"], strict=True)
    return [(tuple(names[frame] for frame in stack), weight) for stack, weight in pairs]


@given(st.lists(SAMPLES, min_size=1, max_size=30))
def test_threads_keep_their_samples_in_order(samples: list[Sampled]) -> None:
    document = written(stack_tree(samples, sampling=CLOCK))
    threads: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for sample in samples:
        names = tuple(printable(frame.name) for frames, _, _ in sample.stack for frame in frames)
        threads.setdefault(printable(f"{sample.comm} (tid {sample.tid})"), []).append((names, sample.period))
    found = {profile["name"]: merged(stretches(document, profile)) for profile in document["profiles"]}
    assert found == {name: merged(stacks) for name, stacks in threads.items()}
    totals = [profile["endValue"] for profile in document["profiles"]]
    assert totals == sorted(totals, reverse=True)
    assert totals == [sum(profile["weights"]) for profile in document["profiles"]]
    assert {profile["unit"] for profile in document["profiles"]} == {"nanoseconds"}


def merged(stacks: list[tuple[tuple[str, ...], int]]) -> list[tuple[tuple[str, ...], int]]:
    """Neighbours of equal names joined: two lines of one function are two stacks to us and one to a reader."""
    return [(names, sum(weight for _, weight in group)) for names, group in groupby(stacks, key=lambda pair: pair[0])]


def test_repeated_stacks_are_one_stretch() -> None:
    a, b = place("main", "f"), place("main")
    samples = [Sampled("t", 7, 7, (stack,), 5) for stack in (a, a, b, a)]
    document = written(stack_tree(samples, sampling=CLOCK))
    (profile,) = document["profiles"]
    assert stretches(document, profile) == [(("main", "f"), 10), (("main",), 5), (("main", "f"), 5)]
    assert (profile["startValue"], profile["endValue"]) == (0, 20)


def test_weights_are_time_where_the_event_tells_it_and_samples_where_not() -> None:
    samples = [Sampled("t", 7, 7, (place("main"),), 5)] * 3
    by_unit = {}
    for sampling in (CLOCK, CYCLES, None):
        (profile,) = written(stack_tree(samples, sampling=sampling))["profiles"]
        by_unit[profile["unit"], profile["endValue"]] = sampling
    assert list(by_unit) == [("nanoseconds", 15), ("nanoseconds", 3_000_000), ("none", 3)]


def test_a_frame_has_a_file_where_all_of_its_name_have_the_same() -> None:
    stacks = stack_tree(
        [Sampled("t", 7, 7, (place("f", file="f.rs"), place("g", file="g.rs"), place("g", file="h.rs"), place("h")), 1)]
    )
    document = written(stacks)
    assert document["shared"]["frames"] == [{"name": "f", "file": "f.rs"}, {"name": "g"}, {"name": "h"}]
    assert document["profiles"][0]["samples"] == [[0, 1, 1, 2]]


def test_stacks_without_threads_are_one_profile() -> None:
    stacks = from_frame_tree(read_folded(b"a;b;c_[i] 3\na;b 2\n[no frames] 1\n").tree)
    document = written(stacks)
    (profile,) = document["profiles"]
    assert profile["name"] == "all stacks"
    assert Counter(dict(stretches(document, profile))) == {("[no frames]",): 1, ("a", "b"): 2, ("a", "b", "c"): 3}
    assert (document["name"], document["exporter"]) == ("a title", "a test")


def test_an_empty_tree_has_no_profile() -> None:
    assert written(stack_tree([]))["profiles"] == []


def test_a_thread_that_changes_its_name_is_two_profiles() -> None:
    samples = [Sampled(comm, 7, 7, (place("main"),), 1) for comm in ("old", "new", "new")]
    assert [p["name"] for p in written(stack_tree(samples))["profiles"]] == ["new (tid 7)", "old (tid 7)"]


def test_names_count_as_in_our_pictures() -> None:
    """What speedscope adds up by frame is what the list of hot functions says."""
    samples = [
        Sampled("t", 7, 7, (place("main"), place("f", "g"), place("f")), 1),
        Sampled("t", 7, 7, (place("main", "f"),), 1),
    ]
    stacks = stack_tree(samples)
    document = written(stacks)
    own: Counter[str] = Counter()
    for names, weight in stretches(document, document["profiles"][0]):
        own[names[-1]] += weight
    hot: Counter[str] = Counter()
    for function in hot_functions(views.draw(stacks, views.FULL), 10):
        hot[function.name] += function.self_weight
    assert own == +hot


def test_no_piece_grows_with_the_file() -> None:
    class Pieces(io.StringIO):
        largest = count = 0

        def write(self, text: str) -> int:
            self.largest, self.count = max(self.largest, len(text)), self.count + 1
            return super().write(text)

    stacks = stack_tree([Sampled("t", 7, 7, (place(f"f{n % 7}"),) * 40, 1) for n in range(9_000)])
    out = Pieces()
    write_speedscope(stacks, out, name="", exporter="")
    assert out.largest < len(out.getvalue()) / 2
    assert out.count > 3
    assert sum(profile["endValue"] for profile in json.loads(out.getvalue())["profiles"]) == 9_000


def test_surrogates_and_controls_do_not_reach_the_file() -> None:
    stacks = stack_tree([Sampled("raw\udcff", 7, 7, (place("a\x00b"),), 1)])
    document = written(replace(stacks, unit="samples"))
    assert document["profiles"][0]["name"] == "raw\ufffd (tid 7)"
    assert document["shared"]["frames"][0]["name"] == "a\ufffdb"
