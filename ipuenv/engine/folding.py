"""Samples to one prefix tree of locations.

Successive samples of one thread share most of their stack, root first (nine tenths in a Rayon program). So chains are
compared with their predecessor as arrays, and only what differs is named and added to the tree: the cost follows the
change, not the depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from ipuenv.engine.mappings import Tasks, rows_by_key
from ipuenv.engine.stacks import ROOT, Frame, FrameKind, PrefixTree
from ipuenv.engine.symbolize import KERNEL_BIT, LocationTable, Symbolizer

if TYPE_CHECKING:
    import numpy.typing as npt

    from ipuenv.engine.perfdata import PerfData, Samples
    from ipuenv.engine.stacks import FrameTree

    Ints = npt.NDArray[np.int64]
    Words = npt.NDArray[np.uint64]
    Array = TypeVar("Array", Ints, Words)

_CHUNK_SAMPLES = 1 << 13
_FIRST_MARKER = np.uint64(2**64 - 4095)
_KERNEL_MARKERS = tuple(np.uint64(2**64 - distance) for distance in (32, 128, 2048 + 128))
_KERNEL_BIT = np.uint64(KERNEL_BIT)
_ONE = np.uint64(1)
_JOINABLE = (FrameKind.NATIVE, FrameKind.INLINED)
_NANOSECONDS = 1_000_000_000

CLOCK_EVENTS = ("cpu-clock", "task-clock")
"""Events whose period is CPU time in nanoseconds."""

UNKNOWN_ID = -1
"""A pid or tid that nothing says."""

IDLE = "swapper"
"""What the kernel calls its idle threads, all of tid 0, for which perf writes no name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """What was counted: perf's name of the event, empty if there were several or it is not known.

    ``interval_ns`` is the CPU time of a thread between two of its samples, as the frequency asked for it; 0 if none was.
    """

    event: str = ""
    is_clock: bool = False
    interval_ns: int = 0


class Rows(NamedTuple):
    """Weighted stacks of threads: the node, the thread, and the samples and periods that the row stands for."""

    nodes: npt.NDArray[np.int32]
    tids: Ints
    pids: Ints
    samples: Ints
    periods: Words


def _no_numbers() -> Ints:
    return np.zeros(0, np.int64)


def _no_words() -> Words:
    return np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackTree:
    """What was sampled. Node ``n`` of ``tree`` is location ``tree.keys[n]`` of ``table``; level one is the comm.

    ``samples`` and ``periods`` are each node's own weights; ``unit`` says what the former count. ``nodes``, ``tids``,
    ``pids``, ``row_samples`` and ``row_periods`` have one row a sample, in the order of ``times`` (nanoseconds). Stacks
    whose source has no times have a row for each stack of each thread, or no rows, and an empty ``times``;
    :attr:`rows` is there for all of them.
    """

    table: LocationTable
    tree: PrefixTree
    samples: list[int]
    periods: list[int]
    nodes: npt.NDArray[np.int32]
    times: Words
    tids: Ints
    pids: Ints = field(default_factory=_no_numbers)
    row_samples: Ints = field(default_factory=_no_numbers)
    row_periods: Words = field(default_factory=_no_words)
    sampling: Sampling = field(default_factory=Sampling)
    unit: str = "samples"

    @property
    def total(self) -> int:
        """Number of samples."""
        return sum(self.samples)

    @property
    def is_timed(self) -> bool:
        """Whether it is known when each sample was taken."""
        return bool(len(self.times)) and bool(self.times[-1])

    @property
    def comms(self) -> dict[int, str]:
        """Names of threads by the nodes that stand for them; what stands at the root otherwise is no thread's name."""
        frames, locations, tree = self.table.frames, self.table.locations, self.tree
        tops = [node for node in range(1, len(tree)) if tree.parents[node] == ROOT]
        named = ((node, frames[locations[tree.keys[node]].frames[0]]) for node in tops)
        return {node: frame.name for node, frame in named if frame.kind is FrameKind.COMM}

    @property
    def rows(self) -> Rows:
        """All weighted stacks; one row for each where it is not known which threads they are of."""
        if len(self.nodes):
            return Rows(self.nodes, self.tids, self.pids, self.row_samples, self.row_periods)
        samples, periods = np.array(self.samples, np.int64), np.array(self.periods, np.uint64)
        nodes = np.flatnonzero((samples != 0) | (periods != 0)).astype(np.int32)
        nobody = np.full(len(nodes), UNKNOWN_ID, np.int64)
        return Rows(nodes, nobody, nobody, samples[nodes], periods[nodes])


