"""Records that are no samples: what was mapped where, what threads were called, and what was lost.

Format: ``include/uapi/linux/perf_event.h``; of records that the tool writes itself, ``tools/lib/perf/include/perf/event.h``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from ipuenv.engine.perfbytes import WORD, ByteOrder, text
from ipuenv.engine.perflayout import Layout, common

if TYPE_CHECKING:
    from ipuenv.engine.perfevents import Event


class RecordType(IntEnum):
    """All record types that the kernel and perf have names for."""

    MMAP = 1
    LOST = 2
    COMM = 3
    EXIT = 4
    THROTTLE = 5
    UNTHROTTLE = 6
    FORK = 7
    READ = 8
    SAMPLE = 9
    MMAP2 = 10
    AUX = 11
    ITRACE_START = 12
    LOST_SAMPLES = 13
    SWITCH = 14
    SWITCH_CPU_WIDE = 15
    NAMESPACES = 16
    KSYMBOL = 17
    BPF_EVENT = 18
    CGROUP = 19
    TEXT_POKE = 20
    AUX_OUTPUT_HW_ID = 21
    CALLCHAIN_DEFERRED = 22
    HEADER_ATTR = 64
    HEADER_EVENT_TYPE = 65
    TRACING_DATA = 66
    BUILD_ID = 67
    FINISHED_ROUND = 68
    ID_INDEX = 69
    AUXTRACE_INFO = 70
    AUXTRACE = 71
    AUXTRACE_ERROR = 72
    THREAD_MAP = 73
    CPU_MAP = 74
    STAT_CONFIG = 75
    STAT = 76
    STAT_ROUND = 77
    EVENT_UPDATE = 78
    TIME_CONV = 79
    HEADER_FEATURE = 80
    COMPRESSED = 81
    FINISHED_INIT = 82
    COMPRESSED2 = 83
    BPF_METADATA = 84
    SCHEDSTAT_CPU = 85
    SCHEDSTAT_DOMAIN = 86


def record_name(kind: int) -> str:
    """What the kernel or perf calls a record type; its number where it has no name here."""
    return RecordType(kind).name if kind in set(RecordType) else f"type {kind}"


_MISC_CPUMODE = 7
_CPUMODE_KERNEL = 1
_CPUMODE_GUESTS = (4, 5)
_MISC_MMAP_DATA = _MISC_COMM_EXEC = _MISC_FORK_EXEC = 1 << 13
_MISC_MMAP_BUILD_ID = 1 << 14
_MISC_LOST_SAMPLES_BPF = 1 << 15
_PROT_EXEC = 4
_KSYMBOL_BPF = 1
_KSYMBOL_UNREGISTER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mmap:
    """A file mapped into a process; ``pid`` -1 is the kernel. Only executable mappings are kept."""

    time: int
    pid: int
    start: int
    length: int
    pgoff: int
    path: str
    build_id: str
    is_kernel: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comm:
    """A thread took a name; ``is_exec`` when a new program did."""

    time: int
    pid: int
    tid: int
    comm: str
    is_exec: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A thread (``pid == parent_pid``) or a process began.

    ``is_synthesized`` when perf found it running: its mappings follow, and it has none of its parent's.
    """

    time: int
    pid: int
    parent_pid: int
    tid: int
    parent_tid: int
    is_synthesized: bool = False


TaskRecord = Mmap | Comm | Fork


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCode:
    """Code that the kernel made while it ran: a BPF program, or a piece of its own (``is_bpf`` false).

    ``is_gone`` when it was taken away again.
    """

    time: int
    start: int
    length: int
    name: str
    is_bpf: bool
    is_gone: bool


