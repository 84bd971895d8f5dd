"""Compressed records and pipes, made by hand: what a recording of one perf on one machine does not show."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import zstandard

from ipuenv.engine import perfdata, perfinflate
from ipuenv.ground.errors import UsageError
from tests.engine.mutations import RECORDINGS
from tests.engine.test_perfdata import Attr, File, chains, comm, padded, record, sample

COMPRESSED, COMPRESSED2 = 81, 83
FULL = 65_519
"""Most data that perf puts into one COMPRESSED2 record."""


def unaligned(kind: int, body: bytes) -> bytes:
    return struct.pack("<IHH", kind, 0, len(body) + 8) + body


def compressed(records: bytes, *, chunks: int = 1, frames: int = 1) -> list[bytes]:
    """Records as one zstd stream, flushed ``chunks`` times as perf flushes it: never ended, anywhere in a record."""
    compressor = zstandard.ZstdCompressor(level=1)
    found: list[bytes] = []
    step = -(-len(records) // chunks)
    stream = compressor.compressobj()
    for index, begin in enumerate(range(0, len(records), step)):
        if index and index % -(-chunks // frames) == 0:
            found[-1] += stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)
            stream = compressor.compressobj()
        data = stream.compress(records[begin : begin + step])
        found.append(data + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    return found


def numbered(count: int, entries: int = 3) -> bytes:
    return b"".join(sample(time, [time * 100 + entry for entry in range(entries)]) for time in range(1, count + 1))


@pytest.mark.parametrize("chunks", [1, 2, 7, 150])
@pytest.mark.parametrize("frames", [1, 2])
def test_one_stream_runs_through_all_compressed_records(chunks: int, frames: int) -> None:
    records = comm(0, 7, 7, b"x") + numbered(50)
    data = b"".join(unaligned(COMPRESSED, part) for part in compressed(records, chunks=chunks, frames=frames))
    found = File(data).read()
    assert chains(found) == chains(File(records).read())
    assert found.tasks == File(records).read().tasks
    assert not found.is_partial


def test_plain_records_between_compressed_ones_keep_their_places() -> None:
    timeless = Attr(sample_type=1 | 2 | 32)  # IP TID CALLCHAIN
    samples = [record(9, struct.pack("<QiiQ", number, 7, 7, 0)) for number in range(8)]
    first, second = compressed(samples[0] + samples[1] + samples[3] + samples[4], chunks=2)
    data = unaligned(COMPRESSED, first) + samples[2] + record(68, b"") + unaligned(COMPRESSED, second)
    assert File(data + samples[5], [timeless]).read().samples.ip.tolist() == [0, 1, 2, 3, 4, 5]


def as_compressed2(parts: Sequence[bytes]) -> bytes:
    """One COMPRESSED2 record a part, padded to words."""
    return b"".join(record(COMPRESSED2, struct.pack("<Q", len(part)) + part, misc=0) for part in parts)


def test_compressed2_says_how_much_of_it_is_data() -> None:
    records = numbered(50)
    data = as_compressed2(compressed(records, chunks=9))
    assert chains(File(data + record(68, b"")).read()) == chains(File(records).read())


def noise(count: int) -> bytes:
    """Samples that do not compress."""
    words = np.random.default_rng(1).integers(1, 2**47, (count, 100)).tolist()
    return b"".join(sample(time, chain) for time, chain in enumerate(words, 1))


@pytest.mark.parametrize("length", [65_513, 65_514, FULL])
def test_a_compressed2_record_whose_size_overflows_is_taken_by_its_data(length: int) -> None:
    """perf 6.16 rounds the size up to 65,536, which is 0 in the header, and writes no padding then."""
    whole = noise(400)
    stream = b"".join(compressed(whole))
    assert len(stream) > 2 * FULL
    first, rest = stream[:length], stream[length:]
    head = struct.pack("<IHHQ", COMPRESSED2, 0, (16 + length + 7) // 8 * 8 & 0xFFFF, length)
    tail = as_compressed2([rest[begin : begin + 60_000] for begin in range(0, len(rest), 60_000)])
    found = File(head + first + tail + record(68, b"")).read()
    assert chains(found) == chains(File(whole).read())


def overflown(stream: bytes) -> bytes:
    """As perf 6.16 writes what needs several records: the first one's header claims all, the others keep their own."""
    data = stream[:FULL]
    for begin in range(FULL, len(stream), FULL):
        part = stream[begin : begin + FULL]
        data += struct.pack("<IHHQ", COMPRESSED2, 0, 16 + len(part), 0xDEAD) + part
    size = (16 + len(data) + 7) // 8 * 8 & 0xFFFF
    return struct.pack("<IHHQ", COMPRESSED2, 0, size, len(data)) + data


