"""Quality and parallelism of recordings made by hand, whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ipuenv.engine import folding, parallelism
from ipuenv.engine.dso import DsoFinder
from ipuenv.engine.perfdata import PerfData
from ipuenv.engine.quality import Grade, Quality, Thresholds, assess
from ipuenv.engine.stacks import Frame, FrameKind
from ipuenv.engine.symbolize import KERNEL_BIT, Symbolizer
from tests.engine.test_perfdata import USER_MARKER, Attr, File, comm, record, sample, trailer

START, MAIN, WORK, LIBC, NOWHERE = 0x100, 0x200, 0x300, 0x400, 0x500
NAMES = {
    START: Frame("_start", FrameKind.NATIVE, "_start", "/bin/program"),
    MAIN: Frame("main", FrameKind.NATIVE, "main@@V1", "/bin/program"),
    WORK: Frame("work", FrameKind.NATIVE, "work", "/bin/program"),
    LIBC: Frame("_int_malloc", FrameKind.NATIVE, "_int_malloc", "/lib/libc.so.6"),
    NOWHERE: Frame("[unknown]", FrameKind.UNKNOWN, "", "[unknown]"),
}


class Names(Symbolizer):
    def __init__(self) -> None:
        super().__init__(DsoFinder(), None)
        self.unknown_reasons["[unknown]"] = "outside every mapping"

    def locate(self, address: int, space: object) -> int:
        if address & KERNEL_BIT:
            return self.table.location([Frame("schedule", FrameKind.KERNEL, "schedule", "[kernel.kallsyms]")])
        return self.table.location([NAMES[(address + 1) & ~0xFF]])


def assessed(
    chains: Sequence[tuple[Sequence[int], int]], lost: int = 0, thresholds: Thresholds | None = None
) -> Quality:
    """Quality of chains (leaf first) with how often each was sampled."""
    records = comm(0, 7, 7, b"t")
    records += record(2, b"\0" * 8 + lost.to_bytes(8, "little") + trailer(7, 7, 1)) if lost else b""
    for chain, count in chains:
        records += b"".join(sample(1 + n, [USER_MARKER, *chain]) for n in range(count))
    symbolizer, data = Names(), File(records).read()
    return assess(data, folding.fold(data, symbolizer), symbolizer, thresholds)


def test_whole_stacks_are_good() -> None:
    quality = assessed([([WORK, MAIN, START], 500)])
    assert (quality.grade, quality.reasons, quality.truncated, quality.samples) == (Grade.GOOD, (), 0, 500)


def test_versions_of_entry_points_do_not_matter() -> None:
    assert assessed([([WORK, MAIN], 500)]).truncated == 0


@pytest.mark.parametrize(("broken", "grade"), [(20, Grade.GOOD), (60, Grade.USABLE), (300, Grade.POOR)])
def test_stacks_that_break_off(broken: int, grade: Grade) -> None:
    quality = assessed([([WORK, MAIN, START], 1000 - broken), ([WORK], broken)])
    assert (quality.truncated, quality.grade) == (broken, grade)
    if grade is not Grade.GOOD:
        assert "most of them in program: build it with '-C force-frame-pointers=yes'" in quality.reasons[0]


def test_stacks_that_break_off_in_libc_blame_nobody_else() -> None:
    (reason,) = assessed([([WORK, START], 800), ([LIBC], 200)]).reasons
    assert "libc.so.6, which distributions build without frame pointers" in reason


def test_frames_without_a_name_are_counted_in_every_sample() -> None:
    quality = assessed([([WORK, START], 900), ([NOWHERE, NOWHERE, START], 100)])
    (unknown,) = quality.unknown
    assert (unknown.dso, unknown.frames, unknown.reason) == ("[unknown]", 200, "outside every mapping")
    assert (quality.with_unknown, quality.grade) == (100, Grade.USABLE)


@pytest.mark.parametrize(("lost", "grade"), [(5, Grade.GOOD), (50, Grade.USABLE), (500, Grade.POOR)])
def test_lost_samples(lost: int, grade: Grade) -> None:
    quality = assessed([([WORK, START], 1000)], lost)
    assert (quality.lost, quality.grade) == (lost, grade)


@pytest.mark.parametrize(("count", "grade"), [(9, Grade.POOR), (150, Grade.USABLE), (200, Grade.GOOD)])
def test_few_samples(count: int, grade: Grade) -> None:
    assert assessed([([WORK, START], count)]).grade is grade


def test_thresholds_can_be_set() -> None:
    strict = Thresholds(truncated=(0.0, 0.001))
    assert assessed([([WORK, START], 990), ([WORK], 10)], thresholds=strict).grade is Grade.POOR


MILLISECOND = 1_000_000


def ticking(threads: Sequence[Sequence[int]], frequency: int = 1000) -> PerfData:
    """Each thread sampled at the given milliseconds by an event that does not count time."""
    records = comm(0, 7, 100, b"first") + comm(0, 7, 101, b"second")
    for index, times in enumerate(threads):
        records += b"".join(sample(time * MILLISECOND, [1], tid=100 + index) for time in times)
    return File(records, [Attr(frequency=frequency, kind=0)]).read()


def test_mean_busy_threads_is_cpu_time_over_time() -> None:
    measured = parallelism.measure(ticking([range(1, 1001), range(1, 501)]))
    assert measured is not None
    assert measured.duration_s == pytest.approx(1.0)
    assert measured.cpu_s == pytest.approx(1.5)
    assert measured.mean_busy == pytest.approx(1.5)
    assert measured.serial_share == pytest.approx(0.5)
    assert max(measured.busy) == pytest.approx(2, abs=0.25)


def test_threads_stand_busiest_first_with_their_names() -> None:
    measured = parallelism.measure(ticking([range(1, 101), range(1, 301)]))
    assert measured is not None
    assert [(t.tid, t.comm, t.samples) for t in measured.threads] == [(101, "second", 300), (100, "first", 100)]
    assert [t.share for t in measured.threads] == pytest.approx([0.75, 0.25])


def test_time_in_which_nobody_runs_is_not_serial() -> None:
    measured = parallelism.measure(ticking([[*range(1, 101), *range(901, 1001)]]))
    assert measured is not None
    assert measured.serial_share == pytest.approx(0.2, abs=0.02)
    assert measured.idle_share == pytest.approx(0.8, abs=0.02)
    assert measured.mean_busy == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("times", [[], [5]])
def test_too_little_says_nothing(times: list[int]) -> None:
    assert parallelism.measure(ticking([times])) is None
