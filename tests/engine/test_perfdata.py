"""The reader of perf.data on files made by hand: layouts that a real recording on this machine does not have."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ipuenv.engine import perfdata
from ipuenv.engine.perfdata import Comm, Fork, Mmap
from ipuenv.ground.errors import UsageError

IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD = 1, 2, 4, 8, 16, 32, 64, 128, 256
IDENTIFIER = 1 << 16
USER_MARKER, KERNEL_MARKER = 2**64 - 512, 2**64 - 128


def record(kind: int, body: bytes, misc: int = 2) -> bytes:
    body += bytes(-len(body) % 8)
    return struct.pack("<IHH", kind, misc, len(body) + 8) + body


def padded(text: bytes) -> bytes:
    return text + bytes(8 - len(text) % 8)


def comm(time: int, pid: int, tid: int, name: bytes, misc: int = 2) -> bytes:
    return record(3, struct.pack("<ii", pid, tid) + padded(name) + trailer(pid, tid, time), misc)


def trailer(pid: int, tid: int, time: int) -> bytes:
    """``sample_id`` for TID and TIME."""
    return struct.pack("<iiQ", pid, tid, time)


def mmap2(time: int, start: int, length: int, path: bytes, *, prot: int = 5, misc: int = 2, pid: int = 7) -> bytes:
    device = struct.pack("<IIQQ", 0, 0, 0, 0)
    if misc & 1 << 14:
        device = struct.pack("<B3x", 20) + bytes(range(20))
    body = struct.pack("<iiQQQ", pid, pid, start, length, 0x1000) + device + struct.pack("<II", prot, 2) + padded(path)
    return record(10, body + trailer(pid, pid, time), misc)


def fork(time: int, pid: int, ppid: int, tid: int, ptid: int) -> bytes:
    return record(7, struct.pack("<iiiiQ", pid, ppid, tid, ptid, time) + trailer(pid, tid, time))


@dataclass(frozen=True)
class Attr:
    sample_type: int = IP | TID | TIME | CALLCHAIN | PERIOD
    read_format: int = 0
    ids: tuple[int, ...] = (1,)
    frequency: int = 99
    flags: int = 1 << 10 | 1 << 18  # freq, sample_id_all
    kind: int = 1  # software
    config: int = 0
    branches: int = 0

    def data(self) -> bytes:
        fields = (self.kind, 128, self.config, self.frequency, self.sample_type, self.read_format, self.flags)
        return (struct.pack("<IIQQQQQ", *fields).ljust(72, b"\0") + struct.pack("<Q", self.branches)).ljust(128, b"\0")


@dataclass
class File:
    """A perf.data put together from its parts."""

    records: bytes = b""
    attrs: Sequence[Attr] = field(default_factory=lambda: [Attr()])
    features: dict[int, bytes] = field(default_factory=dict)

    def data(self) -> bytes:
        ids_at, attrs_at = 104, 104 + sum(8 * len(attr.ids) for attr in self.attrs)
        data_at = attrs_at + 144 * len(self.attrs)
        ids, attrs = b"", b""
        for attr in self.attrs:
            attrs += attr.data() + struct.pack("<QQ", ids_at + len(ids), 8 * len(attr.ids))
            ids += struct.pack(f"<{len(attr.ids)}Q", *attr.ids)
        sections = (104, 144, attrs_at, len(attrs), data_at, len(self.records), 0, 0)
        bits = sum(1 << bit for bit in self.features)
        head = b"PERFILE2" + struct.pack("<8Q4Q", *sections, bits, 0, 0, 0)
        return head + ids + attrs + self.records + self.feature_table(data_at + len(self.records))

    def feature_table(self, at: int) -> bytes:
        at += 16 * len(self.features)
        table = b""
        for _, body in sorted(self.features.items()):
            table += struct.pack("<QQ", at, len(body))
            at += len(body)
        return table + b"".join(body for _, body in sorted(self.features.items()))

    def read(self) -> perfdata.PerfData:
        return perfdata.read(self.data())


def sample(time: int, chain: Sequence[int], *, pid: int = 7, tid: int = 7, period: int = 1, misc: int = 2) -> bytes:
    body = struct.pack("<QiiQQ", chain[-1] if chain else 0, pid, tid, time, period)
    return record(9, body + struct.pack(f"<Q{len(chain)}Q", len(chain), *chain), misc)


def chains(data: perfdata.PerfData) -> list[list[int]]:
    samples = data.samples
    return [
        data.words[int(start) : int(start) + int(length)].tolist()
        for start, length in zip(samples.chain_start, samples.chain_length, strict=True)
    ]


def test_samples_come_in_time_order_with_ties_in_file_order() -> None:
    data = File(sample(30, [3]) + sample(10, [1]) + sample(20, [21]) + sample(20, [22])).read()
    assert data.samples.time.tolist() == [10, 20, 20, 30]
    assert chains(data) == [[1], [21], [22], [3]]


def test_all_columns_of_a_sample() -> None:
    data = File(sample(5, [USER_MARKER, 0x10, 0x20], pid=7, tid=-1, period=1_000_000, misc=1)).read()
    samples = data.samples
    assert (samples.pid.tolist(), samples.tid.tolist(), samples.period.tolist()) == ([7], [-1], [1_000_000])
    assert samples.is_kernel.tolist() == [True]
    assert chains(data) == [[USER_MARKER, 0x10, 0x20]]


def test_every_fixed_field_moves_the_chain() -> None:
    kinds = IDENTIFIER | IP | TID | TIME | ADDR | ID | CPU | PERIOD | CALLCHAIN
    body = struct.pack("<QQiiQQQQQ", 1, 0x99, 7, 8, 44, 0xADD, 1, 3, 250) + struct.pack("<QQ", 1, 0x77)
    data = File(record(9, body), [Attr(sample_type=kinds)]).read()
    samples = data.samples
    assert (samples.ip.tolist(), samples.tid.tolist(), samples.time.tolist()) == ([0x99], [8], [44])
    assert samples.period.tolist() == [250]
    assert chains(data) == [[0x77]]


@pytest.mark.parametrize(
    ("read_format", "words"),
    [
        (0, [5]),
        (1 | 2 | 4, [5, 6, 7, 8]),
        (4 | 16, [5, 6, 7]),
        (8 | 4, [2, 10, 11, 20, 21]),
        (8 | 1 | 2, [1, 6, 7, 10]),
    ],
)
def test_the_read_field_has_the_size_its_format_says(read_format: int, words: list[int]) -> None:
    kinds = TID | TIME | READ | CALLCHAIN
    body = struct.pack("<iiQ", 7, 7, 1) + struct.pack(f"<{len(words)}Q", *words) + struct.pack("<QQ", 1, 0x42)
    assert chains(File(record(9, body), [Attr(sample_type=kinds, read_format=read_format)]).read()) == [[0x42]]


def test_events_are_told_apart_by_identifier() -> None:
    kinds = IDENTIFIER | TID | TIME | CALLCHAIN
    records = b"".join(
        record(9, struct.pack("<QiiQQQ", identifier, 7, 7, time, 1, 0x10)) for time, identifier in ((1, 11), (2, 22))
    )
    data = File(records, [Attr(sample_type=kinds, ids=(11,)), Attr(sample_type=kinds, ids=(22,))]).read()
    assert data.samples.event.tolist() == [0, 1]


def test_events_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(UsageError, match="2 events whose samples cannot be told apart"):
        File(sample(1, [1]), [Attr(ids=(1,)), Attr(ids=(2,))]).read()


def test_task_records_with_their_times() -> None:
    records = fork(30, 9, 7, 9, 7) + comm(20, 7, 7, b"program", misc=2 | 1 << 13) + mmap2(10, 0x4000, 0x100, b"/bin/x")
    data = File(records + sample(40, [1])).read()
    assert data.tasks == (
        Mmap(time=10, pid=7, start=0x4000, length=0x100, pgoff=0x1000, path="/bin/x", build_id="", is_kernel=False),
        Comm(time=20, pid=7, tid=7, comm="program", is_exec=True),
        Fork(time=30, pid=9, parent_pid=7, tid=9, parent_tid=7),
    )


def test_a_mapping_carries_its_build_id() -> None:
    data = File(mmap2(1, 0, 1, b"/x", misc=2 | 1 << 14) + sample(2, [1])).read()
    (mapping,) = data.tasks
    assert isinstance(mapping, Mmap)
    assert mapping.build_id == bytes(range(20)).hex()


def test_mappings_of_data_are_left_out() -> None:
    assert not File(mmap2(1, 0, 1, b"/x", prot=3) + sample(2, [1])).read().tasks


def test_names_that_are_no_utf8_survive() -> None:
    (record_,) = File(comm(1, 7, 7, b"\xff\xfe") + sample(2, [1])).read().tasks
    assert isinstance(record_, Comm)
    assert record_.comm.encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_a_fixed_period_is_the_events_own() -> None:
    body = struct.pack("<QiiQ", 1, 7, 7, 1) + struct.pack("<QQ", 1, 0x42)
    attr = Attr(sample_type=IP | TID | TIME | CALLCHAIN, flags=1 << 18, frequency=250_000)
    assert File(record(9, body), [attr]).read().samples.period.tolist() == [250_000]


def test_samples_of_no_known_event_are_left_out_and_told() -> None:
    kinds = IDENTIFIER | TID | TIME | CALLCHAIN
    records = b"".join(
        record(9, struct.pack("<QiiQQQ", identifier, 7, 7, time, 1, 0x10))
        for time, identifier in ((1, 11), (2, 99), (3, 0), (4, 22))
    )
    data = File(records, [Attr(sample_type=kinds, ids=(11,)), Attr(sample_type=kinds, ids=(22,))]).read()
    assert (data.samples.time.tolist(), data.samples.event.tolist()) == ([1, 3, 4], [0, 0, 1])
    assert data.remarks == ("left out: 1 sample of no event that the recording describes",)


def test_ties_of_two_events_keep_the_order_of_the_file() -> None:
    kinds = IDENTIFIER | TID | TIME | CALLCHAIN
    records = b"".join(record(9, struct.pack("<QiiQQQ", event, 7, 7, 5, 1, 0x10)) for event in (22, 11, 22))
    data = File(records, [Attr(sample_type=kinds, ids=(11,)), Attr(sample_type=kinds, ids=(22,))]).read()
    assert data.samples.event.tolist() == [1, 0, 1]


def test_events_without_call_chains_are_left_out_and_counted() -> None:
    plain, chained = IDENTIFIER | TID | TIME, IDENTIFIER | TID | TIME | CALLCHAIN
    records = record(9, struct.pack("<QiiQ", 11, 7, 7, 1)) * 3
    records += record(9, struct.pack("<QiiQQQ", 22, 7, 7, 2, 1, 0x10))
    data = File(records, [Attr(sample_type=plain, ids=(11,)), Attr(sample_type=chained, ids=(22,), config=2)]).read()
    assert chains(data) == [[0x10]]
    assert data.unchained == {"cpu-clock": 3}
    assert data.remarks == ("left out: 3 samples of 'cpu-clock', which records no call chains",)


def test_samples_that_are_too_short_are_left_out_and_told() -> None:
    short = record(9, struct.pack("<QiiQQ", 1, 7, 7, 1, 1))
    data = File(short + sample(2, [5]) + record(9, b"")).read()
    assert chains(data) == [[5]]
    assert data.remarks == ("left out: 2 damaged records",)


def test_a_group_that_lies_about_its_size_is_left_out() -> None:
    body = struct.pack("<iiQ", 7, 7, 1) + struct.pack("<4Q", 2**61, 1, 2, 3)
    data = File(
        record(9, body) + record(9, body), [Attr(sample_type=TID | TIME | READ | CALLCHAIN, read_format=8)]
    ).read()
    assert len(data.samples) == 0
    assert data.remarks == ("left out: 2 damaged records",)


def test_mappings_of_guests_and_of_data_are_left_out() -> None:
    body = struct.pack("<iiQQQ", 7, 7, 0x4000, 0x100, 0) + padded(b"/bin/x") + trailer(7, 7, 1)
    records = record(1, body, misc=4) + record(1, body, misc=2 | 1 << 13) + record(1, body, misc=2)
    (mapping,) = File(records + sample(2, [1])).read().tasks
    assert isinstance(mapping, Mmap)
    assert (mapping.path, mapping.is_kernel, mapping.time) == ("/bin/x", False, 1)


def test_a_process_that_perf_found_running_is_marked() -> None:
    body = struct.pack("<iiiiQ", 9, 7, 9, 7, 0) + trailer(9, 9, 0)
    (task,) = File(record(7, body, misc=1 << 13) + sample(2, [1])).read().tasks
    assert isinstance(task, Fork)
    assert task.is_synthesized


def test_code_that_the_kernel_made_is_told() -> None:
    body = struct.pack("<QIHH", 0xFFFFFFFFC0001000, 0x80, 1, 0) + padded(b"bpf_prog_1234_trace") + trailer(0, 0, 5)
    data = File(record(17, body) + sample(9, [1])).read()
    (code,) = data.kernel_code
    assert (code.start, code.length, code.name, code.time) == (0xFFFFFFFFC0001000, 0x80, "bpf_prog_1234_trace", 5)
    assert (code.is_bpf, code.is_gone) == (True, False)


def test_lost_records_are_added_up() -> None:
    lost = record(2, struct.pack("<QQ", 1, 40) + trailer(7, 7, 1))
    lost_samples = record(13, struct.pack("<Q", 2) + trailer(7, 7, 1))
    assert File(lost + lost_samples + sample(2, [1])).read().lost == 42


def test_losses_that_perf_writes_twice_count_once() -> None:
    lost = record(2, struct.pack("<QQ", 1, 40) + trailer(7, 7, 1))
    lost_samples = record(13, struct.pack("<Q", 42) + trailer(7, 7, 1))
    filtered = record(13, struct.pack("<Q", 1000) + trailer(7, 7, 1), misc=1 << 15)
    attrs = [Attr(read_format=4 | 16)]
    assert File(lost + sample(2, [1]) + lost_samples + filtered, attrs).read().lost == 42
    assert File(lost + sample(2, [1]), attrs).read().lost == 40


def test_unknown_records_are_skipped_and_counted() -> None:
    data = File(record(4242, b"12345678") * 3 + record(68, b"") + sample(1, [1])).read()
    assert data.skipped == {4242: 3, 68: 1}
    assert [perfdata.record_name(kind) for kind in sorted(data.skipped)] == ["FINISHED_ROUND", "type 4242"]
    assert len(data.samples) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not a recording", "not a perf.data"),
        (b"", "not a perf.data"),
        (b"2ELIFREP" + bytes(200), "damaged"),
        (b"PERFILE2" + struct.pack("<Q", 16), "describes no event"),
        (b"2ELIFREP" + struct.pack(">Q", 16), "describes no event"),
        (b"PERFILE2" + bytes(20), "cut off"),
        (b"PERFILE2" + bytes(200), "damaged"),
    ],
)
def test_other_files_are_refused(content: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        perfdata.read(content, name="some.file")


def test_every_truncation_is_refused_or_told() -> None:
    whole = File(comm(1, 7, 7, b"x") + mmap2(2, 0, 9, b"/x") + sample(3, [1, 2]) + sample(4, [3])).data()
    complete = perfdata.read(whole)
    assert not complete.is_partial
    for size in range(len(whole)):
        try:
            data = perfdata.read(whole[:size])
        except UsageError:
            continue
        assert data.is_partial, size
        assert len(data.samples) < 2


def test_a_chain_that_lies_about_its_length_is_cut_at_its_record() -> None:
    body = struct.pack("<QiiQQ", 1, 7, 7, 1, 1) + struct.pack("<QQQ", 2**40, 0x10, 0x20)
    data = File(record(9, body) + sample(2, [5])).read()
    assert chains(data) == [[0x10, 0x20], [5]]
    assert data.remarks == ("cut off: 1 call chain said to be longer than the sample",)


def test_a_record_of_size_zero_ends_the_reading() -> None:
    data = File(sample(1, [1]) + bytes(16) + sample(2, [2])).read()
    assert data.is_partial
    assert len(data.samples) == 1


def test_what_a_process_did_before_its_exec_can_be_left_out() -> None:
    records = sample(1, [1]) + sample(2, [2], pid=9) + comm(3, 7, 7, b"program", misc=2 | 1 << 13)
    data = File(records + sample(3, [3]) + sample(4, [4]) + comm(5, 7, 7, b"again", misc=2 | 1 << 13)).read()
    assert chains(perfdata.since_exec(data, 7)) == [[2], [3], [4]]
    assert chains(perfdata.since_exec(data, 8)) == [[1], [2], [3], [4]]
