"""The two byte orders in which a perf.data can be written, and reading its bytes in either."""

from __future__ import annotations

import struct
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]
    Indices = npt.NDArray[np.int64]

WORD = 8
"""Bytes of a word: what the kernel pads records to and counts fields in."""

_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)


class ByteOrder(Enum):
    """Byte order of the machine that recorded. ``word`` means 64 bits as that machine would read them."""

    LITTLE = "<"
    BIG = ">"

    def unpack(self, fields: str, data: memoryview, at: int = 0) -> tuple[Any, ...]:
        """``struct.unpack_from`` without padding. Raises :class:`struct.error` where the data end too early."""
        return struct.unpack_from(self.value + fields, data, at)

    def words(self, data: memoryview) -> Words:
        """Data as words, whose length must be a multiple of 8; a view where this machine has the same byte order."""
        words = np.frombuffer(data, f"{self.value}u8")
        return words if words.dtype.isnative else words.astype(np.uint64)

    def header(self, word: int) -> tuple[int, int, int]:
        """Type, ``misc`` and size in bytes of a record, by the word that heads it."""
        if self is ByteOrder.LITTLE:
            return word & 0xFFFFFFFF, word >> 32 & 0xFFFF, word >> 48
        return word >> 32, word >> 16 & 0xFFFF, word & 0xFFFF

    def kinds(self, headers: Words) -> Indices:
        """Record types of record headers: ``struct perf_event_header {u32 type; u16 misc; u16 size;}``."""
        kinds = headers & _LOW_HALF if self is ByteOrder.LITTLE else headers >> _HALF_BITS
        return kinds.astype(np.int64)

    def miscs(self, headers: Words) -> Indices:
        """The ``misc`` bits of record headers."""
        return (headers >> np.uint64(32 if self is ByteOrder.LITTLE else 16) & np.uint64(0xFFFF)).astype(np.int64)

    def sizes(self, headers: Words) -> Indices:
        """Sizes of records in bytes, by their headers."""
        return (headers >> np.uint64(48 if self is ByteOrder.LITTLE else 0) & np.uint64(0xFFFF)).astype(np.int64)

    def pairs(self, words: Words) -> tuple[Indices, Indices]:
        """The two signed 32-bit numbers that stand in each word, the first in the file first."""
        low = words.astype(np.uint32).astype(np.int32).astype(np.int64)
        high = (words >> _HALF_BITS).astype(np.uint32).astype(np.int32).astype(np.int64)
        return (low, high) if self is ByteOrder.LITTLE else (high, low)


def text(body: memoryview) -> str:
    """A NUL-terminated name; bytes that are no UTF-8 survive as surrogates, as paths do in Python."""
    return bytes(body).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
