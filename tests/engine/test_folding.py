"""Folding: chains to one tree, against a plain reading of the same rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipuenv.engine import folding
from ipuenv.engine.dso import DsoFinder
from ipuenv.engine.perfdata import PerfData
from ipuenv.engine.stacks import Frame, FrameKind, FrameTree, Label
from ipuenv.engine.symbolize import KERNEL_BIT, Symbolizer
from ipuenv.engine.views import FULL, FUNCTIONS, draw
from tests.engine.test_perfdata import KERNEL_MARKER, USER_MARKER, File, comm, sample

GUEST_USER_MARKER, HYPERVISOR_MARKER = 2**64 - 2560, 2**64 - 32


class Addresses(Symbolizer):
    """Names every address by itself, so that tests see which address was looked up."""

    def __init__(self) -> None:
        super().__init__(DsoFinder(), None)

    def locate(self, address: int, space: object) -> int:
        kind = FrameKind.KERNEL if address & KERNEL_BIT else FrameKind.NATIVE
        name = f"{address & ~KERNEL_BIT:x}"
        return self.table.location([Frame(name, kind, name, "")])


def folded(data: PerfData) -> dict[str, int]:
    stacks = folding.fold(data, Addresses())
    tree = draw(stacks, FULL)
    return {
        ";".join(f"{label.name}{'_k' if label.kind is FrameKind.KERNEL else ''}" for label in tree.stack(node)): weight
        for node, weight in enumerate(tree.weights)
        if weight
    }


def expected_of(chain: Sequence[int], *, sampled_in_kernel: bool) -> str:
    """A chain by the rules, one entry after the other."""
    frames: list[str] = []
    is_kernel, opens = sampled_in_kernel, True
    for entry in chain:
        if entry >= 2**64 - 4095:
            is_kernel, opens = entry in (KERNEL_MARKER, HYPERVISOR_MARKER), True
            continue
        address = (entry if opens else entry - 1) & ~KERNEL_BIT
        frames.append(f"{address:x}{'_k' if is_kernel else ''}")
        opens = False
    return ";".join(["t", *reversed(frames)])


def read(chains: Sequence[Sequence[int]], misc: int = 2) -> PerfData:
    records = b"".join(sample(time + 1, chain, misc=misc) for time, chain in enumerate(chains))
    return File(comm(0, 7, 7, b"t") + records).read()


def test_only_return_addresses_are_looked_up_one_byte_earlier() -> None:
    chain = [KERNEL_MARKER, 0x100, 0x200, USER_MARKER, 0x30, 0x40]
    assert folded(read([chain])) == {"t;3f;30;1ff_k;100_k": 1}


@pytest.mark.parametrize(("misc", "suffix"), [(1, "_k"), (2, "")])
def test_without_a_marker_the_samples_own_mode_counts(misc: int, suffix: str) -> None:
    assert folded(read([[0x10, 0x20]], misc)) == {f"t;1f{suffix};10{suffix}": 1}


def test_an_empty_chain_is_weight_of_the_thread() -> None:
    assert folded(read([[], [USER_MARKER], [0x10]])) == {"t": 2, "t;10": 1}


def test_threads_of_one_name_share_a_stack_and_others_do_not() -> None:
    records = comm(0, 7, 7, b"a") + comm(0, 7, 8, b"a") + comm(0, 7, 9, b"b")
    records += b"".join(sample(time, [0x10], tid=tid) for time, tid in ((1, 7), (2, 8), (3, 9), (4, 7)))
    assert folded(File(records).read()) == {"a;10": 3, "b;10": 1}


def test_a_thread_without_a_name_is_shown_by_its_id() -> None:
    assert folded(File(sample(1, [0x10], tid=42)).read()) == {":42;10": 1}


def test_the_idle_thread_has_the_kernels_name() -> None:
    assert folded(File(sample(1, [0x10], pid=0, tid=0)).read()) == {"swapper;10": 1}


def test_a_new_name_begins_a_new_stack() -> None:
    records = comm(0, 7, 7, b"old") + sample(1, [0x10]) + comm(2, 7, 7, b"new") + sample(3, [0x10])
    assert folded(File(records).read()) == {"old;10": 1, "new;10": 1}


def test_rows_stand_in_time_order_with_their_nodes() -> None:
    stacks = folding.fold(read([[0x10, 0x99], [0x20, 0x99], [0x10, 0x99]]), Addresses())
    leaves = [
        stacks.table.frames[stacks.table.locations[stacks.tree.keys[node]].frames[0]].name for node in stacks.nodes
    ]
    assert leaves == ["10", "20", "10"]
    assert stacks.times.tolist() == [1, 2, 3]


def test_periods_are_added_as_integers() -> None:
    data = File(comm(0, 7, 7, b"t") + sample(1, [1], period=2**62) + sample(2, [1], period=3)).read()
    assert sum(folding.fold(data, Addresses()).periods) == 2**62 + 3


ENTRIES = st.sampled_from([KERNEL_MARKER, USER_MARKER, GUEST_USER_MARKER, HYPERVISOR_MARKER, *range(0x10, 0x18)])
CHAINS = st.lists(st.lists(ENTRIES, max_size=12), min_size=1, max_size=40)


@given(CHAINS, st.sampled_from([1, 2]))
def test_any_chains_fold_as_the_rules_say(chains: list[list[int]], misc: int) -> None:
    expected = Counter(expected_of(chain, sampled_in_kernel=misc == 1) for chain in chains)
    assert folded(read(chains, misc)) == dict(expected)


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    chains = [[0x10 + n % 3, 0x20 + n % 2, 0x30] for n in range(20)]
    whole = folded(read(chains))
    monkeypatch.setattr(folding, "_CHUNK_SAMPLES", chunk)
    assert folded(read(chains)) == whole


KINDS = st.sampled_from([FrameKind.NATIVE, FrameKind.INLINED, FrameKind.KERNEL])
LABELS = st.builds(Label, st.sampled_from(["a", "b", "c", "d"]), KINDS)


@given(st.lists(st.tuples(st.lists(LABELS, max_size=8), st.integers(1, 50)), max_size=20))
def test_stacks_from_text_draw_as_they_came(stacks: list[tuple[list[Label], int]]) -> None:
    tree = FrameTree()
    for stack, weight in stacks:
        tree.add(stack, weight)

    def weights(of: FrameTree) -> Counter[tuple[Label, ...]]:
        found: Counter[tuple[Label, ...]] = Counter()
        for node, weight in enumerate(of.weights):
            found[tuple(of.stack(node))] += weight
        return +found

    taken = folding.from_frame_tree(tree)
    assert weights(draw(taken, FULL)) == weights(tree)
    assert draw(taken, FUNCTIONS).total == tree.total


def test_functions_of_text_have_no_inlined_frames() -> None:
    tree = FrameTree()
    native, inlined = Label("f", FrameKind.NATIVE), Label("g", FrameKind.INLINED)
    tree.add([native, inlined, inlined], 2)
    tree.add([native, inlined, native], 3)
    drawn = draw(folding.from_frame_tree(tree), FUNCTIONS)
    found = {tuple(drawn.stack(node)): weight for node, weight in enumerate(drawn.weights) if weight}
    assert found == {(native,): 2, (native, native): 3}
