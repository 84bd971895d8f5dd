"""The wire format of Protocol Buffers: numbers as varints, everything else as a length and its bytes.

Format: https://protobuf.dev/programming-guides/encoding. Written by hand since a profile has tens of millions of
numbers: they are joined from bytes that were made once, and read as whole columns, never one object each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_GROUPS = (3, 4)
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES = 10
_U64 = 2**64 - 1


class DamagedError(ValueError):
    """The bytes are no message."""


Field = tuple[int, int, int, int, int]
"""A field of a message: its number, its kind, the value of a varint (else 0), and where its content begins and ends."""


@lru_cache(maxsize=1 << 16)
def varint(number: int) -> bytes:
    """A number as varint; a negative one as the two's complement of 64 bits."""
    number &= _U64
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def number_field(field: int, number: int) -> bytes:
    """A numeric field; nothing for 0, which is what a reader assumes."""
    return varint(field << 3 | VARINT) + varint(number) if number else b""


def bytes_field(field: int, content: bytes) -> bytes:
    """A string, a message or a packed list, empty or not."""
    return varint(field << 3 | LENGTH) + varint(len(content)) + content


def packed_field(field: int, numbers: Iterable[int]) -> bytes:
    """A list of numbers."""
    return bytes_field(field, b"".join(map(varint, numbers)))


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The varint at ``at`` and where it ends.

    Raises:
        DamagedError: it reaches beyond ``end`` or is longer than any number.
    """
    value = shift = 0
    for position in range(at, min(end, at + _MAX_VARINT_BYTES)):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _U64, position + 1
        shift += 7
    raise DamagedError(f"a number at byte {at} does not end")


def fields(data: bytes, start: int, end: int) -> Iterator[Field]:
    """The fields of the message between two positions.

    Raises:
        DamagedError: a field reaches beyond the message, or is of a kind that does not exist.
    """
    at = start
    while at < end:
        tag = data[at]
        at += 1
        if tag > 0x7F:
            tag, at = read_varint(data, at - 1, end)
        kind = tag & 7
        if kind == LENGTH:
            # most fields are shorter than 128 bytes, and this is the inner loop of reading
            if at < end and data[at] < 0x80:
                begin = at + 1
                at = begin + data[at]
            else:
                size, begin = read_varint(data, at, end)
                at = begin + size
            if at > end:
                raise DamagedError(f"a field at byte {begin} claims to end {at - end} bytes behind its message")
            yield tag >> 3, kind, 0, begin, at
        elif kind == VARINT:
            begin = at
            value, at = read_varint(data, at, end)
            yield tag >> 3, kind, value, begin, at
        elif kind in _FIXED_SIZES:
            begin, at = at, at + _FIXED_SIZES[kind]
            if at > end:
                raise DamagedError(f"a number at byte {begin} is cut off")
            yield tag >> 3, kind, 0, begin, at
        else:
            what = "a group, which no profile has" if kind in _GROUPS else f"of kind {kind}, which does not exist"
            raise DamagedError(f"the field at byte {at} is {what}")


def column(encoded: bytes | bytearray) -> npt.NDArray[np.uint64]:
    """Varints that stand one after the other, as numbers.

    Raises:
        DamagedError: the last one does not end, or one is longer than any number.
    """
    octets = np.frombuffer(encoded, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if not len(octets):
        return np.zeros(0, np.uint64)
    if not len(ends) or ends[-1] != len(octets) - 1:
        raise DamagedError("a list of numbers does not end")
    starts = np.concatenate((np.zeros(1, ends.dtype), ends[:-1] + 1))
    sizes = ends - starts + 1
    if sizes.max() > _MAX_VARINT_BYTES:
        raise DamagedError("a number is longer than 64 bits")
    numbers = (octets[starts] & 0x7F).astype(np.uint64)
    longer = np.flatnonzero(sizes > 1)
    for index in range(1, _MAX_VARINT_BYTES):
        if not len(longer):
            break
        numbers[longer] |= (octets[starts[longer] + index] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * index)
        longer = longer[sizes[longer] > index + 1]
    return numbers


def counts(encoded: bytes | bytearray, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many varints each of the pieces holds that were joined, by their sizes in bytes.

    Raises:
        DamagedError: a number does not end where its piece does.
    """
    is_end = np.frombuffer(encoded, np.uint8) < 0x80
    borders = np.cumsum(sizes)
    if not is_end[borders[sizes > 0] - 1].all():
        raise DamagedError("a list of numbers does not end")
    ends_before = np.concatenate((np.zeros(1, np.int64), np.cumsum(is_end)))
    return np.diff(ends_before[borders], prepend=0)
