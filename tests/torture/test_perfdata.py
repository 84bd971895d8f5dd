"""Thousands of damaged recordings. IPUENV_TORTURE_CASES sets how many, IPUENV_TORTURE_SEED where the seeds begin."""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.mutations import bases, limited, mutated, travel, truncations
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
    for size, data in truncations(bases()[name], 1):
        assert data.is_partial or "pipe" in name, size


def shapes() -> dict[str, Iterator[bytes]]:
    """Records of which there are too many for anything whose cost grows with the square of their number."""
    exec_ = 2 | 1 << 13
    each = range(1, MANY)
    few = (sample(time, [1, 2, 3]) for time in each)
    return {
        "mappings over mappings": (
            mmap2(time, time % 999 << 12, 0x3000, b"//anon") + sample(time, [time % 977 << 12 | 5]) for time in each
        ),
        "mappings beside mappings": (
            mmap2(time, time << 16, 0x1000, b"//anon") + mmap2(time, time << 16, 0x800, b"//anon") for time in each
        ),
        "processes": (sample(time, [0x10], pid=time, tid=time) for time in each),
        "forks of forks": (
            fork(time, time + 1, time, time + 1, time) + sample(time, [0x10], pid=time, tid=time) for time in each
        ),
        "names": (comm(time, 7, 7, b"name %d" % time) + sample(time, [0x10]) for time in each),
        "programs": (
            comm(time, 7, 7, b"c", misc=exec_) + mmap2(time, time << 12, 0x1000, b"//anon") + sample(time, [0x10])
            for time in each
        ),
        "records of nothing": (record(68, b"") * 10 for _ in each),
        "records that end anywhere": (unaligned(100, b"1234") for _ in each),
        "compressed records": (
            unaligned(COMPRESSED, part) + record(68, b"") for part in compressed(b"".join(few), chunks=MANY // 2)
        ),
    }


@pytest.mark.parametrize("shape", shapes())
def test_many_of_a_kind_take_their_time_and_no_more(tmp_path: Path, shape: str) -> None:
    kallsyms, path = tmp_path / "kallsyms", tmp_path / "perf.data"
    kallsyms.write_text("ffffffff81000000 T _text\n")
    path.write_bytes(File(b"".join(shapes()[shape]) + sample(MANY, [1])).data())
    with limited(60):
        assert travel(path, kallsyms) == "whole"
