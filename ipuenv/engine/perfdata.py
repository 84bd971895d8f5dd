"""Reader of perf.data: bytes to columns of samples and the records that say what ran where.

Format: the kernel's ``tools/perf/Documentation/perf.data-file-format.txt``, ``include/uapi/linux/perf_event.h`` and
``tools/lib/perf/include/perf/event.h``. A recording is read as 64-bit words: a record is found by its word index. What is
not served is refused by name; what is left out is counted and told. Nothing here interprets an address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from ipuenv.engine.perfbytes import WORD, ByteOrder
from ipuenv.engine.perfevents import CallGraph, Event, Field
from ipuenv.engine.perffeatures import Features
from ipuenv.engine.perfheader import damaged, part, read_header
from ipuenv.engine.perfpipe import DESCRIBING, describe
from ipuenv.engine.perfrecords import Comm, Fork, KernelCode, Mmap, RecordType, SideRecords, TaskRecord, record_name
from ipuenv.engine.perfsamples import Gathered, Samples, gather
from ipuenv.engine.perfstream import Records, read_records
from ipuenv.engine.perfwalk import HEADER_BYTES
from ipuenv.ground.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ipuenv.engine.perfbytes import Indices, Words

__all__ = [
    "Comm",
    "Event",
    "Features",
    "Fork",
    "KernelCode",
    "Mmap",
    "PerfData",
    "RecordType",
    "Samples",
    "TaskRecord",
    "read",
    "record_name",
    "since_exec",
]

TIMELESS = 0
"""Time of records that carry none: perf writes the state of the world before the first event."""

_READ_FORMAT_LOST = 1 << 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfData:
    """One recording. ``is_partial`` says that the file ends before its records do, or is damaged from somewhere on.

    Without ``has_time`` times are places of records in the file: they put samples and tasks in order and mean nothing
    else. ``skipped`` counts records that were not interpreted, by :func:`record_name`'s types; ``unchained`` samples left
    out because their event records no call chains, by its name; ``remarks`` say what else a reader should know.
    """

    events: tuple[Event, ...]
    features: Features
    words: Words
    samples: Samples
    tasks: tuple[TaskRecord, ...]
    lost: int
    is_partial: bool
    skipped: Counter[int] = field(default_factory=Counter)
    has_time: bool = True
    kernel_code: tuple[KernelCode, ...] = ()
    unchained: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def read(data: Buffer, *, name: str = "perf.data") -> PerfData:
    """Read a recording from memory (bytes or a memory map).

    ``name`` is what messages call it.

    Raises:
        UsageError: it is no perf.data, or holds what this reader does not serve.
    """
    view = memoryview(data).cast("B")
    header = read_header(view, name)
    order = header.order
    _refuse_call_graphs(header.events, name)
    records = read_records(order, part(view, header.data), name)
    index = _Index(order, records)
    described = ((kind, misc, body) for _, kind, misc, body in index.select(DESCRIBING))
    events, features = describe(order, described, header.events, header.features)
    if not events:
        raise damaged(name, records.problem or "it describes no event")
    _refuse_call_graphs(events, name)
    if index.count(RecordType.CALLCHAIN_DEFERRED):
        raise _refusal(CallGraph.DEFERRED, name)
    ranks = index.ranks([RecordType.SAMPLE])
    gathered = gather(order, records.words, records.positions[ranks], ranks, events, name)
    _refuse_unchained(gathered, records, events, name)
    has_time = any(event.sample_type & Field.TIME for event in events)
    clock = _clock(gathered, len(records.positions), has_time=has_time)
    side = SideRecords(order, events, has_time=has_time)
    for rank, kind, misc, body in index.select(side.kinds):
        side.take(kind, misc, body, int(clock[rank]))
    side.tasks.sort(key=lambda record: record.time)
    return PerfData(
        events=events,
        features=features,
        words=records.words,
        samples=_in_order(gathered, clock),
        tasks=tuple(side.tasks),
        lost=_lost(side, events),
        is_partial=header.is_cut or bool(records.problem),
        skipped=index.skipped({RecordType.SAMPLE, *side.kinds, *DESCRIBING}),
        has_time=has_time,
        kernel_code=tuple(side.kernel_code),
        unchained=gathered.unchained,
        remarks=tuple(_remarks(gathered, side, records)),
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


class _Index:
    """The records of a recording by their type; a record's rank is its place among them."""

    def __init__(self, order: ByteOrder, records: Records) -> None:
        headers = records.words[records.positions]
        self._records = records
        self._order = order
        self._headers = headers
        self._kinds = order.kinds(headers)

    def ranks(self, kinds: Iterable[int]) -> Indices:
        """Ranks of the records of some types."""
        return np.flatnonzero(np.isin(self._kinds, list(kinds)))

    def count(self, kind: int) -> int:
        """How many records are of a type."""
        return int(np.count_nonzero(self._kinds == kind))

    def select(self, kinds: Iterable[int]) -> Iterator[tuple[int, int, int, memoryview]]:
        """Rank, type, misc and the body behind the header of each record of some types."""
        for rank in self.ranks(kinds).tolist():
            kind, misc, size = self._order.header(int(self._headers[rank]))
            begin = int(self._records.positions[rank]) * WORD
            yield rank, kind, misc, self._records.data[begin + HEADER_BYTES : begin + size]

    def skipped(self, known: Iterable[int]) -> Counter[int]:
        """Counts of the records of all other types."""
        kinds, counts = np.unique(self._kinds, return_counts=True)
        taken = set(known)
        return Counter({kind: n for kind, n in zip(kinds.tolist(), counts.tolist(), strict=True) if kind not in taken})


