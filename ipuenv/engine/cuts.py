"""Cuts: the stacks of some threads, or of a part of the run. What is not kept is dropped; nothing else is lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ipuenv.engine.folding import UNKNOWN_ID, summed
from ipuenv.engine.stacks import ROOT, PrefixTree
from ipuenv.ground.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from ipuenv.engine.folding import StackTree

    Flags = npt.NDArray[np.bool_]

_NANOSECONDS = 1e9
_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)?\.\.(\d+(?:\.\d*)?|\.\d+)?")
_LISTED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Stacks in two parts: together they hold every sample exactly once."""

    kept: StackTree
    dropped: StackTree


class Span(NamedTuple):
    """A part of the run, in seconds from the first sample; ``end_s`` is the first moment outside, None for no end."""

    begin_s: float
    end_s: float | None

    def __str__(self) -> str:
        return f"{self.begin_s:g} s to {'the end' if self.end_s is None else f'{self.end_s:g} s'}"


def parse_span(text: str) -> Span:
    """Read ``A..B``, in seconds from the first sample; either end may be left out.

    Raises:
        UsageError: it is no such range, or an empty one.
    """
    match = _SPAN.fullmatch(text.strip())
    begin, end = match.groups() if match is not None else (None, None)
    span = Span(float(begin or 0), float(end) if end is not None else None)
    if match is None or (begin is None and end is None) or (span.end_s is not None and span.end_s <= span.begin_s):
        raise UsageError(
            f"'{text}' is no range of time",
            expected="A..B in seconds from the first sample, A before B; either may be left out",
            hint="--time 1.5..3, --time 2.. or --time ..0.5",
        )
    return span


def by_time(stacks: StackTree, span: Span) -> Cut:
    """Cut by when samples were taken.

    Raises:
        UsageError: it is not known when they were, or none was then.
    """
    if not stacks.is_timed:
        raise UsageError(
            "--time needs to know when each sample was taken, which these stacks do not say",
            expected="a perf.data with times; pprof files and folded stacks have none",
            hint="give the perf.data that they were made from",
        )
    since_first_s = (stacks.times - stacks.times[0]) / _NANOSECONDS
    is_kept = since_first_s >= span.begin_s
    if span.end_s is not None:
        is_kept &= since_first_s < span.end_s
    if not is_kept.any():
        raise UsageError(
            f"no sample was taken in the part from {span}",
            expected=f"a part of the {since_first_s[-1]:.3f} s from the first sample to the last",
            hint="--time A..B with other seconds",
        )
    return by_rows(stacks, is_kept)


def by_thread(stacks: StackTree, wanted: Sequence[str]) -> Cut:
    """Cut by threads, each wanted by its name, which is the root frame of its stacks, or else by its id.

    Raises:
        UsageError: there is no such thread.
    """
    rows = stacks.rows
    tops = np.array(stacks.tree.tops(), np.int64)[rows.nodes]
    frames, locations, keys = stacks.table.frames, stacks.table.locations, stacks.tree.keys
    names = {
        top: "" if top == ROOT else frames[locations[keys[top]].frames[0]].name for top in np.unique(tops).tolist()
    }
    is_kept = np.zeros(len(rows.nodes), bool)
    for word in wanted:
        named = [top for top, name in names.items() if name == word]
        is_id = word.isascii() and word.isdigit()
        matching = np.isin(tops, named) if named or not is_id else rows.tids == int(word)
        if not matching.any():
            raise UsageError(
                f"there is no thread '{word}'",
                expected=f"a thread's name or id: {_listed(stacks, tops, names)}",
                hint="repeat --thread for several",
            )
        is_kept |= matching
    return by_rows(stacks, is_kept)


def by_rows(stacks: StackTree, is_kept: Flags) -> Cut:
    """Cut by a flag for each of the stacks' rows."""
    return Cut(kept=_part(stacks, is_kept), dropped=_part(stacks, ~is_kept))


def _part(stacks: StackTree, is_kept: Flags) -> StackTree:
    """Some rows, in a tree that holds their stacks alone."""
    rows = stacks.rows
    old = rows.nodes[is_kept]
    is_used = _with_ancestors(stacks.tree, old)
    renumbered = np.cumsum(is_used) - 1
    parents, keys = np.array(stacks.tree.parents), np.array(stacks.tree.keys)
    parents[1:] = renumbered[parents[1:]]
    tree = PrefixTree.of(parents[is_used].tolist(), keys[is_used].tolist())
    nodes = renumbered[old].astype(np.int32)
    samples, periods = rows.samples[is_kept], rows.periods[is_kept]
    return replace(
        stacks,
        tree=tree,
        samples=summed(nodes, samples, len(tree)),
        periods=summed(nodes, periods, len(tree)),
        nodes=nodes,
        times=stacks.times[is_kept] if len(stacks.times) else stacks.times,
        tids=rows.tids[is_kept],
        pids=rows.pids[is_kept],
        row_samples=samples,
        row_periods=periods,
    )


def _with_ancestors(tree: PrefixTree, nodes: npt.NDArray[np.int32]) -> Flags:
    """Which nodes are among some, or above one of them."""
    own = np.zeros(len(tree), np.int64)
    own[nodes] = 1
    own[ROOT] = 1
    return np.array(tree.totals(own.tolist())) > 0


def _listed(stacks: StackTree, tops: npt.NDArray[np.int64], names: dict[int, str]) -> str:
    """The threads, those with most samples first."""
    rows = stacks.rows
    weights: Counter[tuple[str, int]] = Counter()
    for top, tid, samples in zip(tops.tolist(), rows.tids.tolist(), rows.samples.tolist(), strict=True):
        weights[names[top], tid] += samples
    shown = [name if tid == UNKNOWN_ID else f"{name} ({tid})" for (name, tid), _ in weights.most_common(_LISTED)]
    return ", ".join(shown) + (f" and {len(weights) - _LISTED} more" if len(weights) > _LISTED else "")
