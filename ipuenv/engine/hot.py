"""Hot functions: own and total weight of each label of a view, recursion counted once."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipuenv.engine.stacks import ROOT, FrameKind

if TYPE_CHECKING:
    from ipuenv.engine.stacks import FrameTree


@dataclass(frozen=True, slots=True, kw_only=True)
class HotFunction:
    """Weight that ended in a function and weight that passed through it, in the tree's unit."""

    name: str
    kind: FrameKind
    self_weight: int
    total_weight: int


def hot_functions(tree: FrameTree, limit: int) -> tuple[HotFunction, ...]:
    """The functions in which most weight ended, hottest first; threads' names and elided leaves are none."""
    totals = tree.totals()
    own: Counter[int] = Counter()
    through: Counter[int] = Counter()
    for node, label in _outermost_nodes(tree):
        through[label] += totals[node]
    for node in range(1, len(tree)):
        own[tree.tree.keys[node]] += tree.weights[node]
    functions = [
        HotFunction(name=label.name, kind=label.kind, self_weight=own[index], total_weight=through[index])
        for index, label in enumerate(tree.labels)
        if label.kind not in (FrameKind.COMM, FrameKind.ELIDED)
    ]
    functions.sort(key=lambda found: (-found.self_weight, -found.total_weight, found.name))
    return tuple(functions[:limit])


def _outermost_nodes(tree: FrameTree) -> list[tuple[int, int]]:
    """Nodes that have no ancestor of the same label, with their label: the ones that count a recursion once."""
    children: dict[int, list[int]] = defaultdict(list)
    for node in range(1, len(tree)):
        children[tree.tree.parents[node]].append(node)
    open_labels: Counter[int] = Counter()
    found: list[tuple[int, int]] = []
    pending = [(node, False) for node in children[ROOT]]
    while pending:
        node, is_done = pending.pop()
        label = tree.tree.keys[node]
        if is_done:
            open_labels[label] -= 1
            continue
        if not open_labels[label]:
            found.append((node, label))
        open_labels[label] += 1
        pending.append((node, True))
        pending.extend((child, False) for child in children.get(node, ()))
    return found