def fold(data: PerfData, symbolizer: Symbolizer, on_progress: Callable[[int, int], None] | None = None) -> StackTree:
    """Fold a recording's samples into one tree. ``on_progress`` is told samples done and samples in all."""
    samples, tasks = data.samples, Tasks(data.tasks, dict(data.features.build_ids))
    spaces = tasks.spaces_at(samples.pid, samples.time)
    comms = tasks.comms_at(samples.tid, samples.time)
    comms = _named(comms, samples.tid, tasks)
    by_thread = np.lexsort((np.arange(len(samples)), spaces, comms, samples.tid))
    folder = _Folder(tasks, symbolizer)
    nodes = np.zeros(len(samples), np.int32)
    for begin in range(0, len(samples), _CHUNK_SAMPLES):
        rows = by_thread[begin : begin + _CHUNK_SAMPLES]
        nodes[rows] = folder.add(data.words, samples, rows, spaces[rows], comms[rows])
        if on_progress is not None:
            on_progress(min(begin + _CHUNK_SAMPLES, len(samples)), len(samples))
    size = len(folder.tree)
    return StackTree(
        table=symbolizer.table,
        tree=folder.tree,
        samples=np.bincount(nodes, minlength=size).tolist(),
        periods=summed(nodes, samples.period, size),
        nodes=nodes,
        times=samples.time if data.has_time else np.zeros(0, np.uint64),
        tids=samples.tid,
        pids=samples.pid,
        row_samples=np.ones(len(samples), np.int64),
        row_periods=samples.period,
        sampling=_sampling(data),
    )


def _sampling(data: PerfData) -> Sampling:
    """What the one event counts that took samples."""
    sampled = np.unique(data.samples.event).tolist()
    if len(sampled) != 1:
        return Sampling()
    event = data.events[sampled[0]]
    return Sampling(
        event=event.name,
        is_clock=event.name.split(":")[0] in CLOCK_EVENTS,
        interval_ns=round(_NANOSECONDS / event.frequency_hz) if event.frequency_hz else 0,
    )


def summed(nodes: npt.NDArray[np.int32], weights: Ints | Words, size: int) -> list[int]:
    """Weights by node, added as integers: floats would lose counts beyond 2**53."""
    sums = np.zeros(size, weights.dtype)
    np.add.at(sums, nodes, weights)
    numbers: list[int] = sums.tolist()
    return numbers


def _named(comms: Ints, tids: Ints, tasks: Tasks) -> Ints:
    """Threads without a name are shown as perf shows them: ``:TID``."""
    nameless = np.flatnonzero(comms < 0)
    if len(nameless):
        comms = comms.copy()
        for tid, rows in rows_by_key(tids[nameless]):
            comms[nameless[rows]] = tasks.comm_id(f":{tid}" if tid else IDLE)
    return comms


