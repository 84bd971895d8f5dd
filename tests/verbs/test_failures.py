"""What goes wrong: each its own message in three beats, its exit code, and no published run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, SMALL_PROFILE, Project

SDK = REPOSITORY / "examples" / "poplar-sdk"

MAIN = """
use std::time::{Duration, Instant};

fn burn(milliseconds: u64) -> u64 {
    let (start, mut sum) = (Instant::now(), 0u64);
    while start.elapsed() < Duration::from_millis(milliseconds) {
        sum = (0..10_000u64).fold(sum, |sum, value| sum.rotate_left(5) ^ value);
    }
    std::hint::black_box(sum)
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("fail") => {
            burn(300);
            println!("planner rejected: no candidate fits");
            std::process::exit(3);
        }
        Some("abort") => {
            burn(300);
            std::process::abort();
        }
        Some("silent") => {
            burn(300);
        }
        Some("changing") => {
            burn(300);
            let now = std::time::SystemTime::now();
            std::fs::write(std::env::args().nth(2).expect("a path"), format!("{now:?}")).expect("an output");
        }
        Some("long") => {
            burn(60_000);
        }
        _ => {}
    }
}
"""

PROFILE = """
schema = 1
title = "Tiny"
artifacts = "tiny"
[target]
package = "tiny"
bin = "tiny"
[run]
args = ["{mode}", "{run-dir}/out"]
[output]
path = "{run-dir}/out"
depends-on = ["mode"]
[device]
lock = "device.lock"
holder = "ipuenv"
[record]
frequency = 199
[axes]
mode = { values = ["quick", "fail", "abort", "changing", "silent", "long"], default = "quick", label = "{}" }
"""

BUILDS = (
    '[flamegraph]\ntarget-dir = "target/flamegraph"\ndebug = true\nrustflags = ["-C", "force-frame-pointers=yes"]\n'
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project root that is its own workspace: one program without dependencies."""
    root = tmp_path_factory.mktemp("tiny")
    (root / "src").mkdir()
    (root / "profiles").mkdir()
    (root / "src" / "main.rs").write_text(MAIN)
    (root / "Cargo.toml").write_text('[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n')
    (root / "profiles" / "tiny.toml").write_text(PROFILE)
    (root / "profiles" / "builds.toml").write_text(BUILDS)
    return root


@pytest.fixture
def workspace(tiny: Path, tmp_path: Path) -> Project:
    settings = {"IPUENV_WORKSPACE": str(tiny), "IPUENV_SDK": str(SDK), "IPUENV_PROFILE": "tiny"}
    return Project(root=tiny, artifacts=tmp_path / "artifacts", env=settings)


def assert_refused(completed: subprocess.CompletedProcess[str], code: int, *beats: str) -> None:
    """The exit code, the three beats, what they must say, and no traceback."""
    said = completed.stderr
    assert completed.returncode == code, said
    assert "Traceback" not in said
    assert "error: " in said
    assert "  expected: " in said
    assert "  next: " in said
    for beat in beats:
        assert beat in said, said


def nothing_published(project: Project) -> bool:
    root = project.artifacts
    return not list(root.rglob("manifest.json")) and not list(root.rglob("*.partial"))


def path_without(program: str, folder: Path) -> str:
    """A PATH on which everything is found but one program."""
    farm = folder / f"without-{program}"
    farm.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for file in Path(place).iterdir() if Path(place).is_dir() else ():
            link = farm / file.name
            if file.name != program:
                link.unlink(missing_ok=True)
                link.symlink_to(file)
    assert shutil.which(program, path=str(farm)) is None
    return str(farm)


@pytest.mark.parametrize(("program", "hint"), [("perf", "apt-get install linux-perf"), ("cargo", "rustup.rs")])
def test_a_missing_tool(workspace: Project, tmp_path: Path, program: str, hint: str) -> None:
    env = workspace.environment(PATH=path_without(program, tmp_path))
    completed = workspace.run("flamegraph", "--variant", "fail", env=env)
    assert_refused(completed, 3, f"'{program}' was not found on PATH", hint)
    assert nothing_published(workspace)


def test_perf_not_permitted(workspace: Project) -> None:
    filtered = [sys.executable, str(REPOSITORY / "tests" / "without_perf_events.py")]
    completed = workspace.run("flamegraph", "--variant", "fail", wrapper=filtered)
    assert_refused(completed, 3, "perf", "permit")
    assert nothing_published(workspace)


