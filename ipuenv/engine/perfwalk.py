"""Where records begin in a run of words: sizes are followed blindly for a block, which is then checked at once."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from ipuenv.engine.perfbytes import WORD, ByteOrder

if TYPE_CHECKING:
    from ipuenv.engine.perfbytes import Indices, Words

HEADER_BYTES = 8
_FIRST_BLOCK, _LAST_BLOCK = 256, 1 << 16
_FEW_WORDS = 1 << 10


class Carrier(IntEnum):
    """Records with something behind them or inside them, at which a walk stops."""

    TRACING_DATA = 66
    AUXTRACE = 71
    COMPRESSED = 81
    COMPRESSED2 = 83


CARRIERS = frozenset(Carrier)


def walk(order: ByteOrder, words: Words) -> tuple[Indices, int]:
    """Positions of records, and the position behind them: the end, or a record to be looked at more closely."""
    if len(words) < _FEW_WORDS:
        return _walk_few(order, words)
    sizes = (words if words.flags.aligned else words.copy()).view(np.uint16).data
    size_at = 3 if (order is ByteOrder.LITTLE) == (sys.byteorder == "little") else 0
    blocks: list[Indices] = []
    position, end, count = 0, len(words), _FIRST_BLOCK
    while position < end:
        block = _follow(sizes, position * 4 + size_at, count)
        good, position = _check(order, words, np.array(block, np.int64) >> 2)
        blocks.append(good)
        if len(good) < len(block):
            break
        count = min(count * 2, _LAST_BLOCK)
    return np.concatenate(blocks), position


def is_plain(kind: int, size_bytes: int) -> bool:
    """Whether a walk passes a record, if the data hold all of it."""
    return size_bytes >= HEADER_BYTES and not size_bytes % WORD and kind not in CARRIERS


def _walk_few(order: ByteOrder, words: Words) -> tuple[Indices, int]:
    """The same for a handful of records, for which arrays cost more than they save."""
    positions: list[int] = []
    position, end = 0, len(words)
    while position < end:
        kind, _misc, size = order.header(int(words[position]))
        if not is_plain(kind, size) or position + size // WORD > end:
            break
        positions.append(position)
        position += size // WORD
    return np.array(positions, np.int64), position


def _follow(sizes: memoryview, at: int, count: int) -> list[int]:
    """Where up to ``count`` records keep their size, in units of 2 bytes."""
    block: list[int] = []
    end = len(sizes)
    for _ in range(count):
        if at >= end:
            break
        block.append(at)
        at += sizes[at] >> 1
    return block


def _check(order: ByteOrder, words: Words, positions: Indices) -> tuple[Indices, int]:
    """The positions up to the first record that is not plain or not whole, and the position behind them."""
    headers = words[positions]
    sizes, kinds = order.sizes(headers), order.kinds(headers)
    ends = positions + sizes // WORD
    wrong = (sizes < HEADER_BYTES) | (sizes % WORD > 0) | (ends > len(words)) | np.isin(kinds, list(CARRIERS))
    first = int(wrong.argmax())
    return (positions[:first], int(positions[first])) if wrong[first] else (positions, int(ends[-1]))