class SideRecords:
    """Gathers records that are no samples. With ``has_time`` false no record of the file has a time worth reading."""

    def __init__(self, order: ByteOrder, events: Sequence[Event], *, has_time: bool) -> None:
        self.tasks: list[TaskRecord] = []
        self.kernel_code: list[KernelCode] = []
        self.lost_records = 0
        self.lost_samples = 0
        self.damaged = 0
        self._unpack = order.unpack
        self._has_time = has_time
        self._trailers = _Trailers(order, events)
        self._takers: dict[int, Callable[[int, int, memoryview], None]] = {
            RecordType.MMAP: self._mmap,
            RecordType.MMAP2: self._mmap2,
            RecordType.COMM: self._comm,
            RecordType.FORK: self._fork,
            RecordType.KSYMBOL: self._ksymbol,
        }
        self._counters: dict[int, Callable[[int, memoryview], None]] = {
            RecordType.LOST: self._lost,
            RecordType.LOST_SAMPLES: self._lost_samples,
        }

    @property
    def kinds(self) -> list[int]:
        """Types of the records that are taken."""
        return [*self._takers, *self._counters]

    def take(self, kind: int, misc: int, body: memoryview, now: int) -> None:
        """Take one record of :attr:`kinds`; ``body`` follows its header. ``now`` is its time if it has none itself."""
        try:
            if kind in self._counters:
                self._counters[kind](misc, body)
                return
            time, body = self._trailers.split(body)
            self._takers[kind](now if time is None or not self._has_time else time, misc, body)
        except struct.error:
            self.damaged += 1

    def _mmap(self, time: int, misc: int, body: memoryview) -> None:
        if not misc & _MISC_MMAP_DATA:
            self._add_mmap(time, misc, body, 32, "")

    def _mmap2(self, time: int, misc: int, body: memoryview) -> None:
        if self._unpack("I", body, 56)[0] & _PROT_EXEC:
            has_build_id = misc & _MISC_MMAP_BUILD_ID
            self._add_mmap(time, misc, body, 64, bytes(body[36 : 36 + min(body[32], 20)]).hex() if has_build_id else "")

    def _add_mmap(self, time: int, misc: int, body: memoryview, name_at: int, build_id: str) -> None:
        pid, _tid, start, length, pgoff = self._unpack("iiQQQ", body)
        mode = misc & _MISC_CPUMODE
        if mode in _CPUMODE_GUESTS:
            return
        is_kernel = mode == _CPUMODE_KERNEL or pid == -1
        path = text(body[name_at:])
        self.tasks.append(
            Mmap(
                time=time,
                pid=pid,
                start=start,
                length=length,
                pgoff=pgoff,
                path=path,
                build_id=build_id,
                is_kernel=is_kernel,
            )
        )

    def _comm(self, time: int, misc: int, body: memoryview) -> None:
        pid, tid = self._unpack("ii", body)
        is_exec = bool(misc & _MISC_COMM_EXEC)
        self.tasks.append(Comm(time=time, pid=pid, tid=tid, comm=text(body[8:]), is_exec=is_exec))

    def _fork(self, time: int, misc: int, body: memoryview) -> None:
        pid, parent_pid, tid, parent_tid, own_time = self._unpack("iiiiQ", body)
        self.tasks.append(
            Fork(
                time=own_time if self._has_time else time,
                pid=pid,
                parent_pid=parent_pid,
                tid=tid,
                parent_tid=parent_tid,
                is_synthesized=bool(misc & _MISC_FORK_EXEC),
            )
        )

    def _lost(self, _misc: int, body: memoryview) -> None:
        self.lost_records += self._unpack("QQ", body)[1]

    def _lost_samples(self, misc: int, body: memoryview) -> None:
        if not misc & _MISC_LOST_SAMPLES_BPF:  # those were filtered out as asked
            self.lost_samples += self._unpack("Q", body)[0]

    def _ksymbol(self, time: int, _misc: int, body: memoryview) -> None:
        start, length, kind, flags = self._unpack("QIHH", body)
        self.kernel_code.append(
            KernelCode(
                time=time,
                start=start,
                length=length,
                name=text(body[16:]),
                is_bpf=kind == _KSYMBOL_BPF,
                is_gone=bool(flags & _KSYMBOL_UNREGISTER),
            )
        )


class _Trailers:
    """What ends records that are no samples; where events differ in it, the identifier at one place tells whose it is."""

    def __init__(self, order: ByteOrder, events: Sequence[Event]) -> None:
        layouts = [Layout.of(event) for event in events]
        self._unpack = order.unpack
        self._default = layouts[0]
        self._id_from_end = 0
        self._by_id: dict[int, Layout] = {}
        if len({(layout.trailer, layout.time_from_end) for layout in layouts}) > 1:
            self._id_from_end = common([layout.id_from_end for layout in layouts])
            for event, layout in zip(events, layouts, strict=True):
                self._by_id.update(dict.fromkeys(event.ids, layout))

    def split(self, body: memoryview) -> tuple[int | None, memoryview]:
        """The time of a record, None if it has none, and its body without the trailer.

        Raises:
            struct.error: the record is too short to have one.
        """
        layout = self._default
        if self._id_from_end:
            layout = self._by_id.get(self._word(body, self._id_from_end), layout)
        if layout.trailer * WORD > len(body):
            raise struct.error("the record is shorter than its trailer")
        time = self._word(body, layout.time_from_end) if layout.time_from_end else None
        return time, body[: len(body) - layout.trailer * WORD]

    def _word(self, body: memoryview, from_end: int) -> int:
        if from_end * WORD > len(body):
            raise struct.error("the record is shorter than its trailer")
        return int(self._unpack("Q", body, len(body) - from_end * WORD)[0])
