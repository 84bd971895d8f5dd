"""Mappings of a process that do not overlap, in a tree that costs nothing to copy.

A just-in-time compiler maps thousands of ranges over older ones, and every state may be asked for: so the tree is
persistent. Changing it makes new nodes on one path and shares the rest. It is a treap: balanced by random priorities,
which no order of mappings can defeat. What is found does not depend on them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """An executable range of one process: addresses ``start`` to ``end`` show ``path`` from ``pgoff`` on (bytes)."""

    start: int
    end: int
    pgoff: int
    path: str
    build_id: str

    def file_offset(self, address: int) -> int:
        """Where in the file the byte at ``address`` comes from. This is no vaddr: see :mod:`ipuenv.engine.elf`."""
        return address - self.start + self.pgoff


class _Node(NamedTuple):
    mapping: Mapping
    priority: float
    left: _Node | None
    right: _Node | None


class AddressSpace:
    """The mappings of one process at one time."""

    __slots__ = ("_root",)

    def __init__(self, copied: AddressSpace | None = None) -> None:
        self._root: _Node | None = copied._root if copied is not None else None  # noqa: SLF001 - its own class

    @property
    def mappings(self) -> list[Mapping]:
        """All mappings, by start."""
        return list(_walk(self._root))

    def at(self, address: int) -> Mapping | None:
        """The mapping that covers an address."""
        found = _last_before(self._root, address + 1)
        return found if found is not None and address < found.end else None

    def overlaps(self, new: Mapping) -> bool:
        """Whether a mapping would cover part of another."""
        last = _last_before(self._root, new.end)
        return last is not None and last.end > new.start and new.end > new.start

    def insert(self, new: Mapping) -> None:
        """Add a mapping; what it covers of older ones is gone, as in the process itself. An empty one changes nothing."""
        if new.end <= new.start:
            return
        before, rest = _split(self._root, new.start)
        covered, after = _split(rest, new.end)
        first, last = _last_before(before, new.start), _last_before(covered, new.end)
        if first is not None and first.end > new.start:
            before = _joined(_split(before, first.start)[0], _leaf(replace(first, end=new.start)))
            last = last or first
        if last is not None and last.end > new.end:
            rest_of_last = replace(last, start=new.end, pgoff=last.pgoff + new.end - last.start)
            after = _joined(_leaf(rest_of_last), after)
        self._root = _joined(_joined(before, _leaf(new)), after)


def _leaf(mapping: Mapping) -> _Node:
    return _Node(mapping, random.random(), None, None)  # noqa: S311 - balances a tree, guards nothing


def _last_before(node: _Node | None, address: int) -> Mapping | None:
    """The last mapping that starts before an address."""
    found = None
    while node is not None:
        if node.mapping.start < address:
            found, node = node.mapping, node.right
        else:
            node = node.left
    return found


def _split(node: _Node | None, address: int) -> tuple[_Node | None, _Node | None]:
    """The mappings that start before an address, and the others."""
    if node is None:
        return None, None
    if node.mapping.start < address:
        left, right = _split(node.right, address)
        return _Node(node.mapping, node.priority, node.left, left), right
    left, right = _split(node.left, address)
    return left, _Node(node.mapping, node.priority, right, node.right)


def _joined(left: _Node | None, right: _Node | None) -> _Node | None:
    """A tree of both, of which all of ``left`` stands before all of ``right``."""
    if left is None or right is None:
        return left or right
    if left.priority > right.priority:
        return _Node(left.mapping, left.priority, left.left, _joined(left.right, right))
    return _Node(right.mapping, right.priority, _joined(left, right.left), right.right)


def _walk(node: _Node | None) -> Iterator[Mapping]:
    above: list[_Node] = []
    while above or node is not None:
        while node is not None:
            above.append(node)
            node = node.left
        node = above.pop()
        yield node.mapping
        node = node.right
