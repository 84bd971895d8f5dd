"""Kernel frames: names from a saved kallsyms of the same boot, a label where there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from ipuenv.engine import recording
from ipuenv.engine.kallsyms import read_kallsyms
from ipuenv.engine.stacks import FrameKind
from tests.engine.conftest import Recorded

TEXT = """\
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000100 t helper
ffffffff81000100 T __helper
ffffffff81000200 D data
ffffffff81000300 T last
ffffffffc0000000 t in_module\t[module]
"""


def test_symbols_reach_to_the_next_and_the_last_alias_is_perfs() -> None:
    symbols = read_kallsyms(TEXT)
    assert symbols is not None
    found = {address: symbols.at(address) for address in (0xFFFFFFFF81000080, 0xFFFFFFFF81000250)}
    assert [symbol.name if symbol else None for symbol in found.values()] == ["_stext", "__helper"]
    assert symbols.at(0xFFFFFFFFA0000000) is None
    assert symbols.module_at(0xFFFFFFFFC0000010) == "[module]"
    assert symbols.module_at(0xFFFFFFFF81000010) == "[kernel.kallsyms]"
    assert symbols.text_start == 0xFFFFFFFF81000000


def test_hidden_addresses_are_no_symbols() -> None:
    assert read_kallsyms("0000000000000000 T _text\n0000000000000000 T other\n") is None


def kernel_frames(perf_data: Path, kallsyms: Path | None = None) -> set[str]:
    stacks = recording.read(perf_data, kallsyms=kallsyms).stacks
    return {frame.name for frame in stacks.table.frames if frame.kind is FrameKind.KERNEL}


@pytest.mark.parametrize("is_compressed", [False, True])
def test_saved_symbols_name_kernel_frames(
    recorded: Callable[[str], Recorded], tmp_path: Path, is_compressed: bool
) -> None:
    perf_data = recorded("rust-legacy").perf_data
    live = Path("/proc/kallsyms").read_bytes()
    saved = tmp_path / ("kallsyms.zst" if is_compressed else "kallsyms")
    saved.write_bytes(zstandard.compress(live) if is_compressed else live)
    names = kernel_frames(perf_data, saved)
    assert names == kernel_frames(perf_data)
    assert "[kernel]" not in names
    assert len(names) > 3


def test_symbols_of_another_boot_are_not_used(recorded: Callable[[str], Recorded], tmp_path: Path) -> None:
    moved = tmp_path / "kallsyms"
    lines = Path("/proc/kallsyms").read_text().splitlines()
    moved.write_text("".join(f"{int(line.split()[0], 16) + 0x200000:016x} {line.split(' ', 1)[1]}\n" for line in lines))
    perf_data = recorded("rust-legacy").perf_data
    assert kernel_frames(perf_data, moved) == {"[kernel]"}
    unknown = recording.read(perf_data, kallsyms=moved).quality.unknown
    assert "another boot" in next(found.reason for found in unknown if found.dso == "[kernel]")
