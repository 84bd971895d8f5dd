"""Compressed records: one zstd stream that runs through all of them, and may end each of them within a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ipuenv.engine.perfbytes import WORD, ByteOrder
from ipuenv.engine.perfwalk import HEADER_BYTES, is_plain, walk
from ipuenv.ground.errors import UsageError

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj

    from ipuenv.engine.perfbytes import Indices

EXPANSION_LIMIT = 256
EXPANSION_FLOOR_BYTES = 64 << 20
"""Compressed records may grow to this many times the size of the data section, plus the floor. The most repetitive
frame-pointer recording tried, an endless loop at the highest level, grew 85-fold."""

_BLOCK_BYTES = 1 << 17
_FEED_BYTES = 1 << 10
"""What is fed at once: the most that so much data can expand to, some 32 MiB, is then held in memory."""


class DamagedError(Exception):
    """A record that cannot be right: what stands before it is kept, and the reading ends."""


class Inflater:
    """Expands the data of compressed records and hands whole records on, a block at a time."""

    def __init__(
        self, order: ByteOrder, compressed_bytes: int, name: str, sink: Callable[[memoryview, Indices], None]
    ) -> None:
        self._order = order
        self._limit_bytes = EXPANSION_FLOOR_BYTES + EXPANSION_LIMIT * compressed_bytes
        self._name = name
        self._sink = sink
        self._pending = bytearray()
        self._inflated_bytes = 0
        self._stream: ZstdDecompressionObj | None = None

    def feed(self, data: memoryview) -> None:
        """Expand the data of one record.

        Raises:
            DamagedError: it is no zstd data, or holds no records.
            UsageError: it expands beyond all measure.
        """
        from zstandard import ZstdDecompressor, ZstdError

        if self._stream is None:
            self._stream = ZstdDecompressor().decompressobj(write_size=_BLOCK_BYTES, read_across_frames=True)
        for begin in range(0, len(data), _FEED_BYTES):
            try:
                self._take(self._stream.decompress(data[begin : begin + _FEED_BYTES]))
            except ZstdError as error:
                raise DamagedError(
                    f"compressed records are damaged and were not read on from there: {error}"
                ) from error

    def _take(self, inflated: bytes) -> None:
        self._inflated_bytes += len(inflated)
        if self._inflated_bytes > self._limit_bytes:
            raise UsageError(
                f"'{self._name}' holds compressed records that expand to more than {self._limit_bytes:,} bytes",
                expected=f"at most {EXPANSION_LIMIT} times their size, which is more than perf reaches",
                hint="do not trust this file; if it is your own, record without -z",
            )
        self._pending += inflated
        if len(self._pending) >= _BLOCK_BYTES:
            self.drain()

    def drain(self) -> None:
        """Hand on the whole records that are there.

        Raises:
            DamagedError: what comes next is no record.
        """
        if not self._pending:
            return
        pending = memoryview(bytes(self._pending))
        whole = pending[: len(pending) // WORD * WORD]
        positions, stop = walk(self._order, self._order.words(whole))
        self._sink(whole[: stop * WORD], positions)
        del self._pending[: stop * WORD]
        if len(self._pending) >= HEADER_BYTES:
            kind, _misc, size = self._order.unpack("IHH", pending, stop * WORD)
            if not is_plain(kind, size):
                raise DamagedError("compressed records hold a damaged one and were not read on from there")

    def finish(self) -> None:
        """To be called when all is fed.

        Raises:
            DamagedError: the last record is not whole.
        """
        self.drain()
        if self._pending:
            raise DamagedError("the recording ends within a compressed record")
