"""Thousands of damaged recordings. IPUENV_TORTURE_CASES sets how many, IPUENV_TORTURE_SEED where the seeds begin."""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.mutations import bases, mutated, travel, truncations
from tests.engine.test_perfdata import File, comm, fork, mmap2, record, sample
from tests.engine.test_perfdata_streams import COMPRESSED, compressed, unaligned

CASES = int(os.environ.get("IPUENV_TORTURE_CASES", "10000"))
FIRST_SEED = int(os.environ.get("IPUENV_TORTURE_SEED", "0"))
CASES_A_TEST = 500
MANY = 30_000
EXTRA_MEMORY_BYTES = 1 << 30


@pytest.fixture(autouse=True)
def limited_memory() -> Iterator[None]:
    """A recording of some kilobytes must never need a gigabyte."""
    size_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size_bytes + EXTRA_MEMORY_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + CASES, CASES_A_TEST))
def test_damaged_recordings_are_refused_or_told(tmp_path: Path, first: int) -> None:
    kallsyms, path = tmp_path / "kallsyms", tmp_path / "perf.data"
    kallsyms.write_text("ffffffff81000000 T _text\n")
    outcomes: Counter[str] = Counter()
    recordings = list(bases().values())
    for seed in range(first, min(first + CASES_A_TEST, FIRST_SEED + CASES)):
        path.write_bytes(mutated(recordings[seed % len(recordings)], seed))
        try:
            outcomes[travel(path, kallsyms)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    assert outcomes["whole"]


@pytest.mark.parametrize("name", bases())
def test_every_truncation_is_refused_or_told(name: str) -> None:
    for size, data in truncations(bases()[name], range(len(bases()[name]))):
        assert data.is_partial or "pipe" in name, size


def each(make: Callable[[int], bytes]) -> bytes:
    return b"".join(make(number) for number in range(1, MANY))


def anonymous(time: int, start: int, length: int) -> bytes:
    return mmap2(time, start, length, b"//anon")


def chunks() -> bytes:
    parts = compressed(each(lambda time: sample(time, [1, 2, 3])), chunks=MANY // 2)
    return b"".join(unaligned(COMPRESSED, part) + record(68, b"") for part in parts)


EXEC = 2 | 1 << 13
SHAPES: dict[str, Callable[[], bytes]] = {
    "mappings over mappings": lambda: each(
        lambda n: anonymous(n, n % 999 << 12, 0x3000) + sample(n, [n % 977 << 12 | 5])
    ),
    "mappings beside mappings": lambda: each(lambda n: anonymous(n, n << 16, 0x1000) + anonymous(n, n << 16, 0x800)),
    "processes": lambda: each(lambda n: sample(n, [0x10], pid=n, tid=n)),
    "forks of forks": lambda: each(lambda n: fork(n, n + 1, n, n + 1, n) + sample(n, [0x10], pid=n, tid=n)),
    "names": lambda: each(lambda n: comm(n, 7, 7, b"name %d" % n) + sample(n, [0x10])),
    "programs": lambda: each(
        lambda n: comm(n, 7, 7, b"c", misc=EXEC) + anonymous(n, n << 12, 0x1000) + sample(n, [0x10])
    ),
    "records of nothing": lambda: each(lambda _: record(68, b"") * 10),
    "records that end anywhere": lambda: each(lambda _: unaligned(100, b"1234")),
    "compressed records": chunks,
}
"""Records of which there are too many for anything whose cost grows with the square of their number."""


@pytest.mark.parametrize("shape", SHAPES)
def test_many_of_a_kind_take_their_time_and_no_more(tmp_path: Path, shape: str) -> None:
    kallsyms, path = tmp_path / "kallsyms", tmp_path / "perf.data"
    kallsyms.write_text("ffffffff81000000 T _text\n")
    path.write_bytes(File(SHAPES[shape]() + sample(MANY, [1])).data())
    assert travel(path, kallsyms) == "whole"
