"""Stacks as prefix trees: the one form in which samples travel through the engine.

Two trees share one shape. A :class:`StackTree` holds what was sampled, one node per *location* (a function and the
frames inlined into it at one place); a :class:`FrameTree` holds what a view draws, one node per *label*. Both are
parallel lists in which a parent always precedes its children, so that totals are one backward pass and no recursion
depth limits a deep stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

ROOT = 0
"""Node 0 of every tree: the nameless frame that all stacks share, drawn as ``all``."""

_NO_PARENT = -1
_Value = TypeVar("_Value")


class FrameKind(StrEnum):
    """What stands behind a frame; drawn as ``fg:kind`` and, in folded text, as a suffix."""

    COMM = "comm"
    NATIVE = "native"
    INLINED = "inlined"
    KERNEL = "kernel"
    JIT = "jit"
    UNKNOWN = "unknown"
    ELIDED = "elided"


class Label(NamedTuple):
    """What a view shows of a frame. Frames with equal labels under one parent are one frame in the picture."""

    name: str
    kind: FrameKind


class Frame(NamedTuple):
    """One level of a symbolized stack. ``symbol`` is the name as the file has it, mangled; ``dso`` the file's path.

    ``file`` is the source file, empty where no debug information says it.
    """

    name: str
    kind: FrameKind
    symbol: str
    dso: str
    file: str = ""

    @property
    def label(self) -> Label:
        return Label(self.name, self.kind)


class Location(NamedTuple):
    """Frames that one address stands for, outermost first: the function itself, then what was inlined into it.

    ``lines`` are those of the frames' source files, 0 where unknown, or empty where all are; ``build_id`` is the DSO's.
    """

    frames: tuple[int, ...]
    lines: tuple[int, ...] = ()
    build_id: str = ""


@dataclass(slots=True)
class PrefixTree:
    """The shape both trees share: ``parents[n] < n``; ``keys[n]`` names the node below its parent."""

    parents: list[int] = field(default_factory=lambda: [_NO_PARENT])
    keys: list[int] = field(default_factory=lambda: [_NO_PARENT])
    _children: dict[int, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, parents: list[int], keys: list[int]) -> PrefixTree:
        """A tree of nodes that are known, the root first and each after its parent."""
        edges = zip(parents[1:], keys[1:], strict=True)
        return cls(parents, keys, {parent << 32 | key: node for node, (parent, key) in enumerate(edges, 1)})

    def __len__(self) -> int:
        return len(self.parents)

    def child(self, parent: int, key: int) -> int:
        """The node ``key`` below ``parent``, made if it does not exist."""
        edge = parent << 32 | key
        node = self._children.get(edge)
        if node is None:
            node = len(self.parents)
            self._children[edge] = node
            self.parents.append(parent)
            self.keys.append(key)
        return node

    def path(self, node: int) -> list[int]:
        """Keys from below the root down to ``node``."""
        keys: list[int] = []
        while node != ROOT:
            keys.append(self.keys[node])
            node = self.parents[node]
        keys.reverse()
        return keys

    def totals(self, weights: list[int]) -> list[int]:
        """Weight of each node with everything below it, from each node's own weight."""
        totals = list(weights)
        parents = self.parents
        for node in range(len(totals) - 1, ROOT, -1):
            totals[parents[node]] += totals[node]
        return totals

    def tops(self) -> list[int]:
        """The node of level one that each node stands in; the root's is the root."""
        tops = list(range(len(self)))
        parents = self.parents
        for node in range(1, len(tops)):
            if parents[node] != ROOT:
                tops[node] = tops[parents[node]]
        return tops

    def preorder(self) -> list[int]:
        """Each node's rank in the order in which a node stands right before all that is below it."""
        sizes = self.totals([1] * len(self))
        ranks = [0] * len(self)
        free = [1] * len(self)
        parents = self.parents
        for node in range(1, len(ranks)):
            parent = parents[node]
            rank = ranks[node] = free[parent]
            free[parent] = rank + sizes[node]
            free[node] = rank + 1
        return ranks


class Paths(Generic[_Value]):
    """What stands on the way from the root to one node after another: the cost follows the change, not the depth.

    ``values`` has a value for each key of the tree.
    """

    def __init__(self, tree: PrefixTree, values: Sequence[_Value]) -> None:
        self._tree = tree
        self._values = values
        self._nodes = [ROOT]
        self._is_on_path = bytearray(len(tree))
        self._is_on_path[ROOT] = 1
        self._path: list[_Value] = []

    @property
    def top(self) -> int:
        """The node of level one on the way; the root where there is none."""
        return self._nodes[1] if len(self._nodes) > 1 else ROOT

    def to(self, node: int) -> list[_Value]:
        """The values from below the root down to ``node``; the next call changes the list."""
        parents, keys, is_on_path, nodes = self._tree.parents, self._tree.keys, self._is_on_path, self._nodes
        fresh = []
        while not is_on_path[node]:
            fresh.append(node)
            node = parents[node]
        while nodes[-1] != node:
            is_on_path[nodes.pop()] = 0
            self._path.pop()
        for new in reversed(fresh):
            is_on_path[new] = 1
            nodes.append(new)
            self._path.append(self._values[keys[new]])
        return self._path


class FrameTree:
    """What a view draws: labels in a prefix tree with each node's own weight.

    ``weights[n]`` counts what ended exactly in node ``n`` (the root's is 0 unless a stack was empty); ``unit`` says what
    was counted, as the picture prints it (``samples``).
    """

    __slots__ = ("_ids", "labels", "tree", "unit", "weights")

    def __init__(self, unit: str = "samples") -> None:
        self.unit = unit
        self.labels: list[Label] = []
        self.tree = PrefixTree()
        self.weights: list[int] = [0]
        self._ids: dict[Label, int] = {}

    def __len__(self) -> int:
        return len(self.tree)

    @property
    def total(self) -> int:
        """Weight of all stacks together."""
        return sum(self.weights)

    def intern(self, label: Label) -> int:
        """The label's id in this tree."""
        label_id = self._ids.get(label)
        if label_id is None:
            label_id = self._ids[label] = len(self.labels)
            self.labels.append(label)
        return label_id

    def child(self, parent: int, label_id: int) -> int:
        """The node for a label below ``parent``, made if it does not exist."""
        node = self.tree.child(parent, label_id)
        if node == len(self.weights):
            self.weights.append(0)
        return node

    def add(self, stack: list[Label], weight: int) -> None:
        """Add one stack, root first."""
        node = ROOT
        for label in stack:
            node = self.child(node, self.intern(label))
        self.weights[node] += weight

    def stack(self, node: int) -> list[Label]:
        """Labels from the root's child down to ``node``."""
        return [self.labels[key] for key in self.tree.path(node)]

    def totals(self) -> list[int]:
        """Weight of each node with everything below it."""
        return self.tree.totals(self.weights)
