"""Reader of perf.data: bytes to columns of samples and the records that say what ran where.

Format: the kernel's ``tools/perf/Documentation/perf.data-file-format.txt``, ``include/uapi/linux/perf_event.h`` and
``tools/lib/perf/include/perf/event.h``. All records are multiples of 8 bytes, so the data section is read as 64-bit
words: a record is found by its word index, a sample's fixed fields stand at fixed distances from it, and whole columns
are gathered at once. Nothing here interprets an address.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from ipuenv.engine.perfheader import Event, Features, Section, read_header
from ipuenv.ground.errors import UsageError

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt
    from typing_extensions import Buffer

    Words = npt.NDArray[np.uint64]
    Indices = npt.NDArray[np.int64]

TIMELESS = 0
"""Time of records that carry none: perf writes the state of the world before the first event."""


class RecordType(IntEnum):
    """Record types that this reader interprets or must know by name."""

    MMAP = 1
    LOST = 2
    COMM = 3
    EXIT = 4
    FORK = 7
    SAMPLE = 9
    MMAP2 = 10
    LOST_SAMPLES = 13
    CALLCHAIN_DEFERRED = 22
    AUXTRACE = 71
    COMPRESSED = 81
    COMPRESSED2 = 83


_REFUSED = {
    RecordType.CALLCHAIN_DEFERRED: "deferred call chains (perf record --call-graph fp,defer): record with fp",
    RecordType.AUXTRACE: "AUX traces (Intel PT, ARM SPE): record without AUX events",
    RecordType.COMPRESSED: "compressed records (perf record -z): record without -z",
    RecordType.COMPRESSED2: "compressed records (perf record -z): record without -z",
}

_MISC_CPUMODE = 7
_CPUMODE_KERNEL = 1
_MISC_COMM_EXEC = 1 << 13
_MISC_MMAP_BUILD_ID = 1 << 14
_PROT_EXEC = 4


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
    """A thread (``pid == parent_pid``) or a process began."""

    time: int
    pid: int
    parent_pid: int
    tid: int
    parent_tid: int


TaskRecord = Mmap | Comm | Fork


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Samples in time order, one row each. ``chain_start`` indexes :attr:`PerfData.words`; times in nanoseconds."""

    time: Words
    pid: Indices
    tid: Indices
    ip: Words
    period: Words
    event: Indices
    is_kernel: npt.NDArray[np.bool_]
    chain_start: Indices
    chain_length: Indices

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfData:
    """One recording. ``is_partial`` says that the file ends before its records do."""

    events: tuple[Event, ...]
    features: Features
    words: Words
    samples: Samples
    tasks: tuple[TaskRecord, ...]
    lost: int
    is_partial: bool
    skipped: Counter[int] = field(default_factory=Counter)