class _Folder:
    """The tree as it grows, with the path of the thread at hand."""

    def __init__(self, tasks: Tasks, symbolizer: Symbolizer) -> None:
        self.tree = PrefixTree()
        self._tasks = tasks
        self._symbolizer = symbolizer
        self._located: dict[tuple[int, int], int] = {}
        self._comm_nodes: dict[int, int] = {}

    def add(self, words: Words, samples: Samples, rows: Ints, spaces: Ints, comms: Ints) -> npt.NDArray[np.int32]:
        """Add samples that stand in thread order; the tree's node for each."""
        addresses, lengths = _chains(words, samples, rows)
        ends = np.cumsum(lengths)
        same = (samples.tid[rows][1:] == samples.tid[rows][:-1]) & (spaces[1:] == spaces[:-1])
        same &= comms[1:] == comms[:-1]
        shared = shared_levels(addresses, ends, lengths, same)
        fresh = lengths - shared
        locations = self._locations(leading(addresses, ends - lengths, fresh), np.repeat(spaces, fresh))
        return grow(self.tree, locations, fresh, shared, [self._comm_node(comm) for comm in comms.tolist()])

    def _locations(self, addresses: Words, spaces: Ints) -> list[int]:
        """Location ids of addresses; each distinct one is looked up once in the life of the tree."""
        order = np.lexsort((addresses, spaces))
        addresses, spaces = addresses[order], spaces[order]
        is_new = np.ones(len(order), bool)
        is_new[1:] = (addresses[1:] != addresses[:-1]) | (spaces[1:] != spaces[:-1])
        distinct = zip(addresses[is_new].tolist(), spaces[is_new].tolist(), strict=True)
        ids = np.array([self._locate(address, space) for address, space in distinct], np.int64)
        result = np.empty(len(order), np.int64)
        result[order] = ids[np.cumsum(is_new) - 1] if len(order) else ids
        located: list[int] = result.tolist()
        return located

    def _locate(self, address: int, space: int) -> int:
        key = (address, -1 if address & KERNEL_BIT else space)
        found = self._located.get(key)
        if found is None:
            where = self._tasks.spaces[space] if space >= 0 else None
            found = self._located[key] = self._symbolizer.locate(address, where)
        return found

    def _comm_node(self, comm: int) -> int:
        node = self._comm_nodes.get(comm)
        if node is None:
            name = self._tasks.comms[comm]
            location = self._symbolizer.table.location([Frame(name, FrameKind.COMM, name, "")])
            node = self._comm_nodes[comm] = self.tree.child(ROOT, location)
        return node


def _chains(words: Words, samples: Samples, rows: Ints) -> tuple[Words, Ints]:
    """Look-up addresses of the samples' chains, leaf first, one after the other, and each chain's length.

    Context markers are taken out. An address behind another of its context is a return address and is looked up one
    byte earlier, inside the call; the first of a context is the interrupted instruction itself.
    """
    lengths = samples.chain_length[rows]
    starts = samples.chain_start[rows]
    offsets = np.cumsum(lengths) - lengths
    sample_of = np.repeat(np.arange(len(rows)), lengths)
    index = np.arange(len(sample_of)) - offsets[sample_of] + starts[sample_of]
    entries = words[index]
    is_marker = entries >= _FIRST_MARKER
    opens = np.ones(len(entries), bool)
    opens[1:] = is_marker[:-1]
    opens[offsets[lengths > 0]] = True
    is_kernel = _contexts(entries, is_marker, offsets[sample_of], samples.is_kernel[rows][sample_of])
    addresses = entries - np.where(opens, np.uint64(0), _ONE)
    addresses = np.where(is_kernel, addresses | _KERNEL_BIT, addresses & ~_KERNEL_BIT)
    kept = ~is_marker
    return addresses[kept], np.bincount(sample_of[kept], minlength=len(rows))