def test_compressed2_records_that_became_the_data_of_the_first_are_found() -> None:
    whole = noise(400)
    data = overflown(b"".join(compressed(whole)))
    found = File(data + record(68, b"")).read()
    assert chains(found) == chains(File(whole).read())
    assert (found.is_partial, found.skipped) == (False, {68: 1})


def test_a_stored_compressed_recording_reads_the_same_as_compressed2() -> None:
    original = (RECORDINGS / "compressed.perf.data").read_bytes()
    data_at, data_bytes = struct.unpack_from("<QQ", original, 40)
    records, at = b"", data_at
    while at < data_at + data_bytes:
        kind, _, size = struct.unpack_from("<IHH", original, at)
        body = original[at + 8 : at + size]
        records += as_compressed2([body]) if kind == COMPRESSED else original[at : at + size]
        at += size
    head = bytearray(original[:data_at])
    struct.pack_into("<Q", head, 48, len(records))
    struct.pack_into("<4Q", head, 72, 0, 0, 0, 0)
    ours, theirs = perfdata.read(bytes(head) + records), perfdata.read(original)
    assert chains(ours) == chains(theirs)
    assert ours.tasks == theirs.tasks


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfinflate, "EXPANSION_FLOOR_BYTES", 1 << 20)
    bomb = compressed(record(4242, bytes(60_000)) * 1000, chunks=1)
    with pytest.raises(UsageError, match="expand to more than") as caught:
        File(b"".join(unaligned(COMPRESSED, part) for part in bomb)).read()
    assert "256 times" in caught.value.expected
    assert caught.value.hint


def test_zeros_without_end_are_no_records_and_end_the_reading() -> None:
    bomb = compressed(sample(1, [1]) + bytes(50_000_000))
    found = File(b"".join(unaligned(COMPRESSED, part) for part in bomb)).read()
    assert (chains(found), found.is_partial) == ([[1]], True)


@pytest.mark.parametrize("kind", [COMPRESSED, COMPRESSED2])
def test_data_that_is_no_stream_ends_the_reading(kind: int) -> None:
    body = bytes(8) + b"no stream" if kind == COMPRESSED else struct.pack("<Q", 9) + b"no stream"
    found = File(sample(1, [1]) + record(kind, body) + sample(2, [2])).read()
    assert (chains(found), found.is_partial) == ([[1]], True)
    assert "compressed records are damaged" in found.remarks[0]


def test_a_stream_that_ends_within_a_record_is_told() -> None:
    found = File(unaligned(COMPRESSED, compressed(numbered(3)[:-8])[0])).read()
    assert (len(found.samples), found.is_partial) == (2, True)


# -- pipes ------------------------------------------------------------------------------------------------------------


def attr_record(attr: Attr, order: str = "<") -> bytes:
    return record(64, attr.data() + struct.pack(f"{order}{len(attr.ids)}Q", *attr.ids))


def feature(number: int, body: bytes) -> bytes:
    return unaligned(80, struct.pack("<Q", number) + body)


def string(text: bytes) -> bytes:
    body = text + bytes(64 - len(text) % 64)
    return struct.pack("<I", len(body)) + body


def pipe(*records: bytes) -> perfdata.PerfData:
    return perfdata.read(b"PERFILE2" + struct.pack("<Q", 16) + b"".join(records))