def read(data: Buffer, *, name: str = "perf.data") -> PerfData:
    """Read a recording from memory (bytes or a memory map).

    ``name`` is what messages call it.

    Raises:
        UsageError: it is no perf.data, or holds what this reader does not serve.
    """
    view = memoryview(data).cast("B")
    header = read_header(view, name)
    section = _bounded(header.data, len(view))
    words = np.frombuffer(view, "<u8", section.size // 8, section.offset)
    positions, others, is_cut = _walk(view[section.offset : section.offset + section.size // 8 * 8])
    layout = [_Layout.of(event, name) for event in header.events]
    reader = _Reader(words, view[section.offset : section.offset + section.size], header.events, layout, name)
    samples = reader.samples(np.array(positions, np.int64))
    for position in others:
        reader.record(position)
    reader.tasks.sort(key=lambda record: record.time)
    return PerfData(
        events=header.events,
        features=header.features,
        words=words,
        samples=samples,
        tasks=tuple(reader.tasks),
        lost=reader.lost,
        is_partial=is_cut or section.size < header.data.size,
        skipped=reader.skipped,
    )


def since_exec(data: PerfData, pid: int) -> PerfData:
    """A recording without what a process did before it became the program: perf was attached to a waiting child."""
    execs = [record.time for record in data.tasks if isinstance(record, Comm) and record.is_exec and record.pid == pid]
    if not execs:
        return data
    samples = data.samples
    kept = (samples.pid != pid) | (samples.time >= np.uint64(min(execs)))
    columns = {column.name: getattr(samples, column.name)[kept] for column in fields(samples)}
    return replace(data, samples=Samples(**columns))


def _bounded(section: Section, size_bytes: int) -> Section:
    """The part of a section that the file really holds; one cut short is still worth reading."""
    offset = min(section.offset, size_bytes)
    return Section(offset, min(section.size, size_bytes - offset))


def _walk(data: memoryview) -> tuple[list[int], list[int], bool]:
    """Word positions of samples and of all other records, and whether the last one is cut off."""
    words = data.cast("Q")
    samples: list[int] = []
    others: list[int] = []
    position, end = 0, len(words)
    while position < end:
        header = words[position]
        step = header >> 51
        if not step or position + step > end:
            return samples, others, True
        (samples if header & 0xFFFFFFFF == RecordType.SAMPLE else others).append(position)
        position += step
    return samples, others, False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Word offsets of a sample's fields behind its header, by its event's ``sample_type``; -1 where absent.

    Order of the fields: ``perf_event_open(2)``, PERF_RECORD_SAMPLE, which is not the order of the bits.
    """

    identifier: int
    ip: int
    tid: int
    time: int
    event_id: int
    period: int
    chain: int
    read_format: int
    time_from_end: int
    id_from_end: int

    @classmethod
    def of(cls, event: Event, name: str) -> _Layout:
        bits = event.sample_type
        at, places = 1, {}
        for bit in (16, 0, 1, 2, 3, 6, 9, 7, 8):  # IDENTIFIER IP TID TIME ADDR ID STREAM_ID CPU PERIOD
            places[bit] = at if bits >> bit & 1 else -1
            at += bits >> bit & 1
        if not bits >> 5 & 1:
            raise UsageError(
                f"'{name}' holds no call chains (event '{event.name}')",
                expected="a recording with stacks",
                hint="record with 'perf record --call-graph fp'",
            )
        trailer = [bit for bit in (1, 2, 6, 9, 7, 16) if bits >> bit & 1]  # TID TIME ID STREAM_ID CPU IDENTIFIER
        from_end = {bit: len(trailer) - index for index, bit in enumerate(trailer)}
        return cls(
            identifier=places[16],
            ip=places[0],
            tid=places[1],
            time=places[2],
            event_id=places[6],
            period=places[8],
            chain=at,
            read_format=event.read_format if bits >> 4 & 1 else -1,
            time_from_end=from_end.get(2, 0) if event.has_sample_id_all else 0,
            id_from_end=from_end.get(16, 0) if event.has_sample_id_all else 0,
        )


class _Reader:
    """Holds the data section while its records are taken apart."""

    def __init__(
        self, words: Words, data: memoryview, events: tuple[Event, ...], layouts: list[_Layout], name: str
    ) -> None:
        self.words = words
        self.data = data
        self.events = events
        self.layouts = layouts
        self.name = name
        self.tasks: list[TaskRecord] = []
        self.lost = 0
        self.skipped: Counter[int] = Counter()

    # -- samples --------------------------------------------------------------------------------------------------

    def samples(self, positions: Indices) -> Samples:
        """All samples as columns, in time order; ties keep the order of the file."""
        which = self._events_of(positions)
        parts = [self._columns(positions[which == index], index) for index in range(len(self.layouts))]
        columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        order = np.argsort(columns["time"], kind="stable")
        return Samples(**{key: column[order] for key, column in columns.items()})

    def _events_of(self, positions: Indices) -> Indices:
        """Index of each sample's event: by IDENTIFIER, which stands first, or by an ID that all layouts place alike."""
        if len(self.layouts) == 1 or not len(positions):
            return np.zeros(len(positions), np.int64)
        places = {layout.identifier if layout.identifier > 0 else layout.event_id for layout in self.layouts}
        place = places.pop()
        if places or place < 0:
            raise UsageError(
                f"'{self.name}' holds {len(self.layouts)} events whose samples cannot be told apart",
                expected="sample identifiers in the recording",
                hint="record one event at a time, or with a perf that writes identifiers",
            )
        by_id = {event_id: index for index, event in enumerate(self.events) for event_id in event.ids}
        ids, inverse = np.unique(self._gather(positions, place), return_inverse=True)
        return np.array([by_id.get(int(event_id), 0) for event_id in ids], np.int64)[inverse]

    def _gather(self, positions: Indices, offset: int) -> Words:
        """The word ``offset`` behind each position; a record that lies about its size is caught by the bound."""
        return self.words[np.minimum(positions + offset, len(self.words) - 1)]

    def _columns(self, positions: Indices, event: int) -> dict[str, npt.NDArray[Any]]:
        layout = self.layouts[event]
        headers = self.words[positions]
        ends = positions + (headers >> np.uint64(51)).astype(np.int64)
        chain = positions + layout.chain + self._read_words(positions, layout)
        length = self._gather(chain, 0)
        room = np.maximum(ends - chain - 1, 0)
        zeros = np.zeros(len(positions), np.uint64)
        task = self._gather(positions, layout.tid) if layout.tid > 0 else zeros
        column: dict[str, npt.NDArray[Any]] = {
            "time": self._gather(positions, layout.time) if layout.time > 0 else zeros,
            "pid": task.astype(np.uint32).astype(np.int32).astype(np.int64),
            "tid": (task >> np.uint64(32)).astype(np.uint32).astype(np.int32).astype(np.int64),
            "ip": self._gather(positions, layout.ip) if layout.ip > 0 else zeros,
            "period": self._gather(positions, layout.period) if layout.period > 0 else zeros + np.uint64(1),
            "event": np.full(len(positions), event, np.int64),
            "is_kernel": (headers >> np.uint64(32)) & np.uint64(_MISC_CPUMODE) == _CPUMODE_KERNEL,
            "chain_start": np.minimum(chain + 1, len(self.words)),
            "chain_length": np.minimum(length, room.astype(np.uint64)).astype(np.int64),
        }
        return column

    def _read_words(self, positions: Indices, layout: _Layout) -> Indices:
        """Words of the READ field before the chain: ``perf_event_open(2)``, read_format."""
        form = layout.read_format
        if form < 0:
            return np.zeros(len(positions), np.int64)
        times = (form & 1) + (form >> 1 & 1)
        per_value = 1 + (form >> 2 & 1) + (form >> 4 & 1)
        if not form >> 3 & 1:
            return np.full(len(positions), per_value + times, np.int64)
        members = np.minimum(self._gather(positions, layout.chain), 1 << 20).astype(np.int64)
        return 1 + times + members * per_value

    # -- everything else ------------------------------------------------------------------------------------------

    def record(self, position: int) -> None:
        """Take one record that is no sample; what is not known is counted."""
        header = int(self.words[position])
        kind, misc, size = header & 0xFFFFFFFF, header >> 32 & 0xFFFF, header >> 48
        if kind in _REFUSED:
            raise UsageError(
                f"'{self.name}' holds {_REFUSED[RecordType(kind)].split(':')[0]}",
                expected="a plain frame-pointer recording",
                hint=_REFUSED[RecordType(kind)].split(": ")[1],
            )
        body = self.data[position * 8 + 8 : position * 8 + size]
        try:
            self._task_record(kind, misc, body)
        except struct.error:
            self.skipped[kind] += 1

    def _task_record(self, kind: int, misc: int, body: memoryview) -> None:
        match kind:
            case RecordType.MMAP | RecordType.MMAP2:
                self._mmap(kind, misc, body)
            case RecordType.COMM:
                pid, tid = struct.unpack_from("<ii", body)
                comm = _text(body[8:])
                is_exec = bool(misc & _MISC_COMM_EXEC)
                self.tasks.append(Comm(time=self._time(body), pid=pid, tid=tid, comm=comm, is_exec=is_exec))
            case RecordType.FORK:
                pid, ppid, tid, ptid, time = struct.unpack_from("<iiiiQ", body)
                self.tasks.append(Fork(time=time, pid=pid, parent_pid=ppid, tid=tid, parent_tid=ptid))
            case RecordType.LOST:
                self.lost += struct.unpack_from("<QQ", body)[1]
            case RecordType.LOST_SAMPLES:
                self.lost += struct.unpack_from("<Q", body)[0]
            case RecordType.EXIT:
                pass
            case _:
                self.skipped[kind] += 1

    def _mmap(self, kind: int, misc: int, body: memoryview) -> None:
        pid, _tid, start, length, pgoff = struct.unpack_from("<iiQQQ", body)
        build_id, name_at = "", 32
        if kind == RecordType.MMAP2:
            name_at = 64
            prot = struct.unpack_from("<I", body, 56)[0]
            if misc & _MISC_MMAP_BUILD_ID:
                build_id = bytes(body[36 : 36 + min(body[32], 20)]).hex()
            if not prot & _PROT_EXEC:
                return
        is_kernel = misc & _MISC_CPUMODE == _CPUMODE_KERNEL or pid == -1
        self.tasks.append(
            Mmap(
                time=self._time(body),
                pid=pid,
                start=start,
                length=length,
                pgoff=pgoff,
                path=_text(body[name_at:]),
                build_id=build_id,
                is_kernel=is_kernel,
            )
        )

    def _time(self, body: memoryview) -> int:
        """Time from the record's trailer; events that differ in it are told apart by the IDENTIFIER at its very end."""
        layout = self.layouts[0]
        if len(self.layouts) > 1 and layout.id_from_end:
            identifier = struct.unpack_from("<Q", body, len(body) - 8)[0]
            for event, candidate in zip(self.events, self.layouts, strict=True):
                if identifier in event.ids:
                    layout = candidate
                    break
        if not layout.time_from_end:
            return TIMELESS
        return int(struct.unpack_from("<Q", body, len(body) - 8 * layout.time_from_end)[0])


def _text(body: memoryview) -> str:
    """A NUL-terminated name; bytes that are no UTF-8 survive as surrogates, as paths do in Python."""
    return bytes(body).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
