"""What a recording says of its origin: the feature sections of a file, which are records in a pipe.

Format: ``tools/perf/Documentation/perf.data-file-format.txt``, ``tools/perf/util/header.c``. None of it is needed to read
samples, so a part that is cut off or nonsense is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from ipuenv.engine.perfbytes import ByteOrder, text
from ipuenv.engine.perfevents import MAX_EVENTS, Event

_MAX_STRINGS = 1 << 17
_BUILD_ID_BYTES = 20
_BUILD_ID_RECORD_BYTES = 36
_BUILD_ID_SIZE_KNOWN = 1 << 15


class Feature(IntEnum):
    """Bits of the feature bitmap that this reader takes notice of: ``HEADER_*`` in ``tools/perf/util/header.h``."""

    BUILD_ID = 2
    HOSTNAME = 3
    OS_RELEASE = 4
    VERSION = 5
    ARCH = 6
    CPU_DESC = 8
    CMDLINE = 11
    EVENT_DESC = 12
    DIR_FORMAT = 24


_STRINGS = {
    Feature.HOSTNAME: "hostname",
    Feature.OS_RELEASE: "os_release",
    Feature.VERSION: "perf_version",
    Feature.ARCH: "arch",
    Feature.CPU_DESC: "cpu",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the recording says of its origin; empty where it does not. ``build_ids`` by path as perf names it.

    ``event_names`` are by sample identifier, ``events_in_order`` as the events stand in the file.
    """

    hostname: str = ""
    os_release: str = ""
    perf_version: str = ""
    arch: str = ""
    cpu: str = ""
    cmdline: tuple[str, ...] = ()
    build_ids: Mapping[str, str] = field(default_factory=dict)
    event_names: Mapping[int, str] = field(default_factory=dict)
    events_in_order: tuple[str, ...] = ()


class FeatureReader:
    """Gathers features as they come, beside those that are ``known``."""

    def __init__(self, order: ByteOrder, known: Features | None = None) -> None:
        known = known or Features()
        self._order = order
        self._strings = {name: getattr(known, name) for name in _STRINGS.values()}
        self._cmdline = known.cmdline
        self._build_ids = dict(known.build_ids)
        self._event_names = dict(known.event_names)
        self._in_order = known.events_in_order

    def take(self, feature: int, body: memoryview) -> None:
        """One feature's section."""
        try:
            if feature in _STRINGS:
                self._strings[_STRINGS[Feature(feature)]] = self._string(body, 0)[0]
            elif feature == Feature.CMDLINE:
                self._cmdline = self._read_cmdline(body)
            elif feature == Feature.BUILD_ID:
                self._read_build_ids(body)
            elif feature == Feature.EVENT_DESC:
                self._read_event_desc(body)
        except struct.error:
            return

    def take_build_id(self, misc: int, body: memoryview) -> None:
        """``struct perf_record_header_build_id`` behind its header: the build-id of one file."""
        raw = bytes(body[4 : 4 + _BUILD_ID_BYTES])
        if misc & _BUILD_ID_SIZE_KNOWN:
            raw = raw[: min(body[4 + _BUILD_ID_BYTES], _BUILD_ID_BYTES)]
        else:  # older perf does not say how long it is and pads with zeros
            while len(raw) > 4 and raw.endswith(bytes(4)):
                raw = raw[:-4]
        if any(raw):
            self._build_ids[text(body[_BUILD_ID_RECORD_BYTES - 8 :])] = raw.hex()

    def name_event(self, identifier: int, name: str) -> None:
        """Perf's name of the event that has an identifier."""
        self._event_names[identifier] = name

    def features(self) -> Features:
        """All that came."""
        return Features(
            **self._strings,
            cmdline=self._cmdline,
            build_ids=self._build_ids,
            event_names=self._event_names,
            events_in_order=self._in_order,
        )

    def _string(self, body: memoryview, at: int) -> tuple[str, int]:
        """A length-prefixed, NUL-padded string and where it ends."""
        end = at + 4 + self._order.unpack("I", body, at)[0]
        if end > len(body):
            raise struct.error("a string reaches beyond its section")
        return text(body[at + 4 : end]), end

    def _read_cmdline(self, body: memoryview) -> tuple[str, ...]:
        count, at = self._order.unpack("I", body)[0], 4
        if count > _MAX_STRINGS:
            raise struct.error("more arguments than a program can have")
        found: list[str] = []
        for _ in range(count):
            argument, at = self._string(body, at)
            found.append(argument)
        return tuple(found)

    def _read_build_ids(self, body: memoryview) -> None:
        """The build-id table: one record a file."""
        at = 0
        while at + _BUILD_ID_RECORD_BYTES <= len(body):
            _kind, misc, size = self._order.unpack("IHH", body, at)
            if size < _BUILD_ID_RECORD_BYTES or at + size > len(body):
                return
            self.take_build_id(misc, body[at + 8 : at + size])
            at += size

    def _read_event_desc(self, body: memoryview) -> None:
        """EVENT_DESC: the name and the identifiers of each event, behind its ``perf_event_attr``."""
        count, attr_size = self._order.unpack("II", body)
        at, names = 8, list[str]()
        for _ in range(min(count, MAX_EVENTS)):
            ids = self._order.unpack("I", body, at + attr_size)[0]
            name, at = self._string(body, at + attr_size + 4)
            names.append(name)
            for identifier in self._order.unpack(f"{ids}Q", body, at):
                self.name_event(identifier, name)
            at += 8 * ids
        self._in_order = tuple(names)


def name_events(events: Sequence[Event], features: Features) -> tuple[Event, ...]:
    """Events under the names that perf gave them: by identifier, or by their order where they have none."""
    in_order = features.events_in_order if len(features.events_in_order) == len(events) else [""] * len(events)
    names = [
        next((features.event_names[i] for i in event.ids if i in features.event_names), fallback or event.name)
        for event, fallback in zip(events, in_order, strict=True)
    ]
    return tuple(replace(event, name=name) for event, name in zip(events, names, strict=True))
