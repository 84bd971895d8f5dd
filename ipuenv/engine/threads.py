"""Threads apart: the same stacks, each thread below a name of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ipuenv.engine.folding import summed
from ipuenv.engine.stacks import ROOT, Frame, PrefixTree

if TYPE_CHECKING:
    from ipuenv.engine.folding import StackTree


def split_threads(stacks: StackTree) -> StackTree:
    """Stacks whose first frame names the thread, ``worker/4121``, so that threads of one name stay apart.

    Where it is not known which thread a stack is of, it stays as it is.
    """
    rows = stacks.rows
    tree = PrefixTree()
    placed: dict[tuple[int, int], int] = {}
    pairs, which = np.unique(np.stack((rows.nodes.astype(np.int64), rows.tids)), axis=1, return_inverse=True)
    nodes = np.array([_place(stacks, tree, placed, node, tid) for node, tid in pairs.T.tolist()], np.int32)
    row_nodes = nodes[which.reshape(-1)]
    return replace(
        stacks,
        tree=tree,
        samples=summed(row_nodes, rows.samples, len(tree)),
        periods=summed(row_nodes, rows.periods, len(tree)),
        nodes=row_nodes if len(stacks.nodes) else stacks.nodes,
    )


def _place(stacks: StackTree, tree: PrefixTree, placed: dict[tuple[int, int], int], node: int, tid: int) -> int:
    """The node of a thread's copy of a stack: up to what was copied already, then down again."""
    parents, keys = stacks.tree.parents, stacks.tree.keys
    missing: list[int] = []
    while node != ROOT and (tid, node) not in placed:
        missing.append(node)
        node = parents[node]
    place = placed[tid, node] if node != ROOT else ROOT
    for original in reversed(missing):
        key = keys[original]
        if parents[original] == ROOT and tid >= 0:
            key = _own_name(stacks, key, tid)
        place = tree.child(place, key)
        placed[tid, original] = place
    return place


def _own_name(stacks: StackTree, location: int, tid: int) -> int:
    comm = stacks.table.frames[stacks.table.locations[location].frames[0]]
    return stacks.table.location([Frame(f"{comm.name}/{tid}", comm.kind, comm.symbol, comm.dso)])
