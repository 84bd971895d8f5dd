"""Finding the file behind a mapping: the right one by its build-id, never a rebuilt one; separate debug files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ipuenv.engine import recording
from ipuenv.engine.dso import DsoFinder, stored_files
from ipuenv.engine.elf import ElfProblemError, read_build_id, read_elf
from ipuenv.engine.stacks import FrameKind
from ipuenv.engine.symbolize import Symbolizer
from tests.engine.conftest import Recorded, compile_program, record, tool


def build_id_by_readelf(path: Path) -> str:
    printed = subprocess.run(["readelf", "-n", path], check=True, capture_output=True, text=True).stdout
    return printed.split("Build ID: ")[1].split()[0]


@pytest.fixture(scope="module")
def program(recorded: Callable[[str], Recorded]) -> Path:
    return recorded("rust-legacy").program


def names_in(perf_data: Path, **options: object) -> set[str]:
    return {frame.name for frame in recording.read(perf_data, **options).stacks.table.frames}  # type: ignore[arg-type]


def test_the_build_id_is_readelfs(program: Path) -> None:
    assert read_build_id(program.read_bytes()) == build_id_by_readelf(program)


def test_segments_map_offsets_as_readelf_lists_them(program: Path) -> None:
    elf = read_elf(program.read_bytes())
    printed = subprocess.run(["readelf", "-lW", program], check=True, capture_output=True, text=True).stdout
    loads = [line.split() for line in printed.splitlines() if line.strip().startswith("LOAD")]
    assert len(loads) == len(elf.segments) > 2
    for load in loads:
        offset, vaddr, size = int(load[1], 16), int(load[2], 16), int(load[4], 16)
        if "E" in load[6:-1]:
            assert elf.vaddr(offset) == vaddr
            assert elf.vaddr(offset + size - 1) == vaddr + size - 1


def test_symbols_are_nms(program: Path) -> None:
    elf = read_elf(program.read_bytes())
    printed = subprocess.run(["nm", "-S", "--defined-only", program], check=True, capture_output=True, text=True).stdout
    sized = [line.split() for line in printed.splitlines() if len(line.split()) == 4 and line.split()[2] in "tT"]
    assert len(sized) > 100
    for start, size, _, name in sized:
        symbol = elf.symbols.at(int(start, 16))
        assert symbol is not None
        assert name in symbol.aliases
        assert symbol.end - symbol.start in {int(size, 16)} | {int(s, 16) for at, s, _, _ in sized if at == start}


def test_what_is_no_elf_file_is_told() -> None:
    for content in (b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF" + bytes(60)):
        with pytest.raises(ElfProblemError):
            read_elf(content)


def test_a_rebuilt_executable_is_never_used(tmp_path: Path, program: Path) -> None:
    moved = tmp_path / "program"
    shutil.copy(program, moved)
    perf_data = record([moved], tmp_path / "perf.data")
    assert "threads::work" in names_in(perf_data)
    compile_program("threads.rs", moved, "-Copt-level=1")
    assert build_id_by_readelf(moved) != build_id_by_readelf(program)
    read = recording.read(perf_data)
    names = {frame.name for frame in read.stacks.table.frames}
    assert "threads::work" not in names
    assert "[program]" in names
    assert read.quality.grade == "poor"
    assert build_id_by_readelf(program)[:12] in read.quality.mismatches[str(moved)]
    assert "threads::work" in names_in(perf_data, stored=[program])


def test_a_missing_executable_degrades_to_its_name(tmp_path: Path, program: Path) -> None:
    moved = tmp_path / "program"
    shutil.copy(program, moved)
    perf_data = record([moved], tmp_path / "perf.data")
    moved.unlink()
    read = recording.read(perf_data)
    assert "[program]" in {frame.name for frame in read.stacks.table.frames}
    (unknown,) = [unknown for unknown in read.quality.unknown if unknown.dso == str(moved)]
    assert unknown.frames > 0
    assert unknown.reason == "its file is gone"


def test_a_stripped_program_says_so(tmp_path: Path, program: Path) -> None:
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    read = recording.read(record([stripped], tmp_path / "perf.data"))
    (unknown,) = [unknown for unknown in read.quality.unknown if unknown.dso == str(stripped)]
    assert unknown.reason == "it is stripped"
    assert read.quality.grade == "poor"


def split(program: Path, folder: Path) -> tuple[Path, Path]:
    """A stripped program and its debug file, as distributions make them."""
    stripped, debug = folder / "split", folder / "split.debug"
    subprocess.run([tool("objcopy", "binutils"), "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program, stripped], check=True)
    stripped.chmod(0o755)
    return stripped, debug


@pytest.mark.parametrize("place", ["link", "build-id"])
def test_separate_debug_information_is_found(tmp_path: Path, program: Path, place: str) -> None:
    stripped, debug = split(program, tmp_path)
    perf_data = record([stripped], tmp_path / "perf.data")
    debug_root = tmp_path / "debug"
    if place == "build-id":
        build_id = build_id_by_readelf(program)
        (debug_root / ".build-id" / build_id[:2]).mkdir(parents=True)
        debug.rename(debug_root / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug")
    files = DsoFinder(debug_folders=(debug_root,)).find(str(stripped), build_id_by_readelf(program))
    assert files.symbols is not None
    assert files.symbols.symbol_source == ".symtab"
    symbolizer = Symbolizer(DsoFinder(debug_folders=(debug_root,)), None)
    elf = read_elf(program.read_bytes())
    work = next(symbol for symbol in elf.symbols.symbols if "threads4work" in symbol.name)
    segment = next(s for s in elf.segments if s.vaddr <= work.start < s.vaddr + s.size)
    offset = work.start + 20 - segment.vaddr + segment.file_offset
    frames = symbolizer.frames_at(str(stripped), build_id_by_readelf(program), offset)
    assert frames[0].name == "threads::work"
    assert perf_data.exists()


def test_a_debug_file_of_another_build_is_not_used(tmp_path: Path, program: Path) -> None:
    stripped, debug = split(program, tmp_path)
    other = compile_program("threads.rs", tmp_path / "other", "-Copt-level=1")
    subprocess.run(["objcopy", "--only-keep-debug", other, debug], check=True)
    files = DsoFinder(debug_folders=()).find(str(stripped), build_id_by_readelf(program))
    assert files.symbol_file == stripped
    assert files.reason == "it is stripped"


def test_libc_has_names_and_inlined_frames_from_its_debug_package(recorded: Callable[[str], Recorded]) -> None:
    frames = recording.read(recorded("rust-legacy").perf_data).stacks.table.frames
    names = {frame.name for frame in frames if "libc.so" in frame.dso and frame.kind is FrameKind.NATIVE}
    assert "start_thread" in names, "a local symbol, which only the debug file has: apt-get install libc6-dbg"


def test_stored_files_are_known_by_their_build_id(tmp_path: Path, program: Path) -> None:
    text = tmp_path / "run.log"
    text.write_text("no ELF file")
    assert stored_files([program, text, tmp_path / "missing"]) == {build_id_by_readelf(program): program}
