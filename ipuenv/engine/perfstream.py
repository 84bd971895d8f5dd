"""From the data section to whole records: compressed ones are expanded, payloads that follow records are skipped.

A plain file is read in place. What is compressed (``perf record -z``), carries payloads outside its records, or holds
records that are no multiple of 8 bytes, as pipes do, is copied together so that every record begins at a word.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ipuenv.engine.perfbytes import WORD, ByteOrder
from ipuenv.engine.perfinflate import DamagedError, Inflater
from ipuenv.engine.perfwalk import CARRIERS, HEADER_BYTES, Carrier, walk

if TYPE_CHECKING:
    from ipuenv.engine.perfbytes import Indices, Words

FIRST_USER_KIND = 64
"""Records from here on are written by the tool, not by the kernel, which alone keeps to multiples of 8 bytes."""

_SINGLE_STEPS = 64
_WINDOW_BYTES = 1 << 20
_COMPRESSED2_HEADER = 16
_COMPRESSED2_MAX_DATA = (1 << 16) - _COMPRESSED2_HEADER - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """All records, in the order of the file. ``positions`` index the words at which they begin in ``words``.

    ``data`` are the same bytes as the recording machine wrote them. ``problem`` says why the reading ended before the
    data did; ``aux_bytes`` counts the payload of AUX traces, which is left out.
    """

    words: Words
    data: memoryview
    positions: Indices
    problem: str = ""
    aux_bytes: int = 0


def read_records(order: ByteOrder, section: memoryview, name: str) -> Records:
    """Find the records of a data section.

    Raises:
        UsageError: compressed records that expand beyond all measure.
    """
    whole = section[: len(section) // WORD * WORD]
    words = order.words(whole)
    positions, end = walk(order, words)
    at = end * WORD
    if at == len(section):
        return Records(words=words, data=whole, positions=positions)
    if at + HEADER_BYTES <= len(section) and order.unpack("I", section, at)[0] >= FIRST_USER_KIND:
        return _Assembler(order, section, name).records(positions, at)
    return Records(words=words, data=whole, positions=positions, problem=_ending(section, at))


def _ending(section: memoryview, at: int) -> str:
    return f"the record at byte {at:,} of {len(section):,} is cut off or damaged, and the rest was not read"


def _problem_of(read: Callable[[], None]) -> str:
    try:
        read()
    except DamagedError as error:
        return str(error)
    return ""


class _Assembler:
    """Copies records together, each at a word of its own."""

    def __init__(self, order: ByteOrder, section: memoryview, name: str) -> None:
        self._order = order
        self._section = section
        self._copied = bytearray()
        self._singles = array("q")
        self._blocks: list[Indices] = []
        self._aux_bytes = 0
        self._inflater = Inflater(order, len(section), name, self._add_block)

    def records(self, positions: Indices, at: int) -> Records:
        """All records, of which those before byte ``at`` are known already."""
        self._add_block(self._section[:at], positions)
        ended = _problem_of(partial(self._read_from, at))
        unfinished = _problem_of(self._inflater.finish)
        self._close_singles()
        data = memoryview(self._copied)
        return Records(
            words=self._order.words(data),
            data=data,
            positions=np.concatenate(self._blocks),
            problem=ended or unfinished,
            aux_bytes=self._aux_bytes,
        )

    def _read_from(self, at: int) -> None:
        """Read record by record, and many at once when they have been plain for a while."""
        section, end = self._section, len(self._section)
        plain = 0
        while at < end:
            if plain > _SINGLE_STEPS:
                at = self._plain_from(at)
                plain = _SINGLE_STEPS
                continue
            kind, _misc, size = self._unpack("IHH", at)
            if kind in CARRIERS:
                at, plain = self._carrier(kind, at, size), 0
            elif size < HEADER_BYTES or at + size > end or (size % WORD and kind < FIRST_USER_KIND):
                raise DamagedError(_ending(section, at))
            else:
                self._add_single(section[at : at + size])
                at, plain = at + size, 0 if size % WORD else plain + 1

    def _plain_from(self, at: int) -> int:
        """Take plain records up to the end of a window; where the next one begins."""
        window = self._section[at : at + _WINDOW_BYTES]
        window = window[: len(window) // WORD * WORD]
        positions, stop = walk(self._order, self._order.words(window))
        self._inflater.drain()
        self._add_block(window[: stop * WORD], positions)
        return at + stop * WORD

    def _unpack(self, fields: str, at: int) -> tuple[int, ...]:
        try:
            return self._order.unpack(fields, self._section, at)
        except struct.error as error:
            raise DamagedError(_ending(self._section, at)) from error

    def _add_block(self, data: memoryview, positions: Indices) -> None:
        self._close_singles()
        self._blocks.append(positions + len(self._copied) // WORD)
        self._copied += data

    def _add_single(self, record: memoryview) -> None:
        self._inflater.drain()
        self._singles.append(len(self._copied) // WORD)
        self._copied += record
        self._copied += bytes(-len(record) % WORD)

    def _close_singles(self) -> None:
        if self._singles:
            self._blocks.append(np.array(self._singles, np.int64))
            self._singles = array("q")

    def _carrier(self, kind: int, at: int, size: int) -> int:
        """Take a record of :class:`Carrier`; where the next one begins."""
        match kind:
            case Carrier.COMPRESSED:
                return self._compressed(at, size)
            case Carrier.COMPRESSED2:
                return self._compressed2(at, size)
            case Carrier.TRACING_DATA:
                (payload,) = self._unpack("I", at + HEADER_BYTES)
                return self._with_payload(at, size, payload + -payload % WORD)
            case _:
                (payload,) = self._unpack("Q", at + HEADER_BYTES)
                self._aux_bytes += payload
                return self._with_payload(at, size, payload)

    def _with_payload(self, at: int, size: int, payload_bytes: int) -> int:
        end = at + size + payload_bytes
        if size <= HEADER_BYTES or end > len(self._section):
            raise DamagedError(_ending(self._section, at))
        self._add_single(self._section[at : at + size])
        return end

    def _compressed(self, at: int, size: int) -> int:
        end = at + size
        self._inflater.feed(self._section[at + HEADER_BYTES : end])
        if size < HEADER_BYTES or end > len(self._section):
            raise DamagedError(_ending(self._section, at))
        return end

    def _compressed2(self, at: int, size: int) -> int:
        """A COMPRESSED2 record: ``u64 data_size``, data, and zeros up to a multiple of 8 bytes.

        perf 6.16 and later let ``size`` overflow, write no zeros then, and let several records become the data of the
        first: each but the last is full, and all but the first kept their headers (``record__pushfn`` in
        ``tools/perf/builtin-record.c``).
        """
        (data_size,) = self._unpack("Q", at + HEADER_BYTES)
        begin, end = at + _COMPRESSED2_HEADER, at + _COMPRESSED2_HEADER + data_size
        padded = end + -(end - at) % WORD
        if (padded - at) & 0xFFFF != size:
            raise DamagedError(_ending(self._section, at))
        stop = min(end, begin + _COMPRESSED2_MAX_DATA)
        self._inflater.feed(self._section[begin:stop])
        while stop + HEADER_BYTES <= min(end, len(self._section)):
            kind, _misc, inner = self._unpack("IHH", stop)
            if kind != Carrier.COMPRESSED2 or inner < _COMPRESSED2_HEADER or stop + inner > end:
                raise DamagedError(_ending(self._section, stop))
            self._inflater.feed(self._section[stop + _COMPRESSED2_HEADER : stop + inner])
            stop += inner
        if stop != end or end > len(self._section):
            raise DamagedError(_ending(self._section, at))
        return padded if size == padded - at else end
