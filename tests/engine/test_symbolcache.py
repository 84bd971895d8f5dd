"""The symbol cache: the same answers, made once, whole whoever writes it and however it is damaged."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest

from ipuenv.engine import recording
from ipuenv.engine.symbolcache import SymbolCache
from tests.engine.conftest import Recorded


@pytest.fixture
def program(recorded: Callable[[str], Recorded]) -> Path:
    return recorded("rust-legacy").program


def answers(cache: SymbolCache, program: Path, build_id: str = "abcd") -> list[list[str]]:
    symbols = cache.open(program, build_id)
    assert symbols is not None
    return [[found.symbol for found in symbols.lookup(vaddr)] for vaddr in range(0x14000, 0x20000, 256)]


def test_answers_are_the_same_from_the_cache(tmp_path: Path, program: Path) -> None:
    made = answers(SymbolCache(), program)
    assert any(len(chain) > 1 for chain in made)
    assert answers(SymbolCache(tmp_path / "cache"), program) == made
    (file,) = (tmp_path / "cache").iterdir()
    stamp = file.stat().st_mtime_ns
    assert answers(SymbolCache(tmp_path / "cache"), Path("/nowhere")) == made, "the cache must serve alone"
    assert file.stat().st_mtime_ns == stamp


def test_another_build_id_is_another_cache(tmp_path: Path, program: Path) -> None:
    cache = SymbolCache(tmp_path)
    assert cache.open(program, "aaaa") is not None
    assert cache.open(Path("/nowhere"), "bbbb") is None


def test_without_a_build_id_nothing_is_kept(tmp_path: Path, program: Path) -> None:
    assert SymbolCache(tmp_path).open(program, "") is not None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", [b"", b"garbage" * 1000, None])
def test_a_damaged_cache_is_made_again(tmp_path: Path, program: Path, damage: bytes | None) -> None:
    cache = SymbolCache(tmp_path)
    made = answers(cache, program)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert answers(cache, program) == made
    assert file.read_bytes() == whole


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/below"])
def test_a_folder_that_cannot_be_written_costs_nothing_but_time(program: Path, place: str) -> None:
    assert SymbolCache(Path(place)).open(program, "abcd") is not None


def fill(folder: Path, program: Path, start: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    assert SymbolCache(folder).open(program, "abcd") is not None


def test_processes_that_fill_it_at_once_do_no_harm(tmp_path: Path, program: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(4)
    processes = [context.Process(target=fill, args=(tmp_path, program, start)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(list(tmp_path.iterdir())) == 1
    assert answers(SymbolCache(tmp_path), program) == answers(SymbolCache(), program)


def test_a_recording_reads_alike_with_and_without(recorded: Callable[[str], Recorded], tmp_path: Path) -> None:
    perf_data = recorded("rust-legacy").perf_data
    plain = recording.read(perf_data).stacks.table.frames
    for _ in range(2):
        assert recording.read(perf_data, cache=tmp_path).stacks.table.frames == plain
    assert list(tmp_path.iterdir())