def _contexts(
    entries: Words, is_marker: npt.NDArray[np.bool_], chain_start: Ints, sampled_in_kernel: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Whether each entry is a kernel address: by the marker before it, or by the sample's own mode."""
    positions = np.arange(len(entries))
    last_marker = np.maximum.accumulate(np.where(is_marker, positions, -1)) if len(entries) else positions
    has_marker = last_marker >= chain_start
    by_marker = np.isin(entries[np.maximum(last_marker, 0)], _KERNEL_MARKERS)
    result: npt.NDArray[np.bool_] = np.where(has_marker, by_marker, sampled_in_kernel)
    return result


def grow(
    tree: PrefixTree, locations: list[int], fresh: Ints, shared: Ints, tops: Sequence[int]
) -> npt.NDArray[np.int32]:
    """Add chains to a tree; the node of each.

    From chain to chain it goes back up to what is ``shared``, then down the ``fresh`` part, whose ``locations`` stand
    leaf first. A chain that shares nothing begins below its node of ``tops``.
    """
    child = tree.child
    nodes: list[int] = []
    path: list[int] = []
    at = 0
    for count, kept, top in zip(fresh.tolist(), shared.tolist(), tops, strict=True):
        if not kept:
            path = [top]
        else:
            del path[kept + 1 :]
        node = path[-1]
        for location in locations[at : at + count][::-1]:
            node = child(node, location)
            path.append(node)
        at += count
        nodes.append(node)
    return np.array(nodes, np.int32)


def shared_levels(chains: Words | Ints, ends: Ints, lengths: Ints, same: npt.NDArray[np.bool_]) -> Ints:
    """How many entries, from the root, each chain shares with the one before it.

    Chains stand one after the other, leaf first, and end before ``ends``. Each but the first has a flag in ``same``; where
    it is false, and for the first, nothing is shared.
    """
    if not len(lengths):
        return lengths
    common = np.where(same, np.minimum(lengths[1:], lengths[:-1]), 0)
    pair_of = np.repeat(np.arange(len(common)), common)
    level = np.arange(len(pair_of)) - np.repeat(np.cumsum(common) - common, common)
    differs = chains[ends[1:][pair_of] - 1 - level] != chains[ends[:-1][pair_of] - 1 - level]
    places = np.flatnonzero(differs)
    pairs = pair_of[places]
    is_first = np.ones(len(pairs), bool)
    is_first[1:] = pairs[1:] != pairs[:-1]
    shared = common.copy()
    shared[pairs[is_first]] = level[places[is_first]]
    return np.concatenate((np.zeros(1, np.int64), shared))


def leading(chains: Array, starts: Ints, counts: Ints) -> Array:
    """The first ``counts`` entries of each chain: the leaf-ward part that is new."""
    chain_of = np.repeat(np.arange(len(counts)), counts)
    index = np.arange(len(chain_of)) - np.repeat(np.cumsum(counts) - counts, counts) + starts[chain_of]
    entries: Array = chains[index]
    return entries


def from_frame_tree(tree: FrameTree) -> StackTree:
    """Stacks that came as text, so that views apply to them: inlined frames join the function above them."""
    table, stacks = LocationTable(), PrefixTree()
    frames = [Frame(label.name, label.kind, label.name, "") for label in tree.labels]
    weights = [tree.weights[ROOT]]
    placed = [ROOT] * len(tree)
    location_of: list[tuple[Frame, ...]] = [()] * len(tree)
    for node in range(1, len(tree)):
        parent, frame = tree.tree.parents[node], frames[tree.tree.keys[node]]
        joins = frame.kind is FrameKind.INLINED and parent != ROOT and frames[tree.tree.keys[parent]].kind in _JOINABLE
        location_of[node] = (*location_of[parent], frame) if joins else (frame,)
        above = stacks.parents[placed[parent]] if joins else placed[parent]
        placed[node] = stacks.child(above, table.location(location_of[node]))
        weights.extend([0] * (len(stacks) - len(weights)))
        weights[placed[node]] += tree.weights[node]
    return StackTree(
        table=table,
        tree=stacks,
        samples=weights,
        periods=weights,
        nodes=np.zeros(0, np.int32),
        times=np.zeros(0, np.uint64),
        tids=np.zeros(0, np.int64),
    )
