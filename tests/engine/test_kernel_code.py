"""Frames in code that the kernel made while it ran: named by the recording itself, whatever is known of the kernel."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ipuenv.engine import recording
from ipuenv.engine.stacks import FrameKind
from tests.engine.test_perfdata import KERNEL_MARKER, File, padded, record, sample, trailer

PROGRAM, KERNEL = 0xFFFFFFFFC0001000, 0xFFFFFFFF81000000


def ksymbol(start: int, name: bytes, kind: int = 1, flags: int = 0) -> bytes:
    return record(17, struct.pack("<QIHH", start, 0x80, kind, flags) + padded(name) + trailer(0, 0, 1))


@pytest.mark.parametrize("kallsyms", [f"{KERNEL:016x} T _text\n{KERNEL:016x} T start\n", "", "0" * 16 + " T _text\n"])
def test_bpf_programs_have_names(tmp_path: Path, kallsyms: str) -> None:
    path, symbols = tmp_path / "perf.data", tmp_path / "kallsyms"
    symbols.write_text(kallsyms)
    code = ksymbol(PROGRAM, b"bpf_prog_6deef7357e7b4530_trace") + ksymbol(PROGRAM + 0x1000, b"odd \n name", kind=2)
    path.write_bytes(File(code + sample(2, [KERNEL_MARKER, PROGRAM + 8, PROGRAM + 0x1010, KERNEL + 4], misc=1)).data())
    found = recording.read(path, kallsyms=symbols)
    frames = {frame.name: frame.dso for frame in found.stacks.table.frames if frame.kind is FrameKind.KERNEL}
    assert frames.pop("bpf_prog_6deef7357e7b4530_trace") == "[bpf]"
    assert frames.pop("odd_name") == "[ool]"
    assert list(frames) == (["start"] if kallsyms.startswith("f") else ["[kernel]"])


def test_code_that_was_taken_away_is_no_longer_named(tmp_path: Path) -> None:
    path, symbols = tmp_path / "perf.data", tmp_path / "kallsyms"
    symbols.write_text("")
    path.write_bytes(File(ksymbol(PROGRAM, b"gone", flags=1) + sample(2, [KERNEL_MARKER, PROGRAM], misc=1)).data())
    found = recording.read(path, kallsyms=symbols)
    assert [frame.name for frame in found.stacks.table.frames if frame.kind is FrameKind.KERNEL] == ["[kernel]"]
