"""Samples as columns: a sample's fields stand at fixed distances from its header, so whole columns are gathered at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ipuenv.engine.perfbytes import WORD, ByteOrder
from ipuenv.engine.perflayout import Layout, common
from ipuenv.ground.errors import UsageError

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from ipuenv.engine.perfbytes import Indices, Words
    from ipuenv.engine.perfevents import Event

    Column = npt.NDArray[Any]

_MISC_CPUMODE = 7
_CPUMODE_KERNEL = 1
_MAX_GROUP = 1 << 16
_UNKNOWN_EVENT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Samples in time order, one row each. ``chain_start`` indexes the recording's words; times in nanoseconds."""

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
class Gathered:
    """Samples as they stand in the file, ``rank`` being the place of each among all records, and what is not among them.

    ``timed`` says which have a time of their own. ``unchained`` counts samples by the name of their event, which records
    no call chains; ``damaged`` counts samples that are too short for their fields, ``cut`` those whose chain is longer
    than they are and was cut, ``foreign`` those of no event that the file describes.
    """

    columns: dict[str, Column]
    rank: Indices
    timed: npt.NDArray[np.bool_]
    unchained: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    cut: int = 0
    foreign: int = 0


def gather(
    order: ByteOrder, words: Words, positions: Indices, rank: Indices, events: Sequence[Event], name: str
) -> Gathered:
    """Take samples apart.

    Raises:
        UsageError: it cannot be said which event a sample belongs to.
    """
    reader = _Reader(order, words)
    layouts = [Layout.of(event) for event in events]
    which = _events_of(reader, positions, events, layouts, name)
    unchained: Counter[str] = Counter()
    parts: list[dict[str, Column]] = []
    damaged = cut = 0
    for index, (event, layout) in enumerate(zip(events, layouts, strict=True)):
        rows = np.flatnonzero(which == index)
        if not layout.chain:
            unchained[event.name] += len(rows)
            rows = rows[:0]
        part = reader.columns(positions[rows], layout, event.period)
        part["rank"] = rank[rows][part.pop("kept")]
        part["event"] = np.full(len(part["rank"]), index, np.int64)
        part["timed"] = np.full(len(part["rank"]), bool(layout.time))
        damaged += len(rows) - len(part["rank"])
        cut += int(part.pop("cut").sum())
        parts.append(part)
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Gathered(
        rank=columns.pop("rank"),
        timed=columns.pop("timed"),
        columns=columns,
        unchained=+unchained,
        damaged=damaged,
        cut=cut,
        foreign=int((which == _UNKNOWN_EVENT).sum()),
    )


def _events_of(
    reader: _Reader, positions: Indices, events: Sequence[Event], layouts: Sequence[Layout], name: str
) -> Indices:
    """Index of each sample's event: by IDENTIFIER, which stands first, or by an ID that all events have in one place."""
    if len(events) == 1 or not len(positions):
        return np.zeros(len(positions), np.int64)
    place = common([layout.identifier for layout in layouts])
    if not place:
        raise UsageError(
            f"'{name}' holds {len(events)} events whose samples cannot be told apart",
            expected="sample identifiers in the recording",
            hint="record one event at a time, or with a perf that writes identifiers",
        )
    by_id = {identifier: index for index, event in enumerate(events) for identifier in event.ids}
    by_id.setdefault(0, 0)  # as perf takes it: made by perf itself, for the first event
    ids, inverse = np.unique(reader.at(positions + place), return_inverse=True)
    return np.array([by_id.get(int(identifier), _UNKNOWN_EVENT) for identifier in ids], np.int64)[inverse]


class _Reader:
    """The words of a recording, read without ever leaving them."""

    def __init__(self, order: ByteOrder, words: Words) -> None:
        self._order = order
        self._words = words

    def at(self, places: Indices) -> Words:
        """The word at each place. One beyond the end is read elsewhere, and its row is dropped by :meth:`columns`."""
        return self._words[np.minimum(places, len(self._words) - 1)]

    def columns(self, positions: Indices, layout: Layout, period: int) -> dict[str, Column]:
        """Columns of samples of one event that are long enough to be true; ``kept`` are their rows."""
        headers = self._words[positions]
        ends = positions + self._order.sizes(headers) // WORD
        chain = self._chains(positions, ends, layout)
        kept = np.flatnonzero(chain < ends)
        positions, headers, chain, ends = positions[kept], headers[kept], chain[kept], ends[kept]
        length, room = self.at(chain), (ends - chain - 1).astype(np.uint64)
        zeros = np.zeros(len(positions), np.uint64)
        pid, tid = self._order.pairs(self.at(positions + layout.tid) if layout.tid else zeros)
        return {
            "kept": kept,
            "cut": length > room,
            "time": self.at(positions + layout.time) if layout.time else zeros,
            "pid": pid,
            "tid": tid,
            "ip": self.at(positions + layout.ip) if layout.ip else zeros,
            "period": self.at(positions + layout.period) if layout.period else zeros + np.uint64(period or 1),
            "is_kernel": self._order.miscs(headers) & _MISC_CPUMODE == _CPUMODE_KERNEL,
            "chain_start": chain + 1,
            "chain_length": np.minimum(length, room).astype(np.int64),
        }

    def _chains(self, positions: Indices, ends: Indices, layout: Layout) -> Indices:
        """Where the length of each call chain stands; READ before it may be of any length."""
        read_at = positions + layout.chain
        chain = read_at + layout.read.fixed
        if layout.read.per_member:
            members = np.where(read_at < ends, self.at(read_at), np.uint64(0))
            chain += np.minimum(members, np.uint64(_MAX_GROUP)).astype(np.int64) * layout.read.per_member
        return chain
