"""What a recording says of its origin, its events, and whether it is whole."""

from __future__ import annotations

import struct

import pytest

from ipuenv.engine import perfdata
from ipuenv.engine.perfbytes import ByteOrder
from ipuenv.engine.perffeatures import FeatureReader, Features
from ipuenv.ground.errors import UsageError
from tests.engine.mutations import RECORDINGS
from tests.engine.swapped import swap
from tests.engine.test_perfdata import Attr, File, chains, comm, padded, sample
from tests.engine.test_perfdata_streams import string

BUILD_ID, HOSTNAME, OS_RELEASE, VERSION, ARCH, CPU_DESC, CMDLINE, EVENT_DESC = 2, 3, 4, 5, 6, 8, 11, 12


def build_id_record(path: bytes, build_id: bytes, *, misc: int = 2, size: int = 0) -> bytes:
    body = struct.pack("<i20sBxH", -1, build_id, size, 0) + padded(path)
    return struct.pack("<IHH", 0, misc, 8 + len(body)) + body


def event_desc(*events: tuple[bytes, tuple[int, ...]]) -> bytes:
    body = struct.pack("<II", len(events), 128)
    for name, ids in events:
        body += bytes(128) + struct.pack("<I", len(ids)) + string(name) + struct.pack(f"<{len(ids)}Q", *ids)
    return body


def test_all_features_that_are_read() -> None:
    arguments = (b"perf", b"record", b"--", b"./a b", b"\xff")
    names = (HOSTNAME, OS_RELEASE, VERSION, ARCH, CPU_DESC)
    sections = {feature: string(f"text {feature}".encode()) for feature in names}
    sections[CMDLINE] = struct.pack("<I", len(arguments)) + b"".join(map(string, arguments))
    sections[BUILD_ID] = build_id_record(b"/bin/x", bytes(range(1, 21))) + build_id_record(b"/bin/none", b"")
    sections[EVENT_DESC] = event_desc((b"cpu-clock:u", (1,)))
    data = File(sample(1, [1]), features=sections).read()
    assert data.features == Features(
        hostname="text 3",
        os_release="text 4",
        perf_version="text 5",
        arch="text 6",
        cpu="text 8",
        cmdline=("perf", "record", "--", "./a b", "\udcff"),
        build_ids={"/bin/x": bytes(range(1, 21)).hex()},
        event_names={1: "cpu-clock:u"},
        events_in_order=("cpu-clock:u",),
    )
    assert not data.is_partial


@pytest.mark.parametrize(
    ("build_id", "misc", "size", "expected"),
    [
        (bytes(range(1, 17)), 2, 0, bytes(range(1, 17))),
        (bytes(range(1, 17)), 2 | 1 << 15, 16, bytes(range(1, 17))),
        (b"\1" + bytes(19), 2 | 1 << 15, 20, b"\1" + bytes(19)),
        (b"\1" + bytes(19), 2, 0, b"\1" + bytes(3)),
        (bytes(range(1, 21)), 2 | 1 << 15, 255, bytes(range(1, 21))),
    ],
)
def test_short_build_ids(build_id: bytes, misc: int, size: int, expected: bytes) -> None:
    table = build_id_record(b"/x", build_id, misc=misc, size=size)
    data = File(sample(1, [1]), features={BUILD_ID: table}).read()
    assert data.features.build_ids == {"/x": expected.hex()}


def test_events_have_their_names_by_identifier_or_by_their_order() -> None:
    kinds = Attr().sample_type | 1 << 16
    attrs = [Attr(sample_type=kinds, ids=ids) for ids in ((1, 2), (3,))]
    by_id = File(comm(1, 7, 7, b"x"), attrs, {EVENT_DESC: event_desc((b"second", (3,)), (b"first", (1, 2)))}).read()
    assert [event.name for event in by_id.events] == ["first", "second"]
    no_ids = [Attr(sample_type=kinds, ids=()), Attr(sample_type=kinds, ids=())]
    by_order = File(comm(1, 7, 7, b"x"), no_ids, {EVENT_DESC: event_desc((b"a", ()), (b"b", ()))}).read()
    assert [event.name for event in by_order.events] == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "config", "name"),
    [(0, 0, "cycles"), (0, 9, "ref-cycles"), (1, 9, "dummy"), (2, 372, "tracepoint 372"), (4, 0x1C2, "event 4:0x1c2")],
)
def test_events_without_a_name_are_called_by_what_they_count(kind: int, config: int, name: str) -> None:
    assert File(b"", [Attr(kind=kind, config=config)]).read().events[0].name == name