def test_a_compile_error_shows_the_compilers_own_text(workspace: Project, tiny: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(tiny, broken, ignore=shutil.ignore_patterns("target"))
    source = broken / "src" / "main.rs"
    source.write_text(source.read_text().replace("burn(300);", "burn(three_hundred);", 1))
    completed = workspace.run("flamegraph", env=workspace.environment(IPUENV_WORKSPACE=str(broken)))
    assert_refused(completed, 1, "cannot find value `three_hundred` in this scope", "error[E0425]", "src/main.rs")
    assert nothing_published(workspace)


def test_a_program_that_ends_before_the_first_sample(workspace: Project) -> None:
    completed = workspace.run("flamegraph", "--variant", "quick")
    assert_refused(completed, 1, "ended before perf took a sample (exit 0)", "[record] frequency")
    assert nothing_published(workspace)


@pytest.mark.parametrize(("size_kib", "variant"), [(64, "fail"), (5000, "fail")])
def test_a_full_disk(workspace: Project, size_kib: int, variant: str) -> None:
    disk = workspace.artifacts
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "none", disk], check=True)
    try:
        completed = workspace.run("flamegraph", "--variant", variant)
        assert_refused(completed, 1, "no space left")
        assert nothing_published(workspace)
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize(
    ("change", "beats"),
    [
        (("frequency = 1999", "frequncy = 1999"), ("record.frequncy", "unknown key", "Did you mean 'frequency'?")),
        (('"{package}",', '"{pakage}",'), ("run.args[4]", "{pakage}", "Did you mean 'package'?")),
        (("frequency = 1999", 'frequency = "fast"'), ("record.frequency", "wanted an integer", '"fast"')),
    ],
)
def test_a_wrong_profile(project: Project, tmp_path: Path, change: tuple[str, str], beats: tuple[str, ...]) -> None:
    root = tmp_path / "wrong"
    (root / "profiles").mkdir(parents=True)
    shutil.copy(REPOSITORY / "profiles" / "builds.toml", root / "profiles")
    (root / "profiles" / "small.toml").write_text(SMALL_PROFILE.replace(*change))
    completed = project.run("flamegraph", cwd=root)
    assert completed.returncode == 2
    assert "Traceback" not in completed.stderr
    for beat in beats:
        assert beat in completed.stderr, completed.stderr
    assert nothing_published(project)


def test_every_problem_of_a_profile_is_told_at_once(project: Project, tmp_path: Path) -> None:
    root = tmp_path / "wrong"
    (root / "profiles").mkdir(parents=True)
    shutil.copy(REPOSITORY / "profiles" / "builds.toml", root / "profiles")
    broken = SMALL_PROFILE.replace("frequency = 1999", "frequncy = 1999").replace("{package}", "{pakage}", 1)
    (root / "profiles" / "small.toml").write_text(broken.replace('holder = "program"', 'holder = "programm"'))
    completed = project.run("flamegraph", cwd=root)
    assert completed.returncode == 2
    for place in ("record.frequncy", "run.args", "device.holder"):
        assert place in completed.stderr


def test_a_missing_workspace(project: Project) -> None:
    completed = project.run("flamegraph", env=project.environment(IPUENV_WORKSPACE="/nowhere/at/all"))
    assert_refused(completed, 3, "'/nowhere/at/all'", "IPUENV_WORKSPACE", "Cargo.toml")


def test_a_missing_sdk(project: Project) -> None:
    completed = project.run("flamegraph", env=project.environment(IPUENV_SDK="/nowhere/at/all"))
    assert_refused(completed, 3, "/nowhere/at/all")


def test_two_sdks(project: Project, tmp_path: Path) -> None:
    for name in ("poplar_sdk-3.2.0", "poplar_sdk-3.3.0"):
        shutil.copytree(SDK, tmp_path / "sdks" / name)
    completed = project.run("flamegraph", env=project.environment(IPUENV_SDK=str(tmp_path / "sdks")))
    assert_refused(completed, 2, "poplar_sdk-3.2.0", "poplar_sdk-3.3.0")


def test_an_unknown_variant_names_the_nearest(project: Project) -> None:
    completed = project.run("flamegraph", "--variant", "16treads")
    assert_refused(completed, 2, "16treads", "did you mean '16threads'?")


@pytest.mark.parametrize(("variant", "ending"), [("fail", "exit 3"), ("abort", "killed by SIGABRT")])
def test_a_failed_program_still_gets_its_pictures(workspace: Project, variant: str, ending: str) -> None:
    completed = workspace.run("flamegraph", "--variant", variant)
    assert completed.returncode == 1, completed.stderr
    assert f"{variant}: failed" in completed.stdout
    assert ending in completed.stdout
    runs = [path for path in (workspace.artifacts / "tiny").iterdir() if path.is_dir() and not path.is_symlink()]
    (run,) = [path for path in runs if not path.name.startswith(".")]
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["variants"][0]["status"] == "failed"
    for name in ("tiny.svg", "tiny-functions.svg", "perf.data"):
        assert (run / variant / name).stat().st_size > 0
    assert not (workspace.artifacts / "tiny" / "latest").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing(workspace: Project, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "ipuenv", "flamegraph", "--variant", "long"]
    process = subprocess.Popen(
        command,
        cwd=workspace.root,
        env=workspace.environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: bool(list(workspace.artifacts.rglob("run.log"))))
    time.sleep(0.5)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert nothing_published(workspace)
    assert not processes_of(str(workspace.artifacts))


