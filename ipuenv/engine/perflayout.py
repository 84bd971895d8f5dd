"""Where the fields of an event's records stand, by its ``sample_type``: ``perf_event_open(2)``, PERF_RECORD_SAMPLE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ipuenv.engine.perfevents import CallGraph, Event, Field

_BEFORE_READ = (
    *(Field.IDENTIFIER, Field.IP, Field.TID, Field.TIME, Field.ADDR),
    *(Field.ID, Field.STREAM_ID, Field.CPU, Field.PERIOD),
)
"""Fields of one word each that stand before the call chain, in their order, which is not the order of the bits."""

_TRAILER = (Field.TID, Field.TIME, Field.ID, Field.STREAM_ID, Field.CPU, Field.IDENTIFIER)
"""What ``sample_id_all`` puts at the end of records that are no samples."""

_GROUP, _ID, _LOST = 1 << 3, 1 << 2, 1 << 4
_TOTAL_TIMES = (1 << 0, 1 << 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFormat:
    """Words of the READ field: ``fixed``, and for a group ``per_member`` for each of as many as its first word says."""

    fixed: int
    per_member: int

    @classmethod
    def of(cls, event: Event) -> ReadFormat:
        if not event.sample_type & Field.READ:
            return cls(fixed=0, per_member=0)
        form = event.read_format
        times = sum(bool(form & bit) for bit in _TOTAL_TIMES)
        per_value = 1 + bool(form & _ID) + bool(form & _LOST)
        is_group = bool(form & _GROUP)
        return cls(fixed=times + (1 if is_group else per_value), per_member=per_value if is_group else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Word offsets of a sample's fields from its header; 0 where absent. ``chain`` is that of the chain's length, less READ.

    ``trailer`` are the words that ``sample_id_all`` puts behind other records; ``time_from_end`` and ``id_from_end``
    count from their end, 0 where they have none.
    """

    identifier: int
    ip: int
    tid: int
    time: int
    period: int
    chain: int
    read: ReadFormat
    trailer: int
    time_from_end: int
    id_from_end: int

    @classmethod
    def of(cls, event: Event) -> Layout:
        present = [kind for kind in _BEFORE_READ if event.sample_type & kind]
        offsets = {kind: offset for offset, kind in enumerate(present, 1)}
        trailer = [kind for kind in _TRAILER if event.sample_type & kind] if event.has_sample_id_all else []
        from_end = {kind: len(trailer) - index for index, kind in enumerate(trailer)}
        return cls(
            identifier=offsets.get(Field.IDENTIFIER, offsets.get(Field.ID, 0)),
            ip=offsets.get(Field.IP, 0),
            tid=offsets.get(Field.TID, 0),
            time=offsets.get(Field.TIME, 0),
            period=offsets.get(Field.PERIOD, 0),
            chain=len(present) + 1 if event.call_graph is not CallGraph.NONE else 0,
            read=ReadFormat.of(event),
            trailer=len(trailer),
            time_from_end=from_end.get(Field.TIME, 0),
            id_from_end=from_end.get(Field.IDENTIFIER, from_end.get(Field.ID, 0)),
        )


def common(offsets: Sequence[int]) -> int:
    """The one offset that all events share, 0 if they do not or have none."""
    return offsets[0] if len(set(offsets)) == 1 else 0
