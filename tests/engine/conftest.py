"""Programs compiled and recorded for the engine's tests, once a session."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent.parent / "programs"
RUSTC = ("rustc", "--edition=2021", "-O", "-g", "-Cforce-frame-pointers=yes")
GXX = ("g++", "-std=c++17", "-O2", "-g", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A program and a perf.data of it."""

    program: Path
    perf_data: Path


def tool(name: str, package: str) -> str:
    """Path of a tool that a test needs; its absence fails the test, since skipping would hide what it guards."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"'{name}' is needed by this test: apt-get install {package}")
    return found


def compile_program(source: str, output: Path, *flags: str) -> Path:
    compiler = RUSTC if source.endswith(".rs") else GXX
    tool(compiler[0], "rustc" if source.endswith(".rs") else "g++")
    subprocess.run([*compiler, *flags, "-o", output, PROGRAMS / source], check=True)
    return output


def record(argv: Sequence[str | Path], perf_data: Path, *options: str) -> Path:
    perf = tool("perf", "linux-perf")
    command = [perf, "record", "-q", "-N", "-F", "1999", "--call-graph", "fp", *options, "-o", perf_data, "--", *argv]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_data


VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "rust-legacy": ("threads.rs", ()),
    "rust-v0": ("threads.rs", ("-Csymbol-mangling-version=v0",)),
    "rust-gnu-ld": ("threads.rs", ("-Clink-arg=-fuse-ld=bfd",)),
    "c++": ("templates.cpp", ()),
}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    """Records one of :data:`VARIANTS` when it is first asked for."""
    folder = tmp_path_factory.mktemp("recorded")
    done: dict[str, Recorded] = {}

    def by_name(name: str) -> Recorded:
        if name not in done:
            source, flags = VARIANTS[name]
            program = compile_program(source, folder / name, *flags)
            done[name] = Recorded(program=program, perf_data=record([program], folder / f"{name}.perf.data"))
        return done[name]

    return by_name