def wait_for(is_true: Callable[[], bool], limit_s: float = 120) -> None:
    deadline = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes_of(words: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if words in line:
            found.append(line)
    return found


def test_an_output_that_must_be_identical_and_is_not(workspace: Project) -> None:
    assert workspace.run("flamegraph", "--variant", "changing").returncode == 0
    collection = workspace.artifacts / "tiny"
    (collection / "baseline").symlink_to((collection / "latest").readlink())
    completed = workspace.run("flamegraph", "--variant", "changing")
    assert_refused(
        completed, 4, "the output of changing differs", str((collection / "baseline").readlink()), "identical"
    )
    assert "DIFFERS from the baseline" in completed.stdout
    assert len(list(collection.glob("*/manifest.json"))) == 2 + 2, "both runs are kept, and seen again by two links"


def test_an_output_that_is_never_written(workspace: Project) -> None:
    completed = workspace.run("flamegraph", "--variant", "silent")
    assert completed.returncode == 1
    assert "the program did not write" in completed.stdout
    assert not (workspace.artifacts / "tiny" / "latest").exists()


@pytest.mark.parametrize("folder", ["/dev/full", "/proc/nowhere"])
def test_a_folder_that_cannot_be_made(project: Project, tmp_path: Path, folder: str) -> None:
    (tmp_path / "some.folded").write_text("a;b 1\n")
    assert_refused(project.run("render", tmp_path / "some.folded", "-o", folder), 1, folder)


def test_a_device_that_stays_busy(workspace: Project, tiny: Path) -> None:
    lock = tiny / "device.lock"
    with subprocess.Popen(["flock", lock, "sleep", "60"]) as other:
        wait_for(lambda: subprocess.run(["flock", "-n", lock, "true"], check=False).returncode == 1)
        completed = workspace.run("flamegraph", "--variant", "fail", "--lock-timeout", "1")
        other.terminate()
        subprocess.run(["pkill", "-f", "sleep 60"], check=False)
    assert_refused(completed, 5, "the device stayed busy", str(lock), "--lock-timeout")
    assert nothing_published(workspace)


def test_a_device_that_becomes_free_is_waited_for(workspace: Project, tiny: Path) -> None:
    lock = tiny / "device.lock"
    workspace.run("flamegraph", "--variant", "quick")  # builds
    with subprocess.Popen(["flock", lock, "sleep", "4"]):
        completed = workspace.run("flamegraph", "--variant", "changing")
    assert completed.returncode == 0, completed.stderr
    device = manifest_of_latest(workspace)["variants"][0]["device"]
    assert device["holder"] == "ipuenv"
    assert device["lock_wait_s"] > 0.5
    assert subprocess.run(["flock", "-n", lock, "true"], check=False).returncode == 0, "the lock must be free again"


def manifest_of_latest(project: Project) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((project.artifacts / "tiny" / "latest" / "manifest.json").read_text())
    return loaded


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_timeout_that_is_none(workspace: Project, text: str) -> None:
    assert_refused(workspace.run("flamegraph", f"--lock-timeout={text}"), 2, "lock-timeout", text)


def test_a_program_that_needs_no_sdk(workspace: Project) -> None:
    env = workspace.environment(IPUENV_SDK="none")
    completed = workspace.run("flamegraph", "--variant", "changing", env=env)
    assert completed.returncode == 0, completed.stderr
    assert "SDK        none (IPUENV_SDK)" in completed.stderr
    assert manifest_of_latest(workspace)["sdk"] is None


def test_a_dwarf_recording_is_refused_before_anything_is_built(project: Project, tmp_path: Path) -> None:
    root = tmp_path / "dwarf"
    (root / "profiles").mkdir(parents=True)
    shutil.copy(REPOSITORY / "profiles" / "builds.toml", root / "profiles")
    text = SMALL_PROFILE.replace('call-graph = "fp"', 'call-graph = "dwarf"')
    (root / "profiles" / "small.toml").write_text(text)
    assert_refused(project.run("flamegraph", cwd=root), 2, 'call-graph = "dwarf"')
