"""What perf counted: ``struct perf_event_attr`` as the kernel's ``include/uapi/linux/perf_event.h`` lays it out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag, StrEnum

from ipuenv.engine.perfbytes import WORD, ByteOrder

MAX_EVENTS = 4096
MAX_IDS = 1 << 20
"""More events or identifiers than this are a lie of a damaged file: perf makes one for each event, CPU and thread."""

ATTR_MIN_SIZE = 64
"""Bytes of the first published version; later ones only add fields."""

_SAMPLE_ID_ALL = 1 << 18
_IS_FREQUENCY = 1 << 10
_DEFER_CALLCHAIN = 1 << 38
_BRANCH_CALL_STACK = 1 << 11

_HARDWARE, _SOFTWARE, _TRACEPOINT = 0, 1, 2
_NAMES = {
    _HARDWARE: (
        *("cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles"),
        *("stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"),
    ),
    _SOFTWARE: (
        *("cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults"),
        *("major-faults", "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches"),
    ),
}


class Field(IntFlag):
    """``enum perf_event_sample_format``: what a sample of an event holds."""

    IP = 1 << 0
    TID = 1 << 1
    TIME = 1 << 2
    ADDR = 1 << 3
    READ = 1 << 4
    CALLCHAIN = 1 << 5
    ID = 1 << 6
    CPU = 1 << 7
    PERIOD = 1 << 8
    STREAM_ID = 1 << 9
    BRANCH_STACK = 1 << 11
    STACK_USER = 1 << 13
    IDENTIFIER = 1 << 16


class CallGraph(StrEnum):
    """How the call chains of an event came about."""

    NONE = "none"
    FRAME_POINTERS = "fp"
    DWARF = "dwarf"
    LBR = "lbr"
    DEFERRED = "deferred"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What perf counted. ``name`` is perf's own description where the file has it; ``ids`` tell its samples."""

    name: str
    ids: frozenset[int]
    sample_type: int
    read_format: int
    has_sample_id_all: bool
    frequency_hz: int
    period: int
    call_graph: CallGraph = CallGraph.FRAME_POINTERS


def read_attr(order: ByteOrder, attr: memoryview, ids: memoryview, name: str = "") -> Event:
    """An event from its ``perf_event_attr`` and its identifiers, 8 bytes each; ``name`` is perf's, if it gave one.

    Raises:
        struct.error: the attr is shorter than its first version.
    """
    kind, _size, config, period, sample_type, read_format, flags = order.unpack("IIQQQQQ", attr[:ATTR_MIN_SIZE])
    branches = order.unpack("Q", attr, 72)[0] if len(attr) >= 80 else 0
    if order is ByteOrder.BIG:  # C lays out bit fields from the other end there
        flags = int(f"{flags:064b}"[::-1], 2)
    is_frequency = bool(flags & _IS_FREQUENCY)
    return Event(
        name=name or _name(kind, config),
        ids=frozenset(order.words(ids[: len(ids) // WORD * WORD]).tolist()),
        sample_type=sample_type,
        read_format=read_format,
        has_sample_id_all=bool(flags & _SAMPLE_ID_ALL),
        frequency_hz=period if is_frequency else 0,
        period=0 if is_frequency else period,
        call_graph=_call_graph(sample_type, flags, branches),
    )


def _call_graph(sample_type: int, flags: int, branches: int) -> CallGraph:
    """How perf record was told to find callers: ``__evsel__config_callchain`` in ``tools/perf/util/evsel.c``."""
    if not sample_type & Field.CALLCHAIN:
        return CallGraph.NONE
    if sample_type & Field.STACK_USER:
        return CallGraph.DWARF
    if sample_type & Field.BRANCH_STACK and branches & _BRANCH_CALL_STACK:
        return CallGraph.LBR
    return CallGraph.DEFERRED if flags & _DEFER_CALLCHAIN else CallGraph.FRAME_POINTERS


def _name(kind: int, config: int) -> str:
    names = _NAMES.get(kind, ())
    if config < len(names):
        return names[config]
    return f"tracepoint {config}" if kind == _TRACEPOINT else f"event {kind}:{config:#x}"
