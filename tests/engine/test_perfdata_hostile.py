"""Recordings that are cut off, damaged, or lie: an error for people or what can be read, never anything else."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest

from ipuenv.engine import perfdata
from tests.engine.mutations import bases, mutated, travel, truncations

CASES = 300


@pytest.fixture
def kallsyms(tmp_path: Path) -> Path:
    """Few symbols, so that the kernel's own need not be read for every case."""
    path = tmp_path / "kallsyms"
    path.write_text("ffffffff81000000 T _text\n")
    return path


def test_damaged_recordings_are_refused_or_told(tmp_path: Path, kallsyms: Path) -> None:
    outcomes: Counter[str] = Counter()
    recordings = list(bases().values())
    path = tmp_path / "perf.data"
    for seed in range(CASES):
        path.write_bytes(mutated(recordings[seed % len(recordings)], seed))
        try:
            outcomes[travel(path, kallsyms)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    assert set(outcomes) == {"refused", "partial", "whole"}


@pytest.mark.parametrize("name", bases())
def test_every_truncation_is_refused_or_told(name: str) -> None:
    """Every one of the header and records of one recording, and some of all; the rest is torture."""
    whole = bases()[name]
    complete = len(perfdata.read(whole).samples)
    dense = sum(struct.unpack_from("<QQ", whole, 40)) if name == "plain.perf.data" else 0
    for size, data in truncations(whole, (*range(dense), *range(dense, len(whole), 29))):
        assert data.is_partial or "pipe" in name, size
        assert len(data.samples) <= complete
