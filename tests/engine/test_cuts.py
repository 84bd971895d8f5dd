"""Cuts: no sample is lost, and what is kept is what was asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipuenv.engine import cuts, views
from ipuenv.engine.cuts import Cut, Span, parse_span
from ipuenv.engine.flamegraph import render
from ipuenv.engine.folded import folded_lines, read_folded
from ipuenv.engine.folding import StackTree, from_frame_tree
from ipuenv.engine.stacks import ROOT
from ipuenv.ground.errors import UsageError
from tests.engine.generated import SAMPLES, TREES, Sampled, native, stack_tree, threads_of


def sampled(comm: str, tid: int, *names: str) -> Sampled:
    return Sampled(comm, 7, tid, tuple(((native(name),), (), "") for name in names), 5)


def is_whole(cut: Cut, stacks: StackTree) -> bool:
    """Whether the parts hold every sample of every thread once, in trees that hold nothing else."""
    for part in (cut.kept, cut.dropped):
        totals = part.tree.totals(
            [samples + bool(period) for samples, period in zip(part.samples, part.periods, strict=True)]
        )
        assert all(totals[1:])
        assert len(part.samples) == len(part.periods) == len(part.tree)
        assert views.draw(part, views.FULL).total == part.total == int(part.rows.samples.sum())
    assert sum(cut.kept.periods) + sum(cut.dropped.periods) == sum(stacks.periods)
    return threads_of(cut.kept) + threads_of(cut.dropped) == threads_of(stacks)


@given(TREES, st.data())
def test_kept_and_dropped_are_all(stacks: StackTree, data: st.DataObject) -> None:
    count = len(stacks.nodes)
    flags = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), np.bool_)
    cut = cuts.by_rows(stacks, flags)
    assert is_whole(cut, stacks)
    assert cut.kept.times.tolist() == stacks.times[flags].tolist()
    assert cut.kept.total == int(flags.sum())


@given(st.lists(SAMPLES, min_size=1, max_size=30), st.data())
def test_a_thread_is_kept_by_name_or_id(samples: list[Sampled], data: st.DataObject) -> None:
    stacks = stack_tree(samples)
    chosen = data.draw(st.sampled_from(samples))
    by_name, by_id = cuts.by_thread(stacks, [chosen.comm]), cuts.by_thread(stacks, [str(chosen.tid)])
    assert by_name.kept.total == sum(sample.comm == chosen.comm for sample in samples)
    assert by_id.kept.total == sum(sample.tid == chosen.tid for sample in samples)
    assert is_whole(by_name, stacks)
    assert is_whole(by_id, stacks)
    both = cuts.by_thread(stacks, [chosen.comm, str(chosen.tid)])
    assert both.kept.total == sum(sample.comm == chosen.comm or sample.tid == chosen.tid for sample in samples)


@given(TREES, st.integers(0, 40), st.integers(1, 40))
def test_time_counts_from_the_first_sample_and_ends_before_the_end(stacks: StackTree, begin: int, length: int) -> None:
    count = len(stacks.nodes)
    span = Span(begin / 1e6, (begin + length) / 1e6)
    if begin >= count:
        with pytest.raises(UsageError, match="no sample was taken"):
            cuts.by_time(stacks, span)
        return
    cut = cuts.by_time(stacks, span)
    assert cut.kept.total == min(begin + length, count) - begin
    assert is_whole(cut, stacks)
    assert cuts.by_time(stacks, Span(begin / 1e6, None)).kept.total == count - begin


def test_a_cut_is_drawn_as_if_nothing_else_had_been_recorded() -> None:
    mine = [sampled("mine", 7, "main", "f"), sampled("mine", 8, "main"), sampled("mine", 7, "main", "f")]
    others = [sampled("other", 9, "main", "g"), sampled("other", 9, "main", "f")]
    stacks = stack_tree([mine[0], others[0], mine[1], others[1], mine[2]])
    kept = cuts.by_thread(stacks, ["mine"]).kept
    for view in views.BUILT_IN:
        assert render(views.draw(kept, view)) == render(views.draw(stack_tree(mine), view))
    assert len(kept.tree) == len(stack_tree(mine).tree)


def test_a_name_that_is_a_number_is_a_name_first() -> None:
    stacks = stack_tree([sampled("8", 7, "f"), sampled("x", 8, "g")])
    assert cuts.by_thread(stacks, ["8"]).kept.tids.tolist() == [7]


def test_a_thread_that_is_not_there_is_answered_with_those_that_are() -> None:
    samples = [sampled("busy", 7, "f"), sampled("busy", 7, "f"), *(sampled(f"w{n}", 100 + n, "f") for n in range(14))]
    with pytest.raises(UsageError, match="there is no thread 'busi'") as caught:
        cuts.by_thread(stack_tree(samples), ["busy", "busi"])
    assert caught.value.expected.startswith("a thread's name or id: busy (7), w0 (100), ")
    assert caught.value.expected.endswith("w10 (110) and 3 more")


def test_folded_stacks_are_cut_by_their_first_frame_and_not_by_time() -> None:
    stacks = from_frame_tree(read_folded(b"a;main;f 3\nb;main 2\na;main 1\n").tree)
    cut = cuts.by_thread(stacks, ["a"])
    assert list(folded_lines(views.draw(cut.kept, views.FULL))) == ["a;main 1", "a;main;f 3"]
    assert list(folded_lines(views.draw(cut.dropped, views.FULL))) == ["b;main 2"]
    with pytest.raises(UsageError, match="needs to know when each sample was taken"):
        cuts.by_time(stacks, Span(0, 1))


def test_weight_of_the_root_itself_is_of_no_thread() -> None:
    stacks = replace(from_frame_tree(read_folded(b"a 1\n").tree), samples=[2, 1], periods=[2, 1])
    cut = cuts.by_thread(stacks, ["a"])
    assert (cut.kept.samples, cut.dropped.samples[ROOT]) == ([0, 1], 2)


@pytest.mark.parametrize(
    ("text", "span"),
    [("1..2.5", (1, 2.5)), ("..2", (0, 2)), ("3..", (3, None)), (" .5..1. ", (0.5, 1)), ("0..1", (0, 1))],
)
def test_ranges(text: str, span: tuple[float, float | None]) -> None:
    assert parse_span(text) == Span(*span)


@pytest.mark.parametrize(
    "text", ["", "..", "1", "1-2", "2..1", "1..1", "-1..2", "a..b", "1..2..3", "nan..1", "1..inf", "1e3.."]
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no range of time"):
        parse_span(text)


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_counted_seconds_are_printed_as_they_are_read(begin: int, length: int) -> None:
    span = parse_span(f"{begin / 1000}..{(begin + length) / 1000}")
    assert span == Span(begin / 1000, (begin + length) / 1000)
    assert Counter(str(span).split())["s"] == 2
