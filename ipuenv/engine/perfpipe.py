"""Events and features that come as records, as a recording into a pipe has them; ``perf inject`` adds such to files.

Format: ``struct perf_record_header_attr`` and its neighbours in ``tools/lib/perf/include/perf/event.h``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ipuenv.engine.perfbytes import ByteOrder, text
from ipuenv.engine.perfevents import ATTR_MIN_SIZE, MAX_EVENTS, Event, read_attr
from ipuenv.engine.perffeatures import FeatureReader, name_events
from ipuenv.engine.perfrecords import RecordType

if TYPE_CHECKING:
    from ipuenv.engine.perffeatures import Features

DESCRIBING = (RecordType.HEADER_ATTR, RecordType.HEADER_FEATURE, RecordType.EVENT_UPDATE, RecordType.BUILD_ID)
"""Record types that describe the recording rather than what happened."""

_UPDATE_NAME = 2
_BUILD_ID_MIN_BYTES = 28


def describe(
    order: ByteOrder, records: Iterable[tuple[int, int, memoryview]], events: Sequence[Event], features: Features
) -> tuple[tuple[Event, ...], Features]:
    """Events and features, those that the header had and those of records: (type, misc, body behind the header).

    Records describe events only where the header had none. A record that is cut off or nonsense is left out.
    """
    found, reader = list(events), FeatureReader(order, features)
    for kind, misc, body in records:
        try:
            match kind:
                case RecordType.HEADER_ATTR if not events and len(found) < MAX_EVENTS:
                    found.append(_read_attr(order, body))
                case RecordType.HEADER_FEATURE:
                    reader.take(order.unpack("Q", body)[0], body[8:])
                case RecordType.EVENT_UPDATE:
                    update, identifier = order.unpack("QQ", body)
                    if update == _UPDATE_NAME:
                        reader.name_event(identifier, text(body[16:]))
                case RecordType.BUILD_ID if len(body) >= _BUILD_ID_MIN_BYTES:
                    reader.take_build_id(misc, body)
        except struct.error:
            continue
    features = reader.features()
    return name_events(found, features), features


def _read_attr(order: ByteOrder, body: memoryview) -> Event:
    """An attr says its own size; identifiers fill the rest of the record."""
    size = max(order.unpack("I", body, 4)[0], ATTR_MIN_SIZE)
    return read_attr(order, body[:size], body[size:])
