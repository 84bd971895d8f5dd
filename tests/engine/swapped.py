"""A recording as a machine of the other byte order would have written it: turned around field by field.

Only what ``perf script`` and the reader take notice of is kept: kernel records, rounds, and the plainer features.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

ATTR = "IIQQQQQIIQQQQIiQIHHIIQ"
ATTR_FLAGS = 6
TRAILER_BITS = (1, 2, 6, 9, 7, 16)  # TID TIME ID STREAM_ID CPU IDENTIFIER
BEFORE_CHAIN_BITS = (16, 0, 1, 2, 3, 6, 9, 7, 8)  # IDENTIFIER IP TID TIME ADDR ID STREAM_ID CPU PERIOD
HALVES = (1, 7)  # TID and CPU are two numbers of 32 bits
STRING_FEATURES = (3, 4, 5, 6, 8, 9)
SAMPLE, MMAP, COMM, EXIT, FORK, MMAP2 = 9, 1, 3, 4, 7, 10
ALL_WORDS = (2, 13, 5, 6, 68, 82)  # LOST, LOST_SAMPLES, THROTTLE, UNTHROTTLE, FINISHED_ROUND, FINISHED_INIT


def turned(fields: str, data: bytes, at: int = 0) -> bytes:
    return struct.pack(">" + fields, *struct.unpack_from("<" + fields, data, at))


def turned_words(data: bytes) -> bytes:
    return turned(f"{len(data) // 8}Q", data)


def swap(data: bytes) -> bytes:
    """The whole file, big-endian."""
    _, size, attr_size, attrs_at, attrs_bytes, data_at, data_bytes, _, _, *bits = struct.unpack_from("<8s8Q4Q", data)
    attrs = [data[at : at + attr_size] for at in range(attrs_at, attrs_at + attrs_bytes, attr_size)]
    ids = [read_section(data, struct.unpack_from("<QQ", attr, attr_size - 16)) for attr in attrs]
    kept_ids = b"".join(turned_words(section) for section in ids)
    ids_at = size
    slots = b""
    for attr, section in zip(attrs, ids, strict=True):
        slots += swap_attr(attr[:-16]) + struct.pack(">QQ", ids_at, len(section))
        ids_at += len(section)
    sample_type = struct.unpack_from("<Q", attrs[0], 24)[0]
    records = swap_records(data[data_at : data_at + data_bytes], sample_type)
    sections = (attr_size, size + len(kept_ids), len(slots), size + len(kept_ids) + len(slots), len(records), 0, 0)
    features = swap_features(data, data_at + data_bytes, bits[0])
    bitmap = sum(1 << bit for bit in features)
    head = b"2ELIFREP" + struct.pack(">8Q4Q", size, *sections, bitmap, 0, 0, 0)
    body = head + kept_ids + slots + records
    return body + feature_table(features, len(body))


def read_section(data: bytes, section: tuple[int, int]) -> bytes:
    return data[section[0] : section[0] + section[1]]


def swap_attr(attr: bytes) -> bytes:
    assert len(attr) == 128
    fields = list(struct.unpack("<" + ATTR, attr))
    fields[ATTR_FLAGS] = int(f"{fields[ATTR_FLAGS]:064b}"[::-1], 2)
    return struct.pack(">" + ATTR, *fields)


def swap_records(data: bytes, sample_type: int) -> bytes:
    found, at = b"", 0
    while at < len(data):
        kind, misc, size = struct.unpack_from("<IHH", data, at)
        body = swap_body(kind, misc, data[at + 8 : at + size], sample_type)
        if body is not None:
            found += struct.pack(">IHH", kind, misc, size) + body
        at += size
    return found


def swap_body(kind: int, misc: int, body: bytes, sample_type: int) -> bytes | None:
    """None for a record that is left out."""
    trailer = [bit for bit in TRAILER_BITS if sample_type >> bit & 1]
    fields = "".join("II" if bit in HALVES else "Q" for bit in trailer)
    end = len(body) - 8 * len(trailer)
    if kind == SAMPLE:
        return swap_sample(body, sample_type)
    if kind in ALL_WORDS:
        return turned_words(body)
    if kind == MMAP2:
        device = body[32:56] if misc & 1 << 14 else turned("IIQQ", body, 32)
        return turned("iiQQQ", body) + device + turned("II", body, 56) + body[64:end] + turned(fields, body, end)
    before_name = {MMAP: "iiQQQ", COMM: "ii", FORK: "iiiiQ", EXIT: "iiiiQ"}.get(kind)
    if before_name is None:
        return None
    name_at = struct.calcsize("<" + before_name)
    return turned(before_name, body) + body[name_at:end] + turned(fields, body, end)


def swap_sample(body: bytes, sample_type: int) -> bytes:
    present = [bit for bit in BEFORE_CHAIN_BITS if sample_type >> bit & 1]
    fields = "".join("II" if bit in HALVES else "Q" for bit in present)
    fixed = 8 * len(present)
    return turned(fields, body) + turned_words(body[fixed:])


def swap_features(data: bytes, table_at: int, bits: int) -> dict[int, bytes]:
    swappers: dict[int, Callable[[bytes], bytes]] = dict.fromkeys(STRING_FEATURES, swap_string)
    swappers |= {2: swap_build_ids, 7: lambda body: turned("II", body), 11: swap_strings, 12: swap_event_desc}
    found = {}
    for index, bit in enumerate(bit for bit in range(64) if bits >> bit & 1):
        body = read_section(data, struct.unpack_from("<QQ", data, table_at + 16 * index))
        if bit in swappers:
            found[bit] = swappers[bit](body)
    return found


def feature_table(features: dict[int, bytes], at: int) -> bytes:
    at += 16 * len(features)
    table = b""
    for body in features.values():
        table += struct.pack(">QQ", at, len(body))
        at += len(body)
    return table + b"".join(features.values())


def swap_string(body: bytes) -> bytes:
    return turned("I", body) + body[4:]


def swap_strings(body: bytes) -> bytes:
    found, at = turned("I", body), 4
    while at < len(body):
        end = at + 4 + struct.unpack_from("<I", body, at)[0]
        found += swap_string(body[at:end])
        at = end
    return found


def swap_event_desc(body: bytes) -> bytes:
    count, attr_size = struct.unpack_from("<II", body)
    found, at = turned("II", body), 8
    for _ in range(count):
        ids, length = struct.unpack_from("<II", body, at + attr_size)
        name_at = at + attr_size + 4
        found += swap_attr(body[at : at + attr_size]) + turned("I", body, at + attr_size)
        found += swap_string(body[name_at : name_at + 4 + length])
        at = name_at + 4 + length
        found += turned_words(body[at : at + 8 * ids])
        at += 8 * ids
    return found


def swap_build_ids(body: bytes) -> bytes:
    found, at = b"", 0
    while at < len(body):
        size = struct.unpack_from("<IHH", body, at)[2]
        found += turned("IHHi", body, at) + body[at + 12 : at + size]
        at += size
    return found
