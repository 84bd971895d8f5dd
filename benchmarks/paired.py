"""Paired timing: ours and the peer in turn, so that a machine whose speed drifts is unfair to neither."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """What one run took: wall and CPU seconds, and the peak memory of its largest process in bytes."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Command:
    name: str
    argv: tuple[str, ...]


def measure(command: Command, cwd: Path) -> Cost:
    """Run a command to its end. Resource usage is the kernel's own, of the process and all it waited for."""
    began = time.perf_counter()
    process = subprocess.Popen(command.argv, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.stderr.buffer.write(said)
        sys.exit(f"{command.name} ended with {process.returncode}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def compare(ours: Command, peer: Command, *, runs: int, cwd: Path) -> float:
    """Print both commands' medians and the median of the ratios pair by pair; the ratio of wall times."""
    for command in (ours, peer):
        measure(command, cwd)  # warms the page cache
    pairs = [(measure(ours, cwd), measure(peer, cwd)) for _ in range(runs)]
    print(f"{'':34}{'wall s':>9}{'cpu s':>9}{'peak MB':>9}")
    for index, command in enumerate((ours, peer)):
        costs = [pair[index] for pair in pairs]
        wall, cpu, peak = (
            statistics.median(getattr(c, key) for c in costs) for key in ("wall_s", "cpu_s", "peak_bytes")
        )
        print(f"{command.name:34}{wall:9.3f}{cpu:9.3f}{peak / 1e6:9.1f}")
    ratios = [statistics.median(getattr(a, key) / getattr(b, key) for a, b in pairs) for key in Cost.__annotations__]
    print(f"{'ratio, median of ' + str(runs) + ' pairs':34}{ratios[0]:9.2f}{ratios[1]:9.2f}{ratios[2]:9.2f}\n")
    return float(ratios[0])
