"""The engine against the tools that know: perf for the stacks, addr2line for the inlined frames."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ipuenv.engine import recording, views
from ipuenv.engine.dso import DsoFinder
from ipuenv.engine.elf import read_elf
from ipuenv.engine.mappings import Tasks
from ipuenv.engine.perfdata import read
from ipuenv.engine.stacks import FrameKind
from ipuenv.engine.symbolize import KERNEL_BIT, Symbolizer
from tests.engine.conftest import VARIANTS, Recorded
from tests.engine.perf_script import compare_functions, perf_samples

ADDRESSES = 200


@pytest.mark.parametrize("name", VARIANTS)
def test_functions_equal_perf_script(recorded: Callable[[str], Recorded], name: str) -> None:
    perf_data = recorded(name).perf_data
    counts = compare_functions(recording.read(perf_data), perf_samples(perf_data))
    assert counts["same"] > 1000
    assert counts["before"] + counts["alias"] < counts["same"] / 100


@pytest.mark.parametrize("name", VARIANTS)
def test_inline_chains_equal_addr2line(recorded: Callable[[str], Recorded], name: str) -> None:
    program, perf_data = recorded(name).program, recorded(name).perf_data
    sampled = sampled_vaddrs(program, perf_data)
    vaddrs = random.Random(1).sample(sampled, min(ADDRESSES, len(sampled)))
    assert len(vaddrs) > 30
    ours = our_chains(program, vaddrs)
    theirs = addr2line_chains(program, vaddrs)
    assert max(map(len, theirs)) > 2, "the program must have inlined frames for this to prove anything"
    for vaddr, our, their in zip(vaddrs, ours, theirs, strict=True):
        assert our == their, hex(vaddr)


def sampled_vaddrs(program: Path, perf_data: Path) -> list[int]:
    """Distinct vaddrs of one program in a recording's chains, by the segment that maps each."""
    data = read(perf_data.read_bytes())
    tasks = Tasks(data.tasks, dict(data.features.build_ids))
    elf = read_elf(program.read_bytes())
    found: set[int] = set()
    for row in range(len(data.samples)):
        start, length = int(data.samples.chain_start[row]), int(data.samples.chain_length[row])
        for address in data.words[start : start + length].tolist():
            for space in tasks.spaces:
                mapping = space.at(address)
                if mapping is not None and mapping.path == str(program):
                    vaddr = elf.vaddr(mapping.file_offset(address))
                    assert vaddr is not None
                    found.add(vaddr)
    return sorted(found)


def our_chains(program: Path, vaddrs: list[int]) -> list[list[str]]:
    """Innermost first, as addr2line prints; the outermost frame's clone suffix is cut."""
    symbolizer = Symbolizer(DsoFinder(), None)
    elf = read_elf(program.read_bytes())
    chains = []
    for vaddr in vaddrs:
        segment = next(s for s in elf.segments if s.vaddr <= vaddr < s.vaddr + s.size)
        frames = symbolizer.frames_at(str(program), elf.build_id, vaddr - segment.vaddr + segment.file_offset)
        chains.append([cut(frame.symbol) for frame in reversed(frames)])
    return chains


def addr2line_chains(program: Path, vaddrs: list[int]) -> list[list[str]]:
    asked = "\n".join(map(hex, vaddrs))
    command = ["addr2line", "-a", "-i", "-f", "-e", str(program)]
    printed = subprocess.run(command, input=asked, check=True, capture_output=True, text=True).stdout.splitlines()
    chains: list[list[str]] = []
    for line in printed:
        if line.startswith("0x"):
            chains.append([])
            is_name = True
            continue
        if is_name:
            chains[-1].append(cut(line))
        is_name = not is_name
    return chains


def cut(symbol: str) -> str:
    """Without LLVM's suffix for promoted local symbols, which DWARF does not have, and GCC's for split-off parts."""
    return symbol.split(".llvm.", 1)[0].removesuffix(".cold")


def test_views_of_a_real_recording(recorded: Callable[[str], Recorded]) -> None:
    stacks = recording.read(recorded("rust-legacy").perf_data).stacks
    full, functions = views.draw(stacks, views.FULL), views.draw(stacks, views.FUNCTIONS)
    assert full.total == functions.total == stacks.total
    kinds = {label.kind for label in full.labels}
    assert FrameKind.INLINED in kinds
    assert FrameKind.INLINED not in {label.kind for label in functions.labels}
    names = {label.name for label in full.labels}
    assert {"threads::descend", "threads::work", "threads::mix"} <= names


def test_kernel_frames_are_marked(recorded: Callable[[str], Recorded]) -> None:
    stacks = recording.read(recorded("rust-legacy").perf_data).stacks
    kernel = [frame for frame in stacks.table.frames if frame.kind is FrameKind.KERNEL]
    assert kernel
    assert all(frame.dso.startswith("[") for frame in kernel)
    assert KERNEL_BIT == 1 << 63
