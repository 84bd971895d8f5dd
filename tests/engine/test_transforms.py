"""Recursion collapsed, stacks turned round, threads apart: checked against the definition, stack by stack."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from ipuenv.engine import folding
from ipuenv.engine.stacks import FrameKind, FrameTree, Label
from ipuenv.engine.threads import split_threads
from ipuenv.engine.transforms import collapse_recursion, reverse
from ipuenv.engine.views import FULL, draw
from tests.engine.test_folding import Addresses
from tests.engine.test_perfdata import USER_MARKER, File, comm, sample

KINDS = st.sampled_from([FrameKind.NATIVE, FrameKind.INLINED])
LABELS = st.builds(Label, st.sampled_from("abc"), KINDS)
STACKS = st.lists(st.tuples(st.lists(LABELS, max_size=10), st.integers(1, 50)), max_size=25)

Stack = tuple[Label, ...]


def tree_of(stacks: list[tuple[list[Label], int]]) -> FrameTree:
    tree = FrameTree()
    for stack, weight in stacks:
        tree.add(stack, weight)
    return tree


def weights(tree: FrameTree) -> Counter[Stack]:
    found: Counter[Stack] = Counter()
    for node, weight in enumerate(tree.weights):
        found[tuple(tree.stack(node))] += weight
    return +found


@given(STACKS)
def test_collapsing_leaves_one_of_each_stretch(stacks: list[tuple[list[Label], int]]) -> None:
    expected: Counter[Stack] = Counter()
    for stack, weight in stacks:
        expected[tuple(label for label, _ in groupby(stack))] += weight
    assert weights(collapse_recursion(tree_of(stacks))) == expected


@given(STACKS)
def test_reversing_turns_every_stack_round(stacks: list[tuple[list[Label], int]]) -> None:
    expected: Counter[Stack] = Counter()
    for stack, weight in stacks:
        expected[tuple(reversed(stack))] += weight
    assert weights(reverse(tree_of(stacks))) == expected
    assert weights(reverse(reverse(tree_of(stacks)))) == weights(tree_of(stacks))


SAMPLES = st.lists(
    st.tuples(st.integers(7, 10), st.lists(st.integers(0x10, 0x14), max_size=6)), min_size=1, max_size=30
)


@given(SAMPLES)
def test_splitting_puts_each_thread_below_its_own_name(samples: list[tuple[int, list[int]]]) -> None:
    names = {7: "main", 8: "worker", 9: "worker", 10: "worker"}
    records = b"".join(comm(0, 7, tid, name.encode()) for tid, name in names.items())
    for time, (tid, chain) in enumerate(samples):
        records += sample(1 + time, [USER_MARKER, *chain], tid=tid, period=3)
    stacks = folding.fold(File(records).read(), Addresses())
    split = split_threads(stacks)
    expected: Counter[str] = Counter()
    for tid, chain in samples:
        addresses = [address - (index > 0) for index, address in enumerate(chain)]
        expected[";".join([f"{names[tid]}/{tid}", *(f"{address:x}" for address in reversed(addresses))])] += 1
    drawn = draw(split, FULL)
    found = {";".join(label.name for label in drawn.stack(n)): w for n, w in enumerate(drawn.weights) if w}
    assert found == dict(expected)
    assert sum(split.periods) == 3 * len(samples)
    assert [split.tree.path(node)[1:] for node in split.nodes] == [stacks.tree.path(node)[1:] for node in stacks.nodes]


def test_stacks_of_nobody_stay_as_they_are() -> None:
    tree = tree_of([([Label("a", FrameKind.NATIVE)], 3)])
    stacks = folding.from_frame_tree(tree)
    assert weights(draw(split_threads(stacks), FULL)) == weights(tree)


def test_deep_stacks_need_no_recursion() -> None:
    deep = [Label(f"f{index % 2}", FrameKind.NATIVE) for index in range(20_000)]
    assert reverse(tree_of([(deep, 1)])).total == 1
    assert collapse_recursion(tree_of([([deep[0]] * 20_000, 1)])).total == 1
