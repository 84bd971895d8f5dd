"""The header of perf.data: events, their identifiers, and the feature sections (build-ids, host, command line)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ipuenv.ground.errors import UsageError

_MAGIC = b"PERFILE2"
_MAGIC_SWAPPED = b"2ELIFREP"
_FILE_HEADER = struct.Struct("<8sQQQQQQQQ4Q")
_PIPE_HEADER_SIZE = 16
_ATTR_MIN_SIZE = 64
_SAMPLE_ID_ALL = 1 << 18
_MAX_EVENTS = 4096

_FEATURE_BUILD_ID = 2
_FEATURE_STRINGS = {3: "hostname", 4: "os_release", 5: "perf_version", 6: "arch", 8: "cpu"}
_FEATURE_CMDLINE = 11
_FEATURE_EVENT_DESC = 12
_FEATURE_SAMPLE_TIME = 21
_BUILD_ID_SIZE_KNOWN = 1 << 15

_SOFTWARE_EVENTS = ("cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations")
_HARDWARE_EVENTS = ("cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses")


class Section(NamedTuple):
    """A part of the file, in bytes."""

    offset: int
    size: int


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the recording says of its origin; empty where it does not. ``build_ids`` by path as perf names it."""

    hostname: str = ""
    os_release: str = ""
    perf_version: str = ""
    arch: str = ""
    cpu: str = ""
    cmdline: tuple[str, ...] = ()
    build_ids: Mapping[str, str] = field(default_factory=dict)
    event_names: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The parts of the file and what they say of the events."""

    data: Section
    events: tuple[Event, ...]
    features: Features


def read_header(view: memoryview, name: str) -> Header:
    """Read the header of a recording.

    Raises:
        UsageError: not a perf.data, cut off within its header, or of a form that is not served.
    """
    magic = bytes(view[:8])
    if magic == _MAGIC_SWAPPED:
        raise UsageError(
            f"'{name}' was recorded on a machine of the other byte order",
            expected="a recording of a little-endian machine",
            hint="render it on such a machine",
        )
    if magic != _MAGIC:
        raise UsageError(
            f"'{name}' is not a perf.data: it begins with {magic!r}",
            expected=f"the magic {_MAGIC!r}",
            hint="name a file that 'perf record' wrote",
        )
    if len(view) >= _PIPE_HEADER_SIZE and struct.unpack_from("<Q", view, 8)[0] == _PIPE_HEADER_SIZE:
        raise UsageError(
            f"'{name}' was recorded into a pipe",
            expected="a recording written to a file",
            hint="record with 'perf record -o perf.data'",
        )
    try:
        return _read_file_header(view)
    except (struct.error, ValueError) as error:
        raise UsageError(
            f"'{name}' is cut off or damaged: {error}",
            expected="a whole perf.data",
            hint="record again; perf must be left to end by itself",
        ) from error


def _read_file_header(view: memoryview) -> Header:
    _, _size, attr_size, attr_at, attr_bytes, data_at, data_size, _, _, *bits = _FILE_HEADER.unpack_from(view)
    features = _read_features(view, data_at + data_size, sum(word << 64 * index for index, word in enumerate(bits)))
    if attr_size < _ATTR_MIN_SIZE + 16:
        raise ValueError(f"its event descriptions claim a size of {attr_size} bytes")
    count = attr_bytes // attr_size
    if not 0 < count <= _MAX_EVENTS:
        raise ValueError(f"it claims to hold {count} events")
    events = tuple(_read_event(view, attr_at + index * attr_size, attr_size, features) for index in range(count))
    return Header(data=Section(data_at, data_size), events=events, features=features)


def _read_event(view: memoryview, at: int, attr_size: int, features: Features) -> Event:
    """One ``perf_event_attr`` and the section of its ids, which stands at the end of its slot."""
    kind, _size, config, period, sample_type, read_format, flags = struct.unpack_from("<IIQQQQQ", view, at)
    ids_at, ids_bytes = struct.unpack_from("<QQ", view, at + attr_size - 16)
    if ids_bytes > len(view):
        raise ValueError(f"an event claims {ids_bytes} bytes of identifiers")
    ids = frozenset(struct.unpack_from(f"<{ids_bytes // 8}Q", view, ids_at))
    is_frequency = bool(flags & 1 << 10)
    return Event(
        name=next((features.event_names[i] for i in ids if i in features.event_names), _event_name(kind, config)),
        ids=ids,
        sample_type=sample_type,
        read_format=read_format,
        has_sample_id_all=bool(flags & _SAMPLE_ID_ALL),
        frequency_hz=period if is_frequency else 0,
        period=0 if is_frequency else period,
    )


def _event_name(kind: int, config: int) -> str:
    names = {0: _HARDWARE_EVENTS, 1: _SOFTWARE_EVENTS}.get(kind, ())
    return names[config] if config < len(names) else f"event {kind}:{config:#x}"


def _read_features(view: memoryview, table_at: int, bits: int) -> Features:
    """Feature sections; each that is cut off or nonsense is left out, since none is needed to read the samples."""
    strings: dict[str, str] = {}
    cmdline: tuple[str, ...] = ()
    build_ids: dict[str, str] = {}
    event_names: dict[int, str] = {}
    for bit in (bit for bit in range(256) if bits >> bit & 1):
        if table_at + 16 > len(view):
            break
        offset, size = struct.unpack_from("<QQ", view, table_at)
        table_at += 16
        body = view[offset : offset + size] if offset + size <= len(view) else view[:0]
        try:
            if bit in _FEATURE_STRINGS:
                strings[_FEATURE_STRINGS[bit]] = _string(body, 0)[0]
            elif bit == _FEATURE_CMDLINE:
                cmdline = _strings(body)
            elif bit == _FEATURE_BUILD_ID:
                build_ids = _read_build_ids(body)
            elif bit == _FEATURE_EVENT_DESC:
                event_names = _read_event_names(body)
        except struct.error:
            continue
    return Features(**strings, cmdline=cmdline, build_ids=build_ids, event_names=event_names)


def _string(body: memoryview, at: int) -> tuple[str, int]:
    """A length-prefixed, NUL-padded string and where it ends."""
    size = struct.unpack_from("<I", body, at)[0]
    end = at + 4 + size
    if end > len(body):
        raise struct.error("a string reaches beyond its section")
    return bytes(body[at + 4 : end]).split(b"\0", 1)[0].decode("utf-8", "surrogateescape"), end


def _strings(body: memoryview) -> tuple[str, ...]:
    count, at = struct.unpack_from("<I", body)[0], 4
    found: list[str] = []
    for _ in range(count):
        text, at = _string(body, at)
        found.append(text)
    return tuple(found)


def _read_build_ids(body: memoryview) -> dict[str, str]:
    """The build-id table: ``struct perf_record_header_build_id``, one record a file."""
    found: dict[str, str] = {}
    at = 0
    while at + 36 <= len(body):
        _type, misc, size, _pid = struct.unpack_from("<IHHi", body, at)
        if size < 36 or at + size > len(body):
            break
        raw = bytes(body[at + 12 : at + 32])
        if misc & _BUILD_ID_SIZE_KNOWN:
            raw = raw[: min(body[at + 32], 20)]
        else:  # older perf does not say how long it is and pads with zeros
            while len(raw) > 4 and raw.endswith(b"\0\0\0\0"):
                raw = raw[:-4]
        path = bytes(body[at + 36 : at + size]).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
        if any(raw):
            found[path] = raw.hex()
        at += size
    return found


def _read_event_names(body: memoryview) -> dict[int, str]:
    """EVENT_DESC: perf's names of the events, by sample identifier."""
    count, attr_size = struct.unpack_from("<II", body)
    at, names = 8, {}
    for _ in range(min(count, _MAX_EVENTS)):
        ids = struct.unpack_from("<I", body, at + attr_size)[0]
        text, end = _string(body, at + attr_size + 4)
        for identifier in struct.unpack_from(f"<{ids}Q", body, end):
            names[identifier] = text
        at = end + 8 * ids
    return names
