"""Trees of stacks as hypothesis draws them: every kind of frame, names that bite, threads, times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from ipuenv.engine.folding import Sampling, StackTree, summed
from ipuenv.engine.kallsyms import KERNEL_DSO
from ipuenv.engine.stacks import ROOT, Frame, FrameKind, PrefixTree
from ipuenv.engine.symbolize import KERNEL_UNKNOWN, UNMAPPED, LocationTable, unknown_name

Place = tuple[tuple[Frame, ...], tuple[int, ...], str]
"""Frames, lines and build-id of a location."""

NAMES = st.sampled_from(
    [
        "main",
        "worker",
        "a::b",
        "<T as U>::f",
        "rayon::join",
        "rayon_core::x",
        "",
        "two\nlines",
        "a;b",
        "raw\udcff",
        "ü",
        "f_[i]",
    ]
)
PROGRAM, LIBRARY = "/bin/program", "/lib/libc.so.6"


@dataclass(frozen=True)
class Sampled:
    comm: str
    pid: int
    tid: int
    stack: tuple[Place, ...]
    period: int


def native(name: str, file: str = "", kind: FrameKind = FrameKind.NATIVE, dso: str = PROGRAM) -> Frame:
    return Frame(name, kind, f"_Z{name}" if name else "", dso, file)


def _nameless(dso: str) -> Frame:
    return Frame(unknown_name(dso), FrameKind.UNKNOWN, "", dso)


@st.composite
def _functions(draw: st.DrawFn) -> Place:
    file = draw(st.sampled_from(["", "src/main.rs"]))
    inlined = [native(name, file, FrameKind.INLINED) for name in draw(st.lists(NAMES, max_size=3))]
    frames = (native(draw(NAMES), file), *inlined)
    lines = tuple(draw(st.integers(0, 3)) for _ in frames)
    return frames, lines if any(lines) else (), draw(st.sampled_from(["", "aa" * 20, "bb" * 20]))


PLACES: st.SearchStrategy[Place] = st.one_of(
    _functions(),
    NAMES.map(lambda name: ((native(name, "", FrameKind.KERNEL, KERNEL_DSO),), (), "cc" * 20)),
    st.just(((Frame("jump", FrameKind.KERNEL, "jump", "[nf_tables]"),), (), "")),
    st.just(((Frame(KERNEL_UNKNOWN, FrameKind.KERNEL, "", KERNEL_DSO),), (), "")),
    NAMES.map(lambda name: ((native(name, "", FrameKind.JIT, "/tmp/perf-12.map"),), (), "")),
    st.sampled_from([LIBRARY, "[vdso]", "//anon"]).map(lambda dso: ((_nameless(dso),), (), "")),
    st.just(((Frame(UNMAPPED, FrameKind.UNKNOWN, "", UNMAPPED),), (), "")),
)
SAMPLES = st.builds(
    Sampled,
    comm=NAMES,
    pid=st.sampled_from([7, 8]),
    tid=st.integers(7, 11),
    stack=st.lists(PLACES, max_size=8).map(tuple),
    period=st.integers(0, 2**40),
)


def stack_tree(samples: Sequence[Sampled], *, sampling: Sampling | None = None, is_timed: bool = True) -> StackTree:
    """Samples in time order, a microsecond apart, as folding would put them."""
    table, tree = LocationTable(), PrefixTree()
    nodes: list[int] = []
    for sample in samples:
        node = tree.child(ROOT, table.location([Frame(sample.comm, FrameKind.COMM, sample.comm, "")]))
        for frames, lines, build_id in sample.stack:
            node = tree.child(node, table.location(frames, lines, build_id))
        nodes.append(node)
    row_nodes = np.array(nodes, np.int32)
    periods = np.array([sample.period for sample in samples], np.uint64)
    counts = np.ones(len(samples), np.int64)
    times = np.arange(1, len(samples) + 1, dtype=np.uint64) * np.uint64(1000)
    return StackTree(
        table=table,
        tree=tree,
        samples=summed(row_nodes, counts, len(tree)),
        periods=summed(row_nodes, periods, len(tree)),
        nodes=row_nodes,
        times=times if is_timed else np.zeros(0, np.uint64),
        tids=np.array([sample.tid for sample in samples], np.int64),
        pids=np.array([sample.pid for sample in samples], np.int64),
        row_samples=counts,
        row_periods=periods,
        sampling=sampling or Sampling(),
    )


CLOCK = Sampling(event="cpu-clock", is_clock=True, interval_ns=1_000_000)
CYCLES = Sampling(event="cycles:P", interval_ns=1_000_000)
SAMPLINGS = st.sampled_from([CLOCK, CYCLES, Sampling(event="cache-misses"), Sampling()])
TREES = st.builds(stack_tree, st.lists(SAMPLES, min_size=1, max_size=30), sampling=SAMPLINGS)


def threads_of(stacks: StackTree) -> Counter[tuple[int, int, tuple[str, ...]]]:
    """Samples by pid, tid and the names of the stack's frames, root first."""
    rows = stacks.rows
    found: Counter[tuple[int, int, tuple[str, ...]]] = Counter()
    columns = (rows.nodes.tolist(), rows.pids.tolist(), rows.tids.tolist(), rows.samples.tolist())
    for node, pid, tid, samples in zip(*columns, strict=True):
        found[pid, tid, names_of(stacks, node)] += samples
    return found


def names_of(stacks: StackTree, node: int) -> tuple[str, ...]:
    """Names of all frames of a stack, root first, inlined ones among them."""
    frames, locations = stacks.table.frames, stacks.table.locations
    return tuple(frames[frame].name for key in stacks.tree.path(node) for frame in locations[key].frames)
