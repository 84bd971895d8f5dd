"""Order and time of records: trailers, events that differ in them, and recordings that have no time at all."""

from __future__ import annotations

import struct

import numpy as np

from ipuenv.engine import folding, parallelism
from ipuenv.engine.mappings import Tasks
from ipuenv.engine.perfdata import Comm, Fork, Mmap
from tests.engine.test_folding import Addresses
from tests.engine.test_perfdata import CALLCHAIN, IDENTIFIER, IP, PERIOD, TID, TIME, Attr, File, comm, padded, record

TIMELESS = Attr(sample_type=IP | TID | CALLCHAIN | PERIOD)


def timeless_sample(address: int) -> bytes:
    return record(9, struct.pack("<QiiQQQ", address, 7, 7, 1, 1, address))


def timeless_comm(name: bytes, misc: int = 2) -> bytes:
    return record(3, struct.pack("<ii", 7, 7) + padded(name) + struct.pack("<ii", 7, 7), misc)


def test_without_times_the_order_of_the_file_decides() -> None:
    exec_ = timeless_comm(b"new", misc=2 | 1 << 13)
    records = timeless_comm(b"old") + timeless_sample(1) + exec_ + timeless_sample(2) + timeless_sample(3)
    data = File(records, [TIMELESS]).read()
    assert not data.has_time
    assert data.samples.ip.tolist() == [1, 2, 3]
    tasks = Tasks(data.tasks, {})
    names = [tasks.comms[index] for index in tasks.comms_at(data.samples.tid, data.samples.time)]
    assert names == ["old", "new", "new"]


def test_a_fork_without_times_is_in_its_place_though_it_has_a_time_of_its_own() -> None:
    fork = record(7, struct.pack("<iiiiQii", 9, 7, 9, 7, 123_456_789, 9, 9))
    data = File(timeless_comm(b"a") + fork + timeless_comm(b"b") + timeless_sample(1), [TIMELESS]).read()
    assert [type(task) for task in data.tasks] == [Comm, Fork, Comm]


def test_places_in_the_file_are_not_taken_for_times() -> None:
    data = File(timeless_comm(b"a") + timeless_sample(1) * 9, [TIMELESS]).read()
    assert not folding.fold(data, Addresses()).is_timed
    assert parallelism.measure(data) is None


def test_records_without_a_trailer_happen_when_the_file_has_come_to_them() -> None:
    attr = Attr(flags=1 << 10)  # no sample_id_all
    mapping = struct.pack("<iiQQQ", 7, 7, 0x4000, 0x100, 0)
    early, late = (record(1, mapping + padded(name)) for name in (b"/early", b"/late"))
    fork = record(7, struct.pack("<iiiiQ", 9, 7, 9, 7, 15))
    samples = [record(9, struct.pack("<QiiQQQQ", 1, 7, 7, time, 1, 1, 1)) for time in (20, 10, 30)]
    data = File(early + samples[0] + samples[1] + late + fork + samples[2], [attr]).read()
    assert [task.time for task in data.tasks] == [0, 15, 20]
    assert [task.path for task in data.tasks if isinstance(task, Mmap)] == ["/early", "/late"]


def test_trailers_of_different_events_are_told_apart_by_the_identifier_behind_them() -> None:
    short, long = IDENTIFIER | TID | TIME | CALLCHAIN, IDENTIFIER | TID | TIME | CALLCHAIN | 1 << 7 | 1 << 9
    attrs = [Attr(sample_type=short, ids=(11,)), Attr(sample_type=long, ids=(22,))]
    head = struct.pack("<ii", 7, 7)
    first = record(3, head + padded(b"a") + struct.pack("<iiQQ", 7, 7, 100, 11))
    second = record(3, head + padded(b"b") + struct.pack("<iiQQQQ", 7, 7, 200, 5, 6, 22))
    samples = record(9, struct.pack("<QiiQQ", 11, 7, 7, 300, 0)) + record(
        9, struct.pack("<QiiQQQQ", 22, 7, 7, 400, 5, 6, 0)
    )
    data = File(first + second + samples, attrs).read()
    assert [task.time for task in data.tasks] == [100, 200]
    assert data.samples.time.tolist() == [300, 400]


def test_an_event_without_time_among_others_keeps_its_place() -> None:
    timed, timeless = IDENTIFIER | TID | TIME | CALLCHAIN, IDENTIFIER | TID | CALLCHAIN
    attrs = [Attr(sample_type=timed, ids=(11,)), Attr(sample_type=timeless, ids=(22,))]
    samples = [record(9, struct.pack("<QiiQQ", 11, 7, time, time, 0)) for time in (100, 200)]
    between = record(9, struct.pack("<QiiQ", 22, 7, 150, 0))
    data = File(samples[0] + between + samples[1], attrs).read()
    assert data.samples.tid.tolist() == [100, 150, 200]
    assert np.all(np.diff(data.samples.time.astype(np.int64)) >= 0)


def test_a_trailer_that_does_not_fit_its_record_is_told() -> None:
    data = File(record(3, struct.pack("<ii", 7, 7)) + comm(1, 7, 7, b"x")).read()
    assert [task.comm for task in data.tasks if isinstance(task, Comm)] == ["x"]
    assert data.remarks == ("left out: 1 damaged record",)