def test_a_pipe_brings_its_events_and_features_as_records() -> None:
    name = struct.pack("<QQ", 2, 1) + padded(b"my-event")
    found = pipe(
        attr_record(Attr()),
        feature(3, string(b"recorder")),
        feature(11, struct.pack("<I", 2) + string(b"perf") + string(b"record")),
        record(78, name),
        comm(0, 7, 7, b"x"),
        sample(5, [1, 2]),
    )
    assert [event.name for event in found.events] == ["my-event"]
    assert (found.features.hostname, found.features.cmdline) == ("recorder", ("perf", "record"))
    assert (chains(found), found.samples.time.tolist(), found.is_partial) == ([[1, 2]], [5], False)


def test_a_pipe_with_two_events_tells_them_apart() -> None:
    kinds = 1 << 16 | 2 | 4 | 32  # IDENTIFIER TID TIME CALLCHAIN
    attrs = [Attr(sample_type=kinds, ids=(11,)), Attr(sample_type=kinds, ids=(22,), config=2)]
    samples = [record(9, struct.pack("<QiiQQ", event, 7, 7, event, 0)) for event in (22, 11)]
    found = pipe(*map(attr_record, attrs), *samples)
    assert [found.events[index].name for index in found.samples.event] == ["cpu-clock", "page-faults"]


def test_build_ids_in_a_pipe_are_records_of_any_size() -> None:
    body = struct.pack("<i20sBxH", -1, bytes(range(20)), 20, 0) + b"/bin/x" + bytes(58)
    found = pipe(attr_record(Attr()), unaligned(67, body), sample(1, [1]))
    assert found.features.build_ids == {"/bin/x": bytes(range(20)).hex()}
    assert chains(found) == [[1]]


@pytest.mark.parametrize("size", [0, 1, 8, 4001])
def test_tracing_data_follows_its_record(size: int) -> None:
    payload = (struct.pack("<IHH", 9, 2, 8) * 501)[:size]
    tracing = record(66, struct.pack("<I", size)) + payload + bytes(-size % 8)
    found = pipe(attr_record(Attr()), sample(1, [1]), tracing, sample(2, [2]))
    assert (chains(found), found.skipped) == ([[1], [2]], {66: 1})


def test_long_pipes_are_read_at_once() -> None:
    found = pipe(
        attr_record(Attr()), feature(3, string(b"odd")), numbered(500), feature(4, string(b"late")), numbered(500)
    )
    assert len(found.samples) == 1000
    assert (found.features.hostname, found.features.os_release) == ("odd", "late")


def test_a_pipe_from_a_machine_of_the_other_byte_order() -> None:
    attr = bytearray(128)
    struct.pack_into(">IIQQQQ", attr, 0, 1, 128, 0, 99, Attr().sample_type, 0)
    struct.pack_into(">Q", attr, 40, 1 << 63 - 10 | 1 << 63 - 18)  # freq, sample_id_all: bits from the other end
    head = struct.pack(">IHH", 64, 0, 8 + 128 + 8) + bytes(attr) + struct.pack(">Q", 1)
    body = struct.pack(">QiiQQQQ", 0x10, 7, 8, 5, 1, 1, 0x10)
    samples = struct.pack(">IHH", 9, 2, 8 + len(body)) + body
    found = perfdata.read(b"2ELIFREP" + struct.pack(">Q", 16) + head + samples)
    assert (chains(found), found.samples.tid.tolist(), found.samples.time.tolist()) == ([[0x10]], [8], [5])
    assert (found.events[0].frequency_hz, found.events[0].has_sample_id_all) == (99, True)


def test_a_pipe_without_events_is_refused() -> None:
    with pytest.raises(UsageError, match="describes no event"):
        pipe(sample(1, [1]))


def test_more_events_than_there_can_be_are_not_taken() -> None:
    found = pipe(*[attr_record(replace(Attr(sample_type=1 << 16 | 2 | 32), ids=(index,))) for index in range(5000)])
    assert len(found.events) == 4096
