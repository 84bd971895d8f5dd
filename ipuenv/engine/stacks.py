"""Stacks as prefix trees: the one form in which samples travel through the engine.

Two trees share one shape. A :class:`StackTree` holds what was sampled, one node per *location* (a function and the
frames inlined into it at one place); a :class:`FrameTree` holds what a view draws, one node per *label*. Both are
parallel lists in which a parent always precedes its children, so that totals are one backward pass and no recursion
depth limits a deep stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

ROOT = 0
"""Node 0 of every tree: the nameless frame that all stacks share, drawn as ``all``."""

_NO_PARENT = -1


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
    """One level of a symbolized stack. ``symbol`` is the name as the file has it, mangled; ``dso`` the file's path."""

    name: str
    kind: FrameKind
    symbol: str
    dso: str

    @property
    def label(self) -> Label:
        return Label(self.name, self.kind)


class Location(NamedTuple):
    """Frames that one address stands for, outermost first: the function itself, then what was inlined into it."""

    frames: tuple[int, ...]


@dataclass(slots=True)
class PrefixTree:
    """The shape both trees share: ``parents[n] < n``; ``keys[n]`` names the node below its parent."""

    parents: list[int] = field(default_factory=lambda: [_NO_PARENT])
    keys: list[int] = field(default_factory=lambda: [_NO_PARENT])
    _children: dict[int, int] = field(default_factory=dict, repr=False)

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