def _clock(gathered: Gathered, count: int, *, has_time: bool) -> Words:
    """What time it is at each of all records, for those that do not say: that of the newest sample before them.

    Where nothing in the file has a time, the place in the file stands for it.
    """
    if not has_time:
        return np.arange(count, dtype=np.uint64)
    times = np.zeros(count, np.uint64)
    times[gathered.rank] = gathered.columns["time"]
    return np.maximum.accumulate(times)


def _in_order(gathered: Gathered, clock: Words) -> Samples:
    """Samples in time order; ties keep the order of the file."""
    columns = dict(gathered.columns)
    columns["time"] = np.where(gathered.timed, columns["time"], clock[gathered.rank])
    by_rank = np.argsort(gathered.rank, kind="stable")
    order = by_rank[np.argsort(columns["time"][by_rank], kind="stable")]
    return Samples(**{key: column[order] for key, column in columns.items()})


def _lost(side: SideRecords, events: tuple[Event, ...]) -> int:
    """Samples lost. A perf that asks the kernel for the number writes it beside the LOST records of the same losses."""
    if any(event.read_format & _READ_FORMAT_LOST for event in events):
        return max(side.lost_records, side.lost_samples)
    return side.lost_records + side.lost_samples


_REFUSED = {
    CallGraph.DWARF: (
        "copies of stacks instead of call chains (perf record --call-graph dwarf)",
        "record with --call-graph fp, or unwind with perf: 'perf script -i {name} | inferno-collapse-perf > out.folded'",
    ),
    CallGraph.LBR: ("call chains from branch records (perf record --call-graph lbr)", "record with --call-graph fp"),
    CallGraph.DEFERRED: ("deferred call chains (perf record --call-graph fp,defer)", "record with --call-graph fp"),
}


def _refusal(call_graph: CallGraph, name: str) -> UsageError:
    what, hint = _REFUSED[call_graph]
    expected = "call chains by frame pointers"
    return UsageError(f"'{name}' holds {what}", expected=expected, hint=hint.format(name=name))


def _refuse_call_graphs(events: Iterable[Event], name: str) -> None:
    for event in events:
        if event.call_graph in _REFUSED:
            raise _refusal(event.call_graph, name)


def _refuse_unchained(gathered: Gathered, records: Records, events: tuple[Event, ...], name: str) -> None:
    """A recording in which nothing has a call chain has nothing to show."""
    if len(gathered.rank):
        return
    if records.aux_bytes:
        raise UsageError(
            f"'{name}' holds AUX traces (Intel PT, ARM SPE) and no sampled call chains",
            expected="call chains by frame pointers",
            hint="record a sampled event: 'perf record -e cycles --call-graph fp'",
        )
    if gathered.unchained or all(event.call_graph is CallGraph.NONE for event in events):
        event = max(gathered.unchained, key=gathered.unchained.__getitem__, default=events[0].name)
        raise UsageError(
            f"'{name}' holds no call chains (event '{event}')",
            expected="a recording with stacks",
            hint="record with 'perf record --call-graph fp'",
        )


def _remarks(gathered: Gathered, side: SideRecords, records: Records) -> Iterator[str]:
    """A sentence for everything that was left out."""
    if records.problem:
        yield records.problem
    for event, count in gathered.unchained.items():
        yield f"left out: {_counted(count, 'sample')} of '{event}', which records no call chains"
    if records.aux_bytes:
        yield f"left out: {records.aux_bytes:,} bytes of AUX traces (Intel PT, ARM SPE)"
    if gathered.foreign:
        yield f"left out: {_counted(gathered.foreign, 'sample')} of no event that the recording describes"
    if gathered.damaged or side.damaged:
        yield f"left out: {_counted(gathered.damaged + side.damaged, 'damaged record')}"
    if gathered.cut:
        yield f"cut off: {_counted(gathered.cut, 'call chain')} said to be longer than the sample"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
