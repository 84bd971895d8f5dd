"""Where each frame of a flame graph lies, in weights and levels; independent of how it is drawn."""

from __future__ import annotations

from typing import NamedTuple

from ipuenv.engine.folded import LineOrder
from ipuenv.engine.stacks import ROOT, FrameTree

NO_LABEL = -1
"""The label of the root frame, which has none."""


class DrawnFrame(NamedTuple):
    """A rectangle: ``x`` and ``weight`` in the tree's unit, ``level`` 0 for the root."""

    label: int
    level: int
    x: int
    weight: int


class Layout(NamedTuple):
    """The rectangles, each before those above it and left to right; ``label`` counts in this ``tree``."""

    tree: FrameTree
    frames: list[DrawnFrame]
    levels: int


class _Run(NamedTuple):
    """Entries of one node that lie side by side; ``below_x`` is where its callees begin, None if they are elsewhere."""

    node: int
    x: int
    weight: int
    below_x: int | None


def lay_out(tree: FrameTree, min_width: float) -> Layout:
    """Place every frame that is at least ``min_width`` percent wide.

    The picture is inferno's (0.12, ``flamegraph/merge.rs``): frames lie in the order of sorted folded lines, and a node
    is drawn twice where that order puts a sibling between its own samples and its callees. Width is tested as there, so
    the same frames remain. Samples of the root itself widen only the root.
    """
    order = LineOrder(tree)
    total = order.totals[ROOT]
    at_least = min_width / (100.0 / total) if total else 0.0
    children = order.children(at_least)
    keys = order.tree.tree.keys
    frames: list[DrawnFrame] = []
    todo = [(0, _Run(ROOT, 0, total, 0))]
    while todo:
        level, run = todo.pop()
        frames.append(DrawnFrame(keys[run.node], level, run.x, run.weight))
        siblings = children.get(run.node) if run.below_x is not None else None
        if siblings and run.below_x is not None:
            runs = _runs(order, siblings, run.below_x)
            todo.extend((level + 1, child) for child in reversed(runs) if child.weight >= at_least)
    return Layout(order.tree, frames, 1 + max(frame.level for frame in frames))


def _runs(order: LineOrder, siblings: list[int], x: int) -> list[_Run]:
    """The rectangles of sibling nodes from ``x`` on."""
    runs: list[_Run] = []
    for _, node, weight, is_below in order.entries(siblings):
        last = runs[-1] if runs else None
        if is_below and last is not None and last.node == node:
            runs[-1] = _Run(node, last.x, last.weight + weight, x)
        else:
            runs.append(_Run(node, x, weight, x if is_below else None))
        x += weight
    return runs
