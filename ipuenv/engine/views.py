"""Views: pictures of one tree. Each is a pure function from the sampled tree to a tree of labels.

No view gains or loses weight; what it leaves out of the picture is added to what is shown above it, or shown as
``[elided]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from ipuenv.engine.stacks import ROOT, Frame, FrameKind, FrameTree, Label

if TYPE_CHECKING:
    from ipuenv.engine.folding import StackTree

Weight = Literal["samples", "period"]

ELIDED = Label("[elided]", FrameKind.ELIDED)
"""The leaf that stands for a stretch of elided frames with nothing below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a picture is made of the stacks. ``elide`` holds patterns in which ``*`` stands for anything."""

    name: str
    inline: bool = True
    elide: tuple[str, ...] = ()


FULL = View(name="full")
FUNCTIONS = View(name="functions", inline=False)
BUILT_IN = (FULL, FUNCTIONS)


def draw(stacks: StackTree, view: View, weight: Weight = "samples") -> FrameTree:
    """The labels a view shows, with their weights.

    Every location of the sampled tree is expanded to its frames where ``view.inline``, else to its function.
    """
    elided = Elision(view.elide)
    tree = FrameTree(stacks.unit if weight == "samples" else "events")
    steps = [_steps(stacks.table.frames, location.frames, view, elided, tree) for location in stacks.table.locations]
    weights = stacks.samples if weight == "samples" else stacks.periods
    elided_label = tree.intern(ELIDED) if view.elide else -1
    placed = [ROOT] * len(weights)
    parents, keys, child = stacks.tree.parents, stacks.tree.keys, tree.child
    own: dict[int, int] = {}
    for node in range(1, len(weights)):
        labels, ends_elided = steps[keys[node]]
        place = placed[parents[node]]
        for label in labels:
            place = child(place, label)
        placed[node] = place
        if weights[node]:
            if ends_elided:
                place = child(place, elided_label)
            own[place] = own.get(place, 0) + weights[node]
    own[ROOT] = own.get(ROOT, 0) + weights[ROOT]
    for place, amount in own.items():
        tree.weights[place] += amount
    return tree


def _steps(
    frames: Sequence[Frame], location: tuple[int, ...], view: View, elided: Elision, tree: FrameTree
) -> tuple[tuple[int, ...], bool]:
    """Label ids that a location adds to a stack, and whether its innermost frames were elided."""
    shown = location if view.inline else location[:1]
    labels: list[int] = []
    ends_elided = False
    for frame in (frames[index] for index in shown):
        ends_elided = elided.matches(frame)
        if not ends_elided:
            labels.append(tree.intern(frame.label))
    return tuple(labels), ends_elided


class Elision:
    """Which frames a view elides: by their name, or by the self type or trait of ``<T as Trait>::f``."""

    def __init__(self, patterns: Iterable[str]) -> None:
        alternatives = "|".join(".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
        self._pattern = re.compile(f"(?:{alternatives})", re.DOTALL) if alternatives else None
        self.matches_name = lru_cache(maxsize=None)(self._matches_name)

    def matches(self, frame: Frame) -> bool:
        """Whether a frame is elided. The thread's name never is, nor what has no name."""
        if self._pattern is None or frame.kind in (FrameKind.COMM, FrameKind.UNKNOWN):
            return False
        return self.matches_name(frame.name)

    def _matches_name(self, name: str) -> bool:
        if self._pattern is None:
            return False
        return any(self._pattern.fullmatch(candidate) for candidate in names_to_match(name))


def names_to_match(name: str) -> tuple[str, ...]:
    """The names a pattern is tried on: ``<T as Trait>::f`` also counts as ``T::f`` and as ``Trait::f``."""
    if not name.startswith("<"):
        return (name,)
    end = _closing(name)
    if end < 0:
        return (name,)
    inside, rest = name[1:end], name[end + 1 :]
    split = _top_level_as(inside)
    parts = (inside,) if split < 0 else (inside[:split], inside[split + 4 :])
    return (name, *(part.lstrip("&*").removeprefix("mut ").strip() + rest for part in parts))


def _closing(name: str) -> int:
    """Index of the ``>`` that closes the ``<`` at the start; ``->`` closes nothing. -1 if there is none."""
    depth = 0
    for index, char in enumerate(name):
        if char == "<":
            depth += 1
        elif char == ">" and name[index - 1] != "-":
            depth -= 1
            if not depth:
                return index
    return -1


def _top_level_as(inside: str) -> int:
    """Index of the `` as `` between a self type and a trait, outside all brackets; -1 if there is none."""
    depth = 0
    for index, char in enumerate(inside):
        if char in "<([":
            depth += 1
        elif char in ")]" or (char == ">" and inside[index - 1] != "-"):
            depth -= 1
        elif not depth and inside.startswith(" as ", index):
            return index
    return -1