LIES = {
    "a string beyond its section": (HOSTNAME, struct.pack("<I", 1000) + b"short"),
    "a string without a length": (HOSTNAME, b"\1"),
    "more arguments than there are": (CMDLINE, struct.pack("<I", 5) + string(b"perf")),
    "billions of arguments": (CMDLINE, struct.pack("<I", 2**32 - 1) + bytes(4000)),
    "billions of events": (EVENT_DESC, struct.pack("<II", 2**32 - 1, 0) + bytes(100)),
    "an event with billions of identifiers": (
        EVENT_DESC,
        struct.pack("<II", 1, 0) + struct.pack("<I", 2**32 - 1) + string(b"x"),
    ),
    "an attr of billions of bytes": (EVENT_DESC, struct.pack("<II", 1, 2**32 - 1) + bytes(100)),
    "a build-id record of no size": (BUILD_ID, bytes(100)),
    "a build-id record beyond the table": (BUILD_ID, struct.pack("<IHH", 0, 2, 60_000) + bytes(50)),
}


@pytest.mark.parametrize("case", LIES)
def test_a_feature_that_lies_is_left_out(case: str) -> None:
    feature, body = LIES[case]
    data = File(sample(1, [1]), features={feature: body, ARCH: string(b"x86_64")}).read()
    assert (data.features.arch, chains(data)) == ("x86_64", [[1]])
    assert (data.features.hostname, data.features.cmdline, data.features.build_ids) == ("", (), {})


def test_half_a_build_id_table_is_better_than_none() -> None:
    reader = FeatureReader(ByteOrder.LITTLE)
    reader.take(BUILD_ID, memoryview(build_id_record(b"/a", bytes(range(20))) + build_id_record(b"/b", bytes(20))[:-1]))
    assert reader.features().build_ids == {"/a": bytes(range(20)).hex()}


def test_a_file_that_ends_before_its_features_do_is_partial() -> None:
    whole = File(sample(1, [1]), features={HOSTNAME: string(b"recorder")}).data()
    data = perfdata.read(whole[:-1])
    assert (chains(data), data.is_partial, data.features.hostname) == ([[1]], True, "")


def test_a_recording_whose_perf_was_killed_is_read_to_its_end() -> None:
    whole = bytearray(File(sample(1, [1]) + sample(2, [2]), features={HOSTNAME: b""}).data())
    struct.pack_into("<Q", whole, 48, 0)
    data = perfdata.read(bytes(whole[:-16]))
    assert (chains(data), data.is_partial, data.remarks) == ([[1], [2]], True, ())


def test_the_bitmap_of_a_32_bit_big_endian_machine() -> None:
    turned = bytearray(swap((RECORDINGS / "plain.perf.data").read_bytes()))
    whole = perfdata.read(bytes(turned))
    turned[72:80] = turned[76:80] + turned[72:76]
    assert perfdata.read(bytes(turned)).features == whole.features
    assert whole.features.hostname == "recorder"


def lying_header(place: int, value: int, fields: str = "<Q") -> bytes:
    data = bytearray(File(sample(1, [1])).data())
    struct.pack_into(fields, data, place, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (16, 8, "claim a size of 8 bytes"),
        (16, 2**63, "claims to hold 0 events"),
        (24, 2**63, "within its event descriptions"),
        (32, 0, "claims to hold 0 events"),
        (32, 2**63, "claims to hold 64,051,194,700,380,387 events"),
        (32, 144 * 4000, "within its event descriptions"),
        (40, 2**63, "records should begin at byte 9,223,372,036,854,775,808"),
        (104 + 8 + 128 + 8, 2**40, "bytes of identifiers"),
        (104 + 8 + 128, 2**40, "within the identifiers"),
    ],
)
def test_a_header_that_lies_is_refused(place: int, value: int, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        perfdata.read(lying_header(place, value), name="lies.data")
    assert "'lies.data' is cut off or damaged" in caught.value.what
    assert caught.value.expected
    assert caught.value.hint


def test_records_that_should_be_longer_than_the_file_are_partial() -> None:
    data = perfdata.read(lying_header(48, 2**63))
    assert (chains(data), data.is_partial) == ([[1]], True)
