"""Which file stood at an address of a process at a time, and what a thread was called then.

Task records are applied in time order before any sample is looked at. An address space is copied only where a new
mapping covers an old one or a program replaces another; every copy is a new *space*, so that equal (space, address)
always means equal file and offset, however many samples ask.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from ipuenv.engine.perfdata import Comm, Fork, Mmap, TaskRecord

if TYPE_CHECKING:
    import numpy.typing as npt

KERNEL_PID = -1
_by_start = attrgetter("start")


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


@dataclass(slots=True)
class AddressSpace:
    """Mappings of one process that do not overlap, by start."""

    mappings: list[Mapping] = field(default_factory=list)

    def at(self, address: int) -> Mapping | None:
        """The mapping that covers an address."""
        index = bisect_right(self.mappings, address, key=_by_start) - 1
        if index >= 0 and address < self.mappings[index].end:
            return self.mappings[index]
        return None

    def overlaps(self, new: Mapping) -> bool:
        """Whether a mapping would cover part of another."""
        index = bisect_right(self.mappings, new.start, key=_by_start)
        before = index > 0 and self.mappings[index - 1].end > new.start
        return before or (index < len(self.mappings) and self.mappings[index].start < new.end)

    def insert(self, new: Mapping) -> None:
        """Add a mapping; what it covers of older ones is gone, as in the process itself."""
        if self.overlaps(new):
            self.mappings = [piece for old in self.mappings for piece in _without(old, new)]
        insort(self.mappings, new, key=_by_start)


def _without(old: Mapping, new: Mapping) -> Iterable[Mapping]:
    """What is left of ``old`` beside ``new``."""
    if old.end <= new.start or new.end <= old.start:
        yield old
        return
    if old.start < new.start:
        yield replace(old, end=new.start)
    if new.end < old.end:
        yield replace(old, start=new.end, pgoff=old.pgoff + new.end - old.start)


class Timeline:
    """Values that change with time, for one process or thread."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.values: list[int] = []

    def set(self, time: int, value: int) -> None:
        """``value`` holds from ``time`` on. Times must not go back."""
        self.times.append(time)
        self.values.append(value)

    @property
    def last(self) -> int:
        """The newest value; -1 before the first."""
        return self.values[-1] if self.values else -1

    def at(self, times: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The value at each time; before the first change the first value, since perf may miss the start."""
        index = np.searchsorted(np.array(self.times, np.uint64), times, side="right") - 1
        return np.array(self.values, np.int64)[np.maximum(index, 0)]


class Tasks:
    """Processes and threads over the time of a recording."""

    def __init__(self, records: Sequence[TaskRecord], build_ids: dict[str, str]) -> None:
        self.spaces: list[AddressSpace] = []
        self.kernel_mappings: list[Mapping] = []
        self.comms: list[str] = []
        self._build_ids = build_ids
        self._spaces_of: dict[int, Timeline] = defaultdict(Timeline)
        self._comms_of: dict[int, Timeline] = defaultdict(Timeline)
        self._comm_ids: dict[str, int] = {}
        for record in records:
            match record:
                case Mmap():
                    self._mmap(record)
                case Comm():
                    self._comm(record)
                case Fork():
                    self._fork(record)

    def spaces_at(self, pids: npt.NDArray[np.int64], times: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Index into :attr:`spaces` for each (pid, time); -1 for a process that mapped nothing."""
        return self._lookup(self._spaces_of, pids, times)

    def comms_at(self, tids: npt.NDArray[np.int64], times: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Index into :attr:`comms` for each (tid, time)."""
        return self._lookup(self._comms_of, tids, times)

    def comm_id(self, comm: str) -> int:
        """Index of a thread name."""
        found = self._comm_ids.get(comm)
        if found is None:
            found = self._comm_ids[comm] = len(self.comms)
            self.comms.append(comm)
        return found

    @staticmethod
    def _lookup(
        timelines: dict[int, Timeline], keys: npt.NDArray[np.int64], times: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.int64]:
        found = np.full(len(keys), -1, np.int64)
        for key in np.unique(keys).tolist():
            timeline = timelines.get(key)
            if timeline is not None and timeline.times:
                rows = np.flatnonzero(keys == key)
                found[rows] = timeline.at(times[rows])
        return found

    def _mmap(self, record: Mmap) -> None:
        mapping = Mapping(
            start=record.start,
            end=record.start + record.length,
            pgoff=record.pgoff,
            path=record.path,
            build_id=record.build_id or self._build_ids.get(record.path, ""),
        )
        if record.is_kernel:
            self.kernel_mappings.append(mapping)
            return
        timeline = self._spaces_of[record.pid]
        if timeline.last < 0 or self.spaces[timeline.last].overlaps(mapping):
            self._new_space(timeline, record.time, timeline.last)
        self.spaces[timeline.last].insert(mapping)

    def _comm(self, record: Comm) -> None:
        self._comms_of[record.tid].set(record.time, self.comm_id(record.comm))
        if record.is_exec:
            self._new_space(self._spaces_of[record.pid], record.time, -1)

    def _fork(self, record: Fork) -> None:
        parent_comm = self._comms_of[record.parent_tid].last
        if parent_comm >= 0:
            self._comms_of[record.tid].set(record.time, parent_comm)
        if record.pid != record.parent_pid:
            self._new_space(self._spaces_of[record.pid], record.time, self._spaces_of[record.parent_pid].last)

    def _new_space(self, timeline: Timeline, time: int, copied: int) -> None:
        timeline.set(time, len(self.spaces))
        self.spaces.append(AddressSpace(list(self.spaces[copied].mappings) if copied >= 0 else []))
