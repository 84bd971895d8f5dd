"""From the data section to whole records: compressed ones are expanded, payloads that follow records are skipped.

A plain file is read in place. What is compressed (``perf record -z``), carries payloads outside its records, or holds
records that are no multiple of 8 bytes, as pipes do, is copied together so that every record begins at a word.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
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
        problem = ""
        try:
            self._read_from(at)
            self._inflater.finish()
        except DamagedError as error:
            problem = str(error)
        self._close_singles()
        data = memoryview(self._copied)
        return Records(
            words=self._order.words(data),
            data=data,
            positions=np.concatenate(self._blocks),
            problem=problem,
            aux_bytes=self._aux_bytes,
        )

    def _read_from(self, at: int) -> None:
        """Read record by record, and at once what has been plain for a while."""
        section, end = self._section, len(self._section)
        plain = 0
        while at < end:
            if plain > _SINGLE_STEPS:
                whole = section[at : at + (end - at) // WORD * WORD]
                positions, stop = walk(self._order, self._order.words(whole))
                self._inflater.drain()
                self._add_block(whole[: stop * WORD], positions)
                at, plain = at + stop * WORD, 0
                continue
            kind, _misc, size = self._order.unpack("IHH", section, at) if at + HEADER_BYTES <= end else (0, 0, 0)
            if kind in CARRIERS:
                at, plain = self._carrier(kind, at, size), 0
            elif size < HEADER_BYTES or at + size > end or (size % WORD and kind < FIRST_USER_KIND):
                raise DamagedError(_ending(section, at))
            else:
                self._add_single(section[at : at + size])
                at, plain = at + size, 0 if size % WORD else plain + 1

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
        section, end = self._section, at + size
        is_compressed = kind == Carrier.COMPRESSED
        if size < HEADER_BYTES + (0 if is_compressed else WORD) and kind != Carrier.COMPRESSED2:
            raise DamagedError(_ending(section, at))
        if at + 2 * WORD > len(section) and not is_compressed:
            raise DamagedError(_ending(section, at))
        if kind == Carrier.COMPRESSED2:
            return self._compressed2(at, size)
        if is_compressed:
            self._inflater.feed(section[at + HEADER_BYTES : end])
        else:
            end += self._payload_bytes(kind, at)
        if end > len(section):
            raise DamagedError(_ending(section, at))
        if not is_compressed:
            self._add_single(section[at : at + size])
        return end

    def _payload_bytes(self, kind: int, at: int) -> int:
        if kind == Carrier.TRACING_DATA:
            return -(-int(self._order.unpack("I", self._section, at + 8)[0]) // WORD) * WORD
        payload = int(self._order.unpack("Q", self._section, at + 8)[0])
        self._aux_bytes += payload
        return payload

    def _compressed2(self, at: int, size: int) -> int:
        """A COMPRESSED2 record: ``u64 data_size``, data, and zeros up to a multiple of 8 bytes.

        perf 6.16 and later let ``size`` overflow, write no zeros then, and let several records become the data of the
        first: each but the last is full, and all but the first kept their headers (``record__pushfn`` in
        ``tools/perf/builtin-record.c``).
        """
        data_size = int(self._order.unpack("Q", self._section, at + 8)[0])
        begin, end = at + _COMPRESSED2_HEADER, at + _COMPRESSED2_HEADER + data_size
        padded = end + -(end - at) % WORD
        if (padded - at) & 0xFFFF != size:
            raise DamagedError(_ending(self._section, at))
        stop = min(end, begin + _COMPRESSED2_MAX_DATA)
        self._inflater.feed(self._section[begin:stop])
        while stop + HEADER_BYTES <= min(end, len(self._section)):
            kind, _misc, inner = self._order.unpack("IHH", self._section, stop)
            if kind != Carrier.COMPRESSED2 or inner < _COMPRESSED2_HEADER or stop + inner > end:
                raise DamagedError(_ending(self._section, stop))
            self._inflater.feed(self._section[stop + _COMPRESSED2_HEADER : stop + inner])
            stop += inner
        if stop != end or end > len(self._section):
            raise DamagedError(_ending(self._section, at))
        return padded if size == padded - at else end
