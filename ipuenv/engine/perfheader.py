"""The header of perf.data: byte order, sections, events and features. A pipe has only the first of them there."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from ipuenv.engine.perfbytes import WORD, ByteOrder
from ipuenv.engine.perfevents import ATTR_MIN_SIZE, MAX_EVENTS, MAX_IDS, Event, read_attr
from ipuenv.engine.perffeatures import Feature, FeatureReader, Features, name_events
from ipuenv.ground.errors import UsageError

_MAGIC = {b"PERFILE2": ByteOrder.LITTLE, b"2ELIFREP": ByteOrder.BIG}
_PIPE_HEADER_SIZE = 16
_IDS_SECTION_BYTES = 16


class Section(NamedTuple):
    """A part of the file, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The parts of the file and what they say of the events.

    In a pipe (``is_pipe``) events and features are among the records. ``is_cut`` says that the file ends before a part
    that its header names, or that perf never came to write the sizes.
    """

    order: ByteOrder
    data: Section
    events: tuple[Event, ...] = ()
    features: Features
    is_pipe: bool = False
    is_cut: bool = False


def read_header(view: memoryview, name: str) -> Header:
    """Read the header of a recording.

    Raises:
        UsageError: not a perf.data, cut off within its header, or one of the files of a folder.
    """
    magic = bytes(view[:8])
    order = _MAGIC.get(magic)
    if order is None:
        raise UsageError(
            f"'{name}' is not a perf.data: it begins with {magic!r}",
            expected=f"the magic {next(iter(_MAGIC))!r}",
            hint="name a file that 'perf record' wrote",
        )
    try:
        if order.unpack("Q", view, 8)[0] == _PIPE_HEADER_SIZE:
            data = Section(_PIPE_HEADER_SIZE, len(view) - _PIPE_HEADER_SIZE)
            return Header(order=order, data=data, features=Features(), is_pipe=True)
        return _read_file_header(order, view, name)
    except (struct.error, ValueError) as error:
        raise damaged(name, str(error)) from error


def damaged(name: str, problem: str) -> UsageError:
    """The error for a file of which nothing can be read."""
    return UsageError(
        f"'{name}' is cut off or damaged: {problem}",
        expected="a whole perf.data",
        hint="record again; perf must be left to end by itself",
    )


def _read_file_header(order: ByteOrder, view: memoryview, name: str) -> Header:
    _size, attr_size, attr_at, attr_bytes, data_at, data_size, _, _, *words = order.unpack("8Q4Q", view, 8)
    bits = _feature_bits(order, words)
    # perf writes sizes when it ends: without one it was killed, and no feature table follows the records
    was_killed = not data_size and data_at < len(view)
    size = len(view) - data_at if was_killed else data_size
    if data_at > len(view):
        raise ValueError(f"its records should begin at byte {data_at:,}, where it has ended")
    features, is_cut = _read_features(order, view, data_at + size, 0 if was_killed else bits)
    if bits >> Feature.DIR_FORMAT & 1:
        raise UsageError(
            f"'{name}' is one file of a folder that 'perf record --threads' wrote",
            expected="a recording in one file",
            hint="record without --threads",
        )
    return Header(
        order=order,
        data=Section(data_at, min(size, len(view) - data_at)),
        events=_read_events(order, view, Section(attr_at, attr_bytes), attr_size, features),
        features=features,
        is_cut=is_cut or was_killed or data_at + size > len(view),
    )


def _feature_bits(order: ByteOrder, words: list[int]) -> int:
    """The bitmap as a number. A 32-bit big-endian machine writes halves of words; perf tells it by the hostname's bit."""
    bits = sum(word << 64 * index for index, word in enumerate(words))
    halves = sum((word >> 32 | (word & 0xFFFFFFFF) << 32) << 64 * index for index, word in enumerate(words))
    hostname = 1 << Feature.HOSTNAME
    return halves if order is ByteOrder.BIG and not bits & hostname and halves & hostname else bits


def _read_events(
    order: ByteOrder, view: memoryview, attrs: Section, attr_size: int, features: Features
) -> tuple[Event, ...]:
    """All events: slots of a ``perf_event_attr`` and, at the end of each, the section of its identifiers."""
    if attr_size < ATTR_MIN_SIZE + _IDS_SECTION_BYTES:
        raise ValueError(f"its event descriptions claim a size of {attr_size:,} bytes")
    count = attrs.size // attr_size
    if not 0 < count <= MAX_EVENTS:
        raise ValueError(f"it claims to hold {count:,} events")
    if attrs.offset + attrs.size > len(view):
        raise ValueError("it ends within its event descriptions")
    slots = [Section(attrs.offset + index * attr_size, attr_size - _IDS_SECTION_BYTES) for index in range(count)]
    ids = [Section(*order.unpack("QQ", view, slot.offset + slot.size)) for slot in slots]
    id_bytes = sum(section.size for section in ids)
    if id_bytes > WORD * MAX_IDS:
        raise ValueError(f"its events claim {id_bytes:,} bytes of identifiers")
    if any(section.offset + section.size > len(view) for section in ids):
        raise ValueError("it ends within the identifiers of its events")
    events = [read_attr(order, part(view, slot), part(view, own)) for slot, own in zip(slots, ids, strict=True)]
    return name_events(events, features)


def part(view: memoryview, section: Section) -> memoryview:
    """The bytes of a section."""
    return view[section.offset : section.offset + section.size]


def _read_features(order: ByteOrder, view: memoryview, table_at: int, bits: int) -> tuple[Features, bool]:
    """Feature sections, and whether one of them is beyond the end of the file."""
    reader, is_cut = FeatureReader(order), False
    for bit in (bit for bit in range(256) if bits >> bit & 1):
        if table_at + 16 > len(view):
            return reader.features(), True
        section = Section(*order.unpack("QQ", view, table_at))
        table_at += 16
        if section.offset + section.size > len(view):
            is_cut = True
        else:
            reader.take(bit, part(view, section))
    return reader.features(), is_cut
