"""Which file stood at an address of a process at a time, and what a thread was called then.

Task records are applied in time order before any sample is looked at. An address space is copied only where a new
mapping covers an old one or a program replaces another; every copy is a new *space*, so that equal (space, address)
always means equal file and offset, however many samples ask.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ipuenv.engine.addressspace import AddressSpace, Mapping
from ipuenv.engine.perfdata import Comm, Fork, Mmap, TaskRecord

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["KERNEL_PID", "AddressSpace", "Mapping", "Tasks", "Timeline", "rows_by_key"]

KERNEL_PID = -1


def rows_by_key(keys: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Each distinct key with the rows in which it stands."""
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    ends = np.flatnonzero(np.diff(keys[order], append=keys[order[-1]] - 1))
    begin = 0
    for end in ends.tolist():
        yield int(keys[order[end]]), order[begin : end + 1]
        begin = end + 1


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
        for key, rows in rows_by_key(keys):
            timeline = timelines.get(key)
            if timeline is not None and timeline.times:
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
        if record.is_exec:  # until execve returns, its samples have an address of the old program: perf keeps it too
            timeline = self._spaces_of[record.pid]
            self._new_space(timeline, record.time, timeline.last)

    def _fork(self, record: Fork) -> None:
        parent_comm = self._comms_of[record.parent_tid].last
        if parent_comm >= 0:
            self._comms_of[record.tid].set(record.time, parent_comm)
        if record.pid != record.parent_pid and not record.is_synthesized:
            self._new_space(self._spaces_of[record.pid], record.time, self._spaces_of[record.parent_pid].last)

    def _new_space(self, timeline: Timeline, time: int, copied: int) -> None:
        timeline.set(time, len(self.spaces))
        self.spaces.append(AddressSpace(self.spaces[copied] if copied >= 0 else None))
