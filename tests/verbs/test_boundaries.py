"""Who gets which environment, and what the build leaves alone."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import Project

SDK_VARIABLES = ("POPLAR_SDK_ENABLED", "LD_LIBRARY_PATH", "PYTHONPATH", "CPATH", "LIBRARY_PATH", "OPAL_PREFIX")

WRAPPER = """#!{python} -IS
import os, sys
with open("{log}", "a") as log:
    log.write(chr(31).join(f"{{k}}={{v}}" for k, v in os.environ.items()).replace(chr(10), " ") + chr(10))
os.execv("{real}", ["{name}", *sys.argv[1:]])
"""


@pytest.fixture
def spies(tmp_path: Path) -> Path:
    """A folder for PATH in which perf, git and cargo write down their environment before they run."""
    folder = tmp_path / "spies"
    folder.mkdir()
    for name in ("perf", "git", "cargo"):
        real = shutil.which(name)
        assert real is not None
        spy = folder / name
        log = tmp_path / f"{name}.environment"
        spy.write_text(WRAPPER.format(python=sys.executable, log=log, real=real, name=name))
        spy.chmod(0o755)
    return folder


def environments(folder: Path, name: str) -> list[dict[str, str]]:
    lines = (folder / f"{name}.environment").read_text().splitlines()
    assert lines
    return [dict(pair.split("=", 1) for pair in line.split("\x1f")) for line in lines]


def test_the_sdk_reaches_the_program_and_cargo_and_nobody_else(project: Project, spies: Path, tmp_path: Path) -> None:
    env = project.environment(PATH=f"{spies}{os.pathsep}{os.environ['PATH']}")
    completed = project.run("flamegraph", env=env)
    assert completed.returncode == 0, completed.stderr
    for name in ("perf", "git"):
        for environment in environments(tmp_path, name):
            assert not [variable for variable in SDK_VARIABLES if "poplar" in environment.get(variable, "")], name
            assert "poplar" not in environment["PATH"]
    assert any("poplar" in environment.get("LD_LIBRARY_PATH", "") for environment in environments(tmp_path, "cargo"))
    manifest = json.loads((project.latest / "manifest.json").read_text())
    assert "POPLAR_SDK_ENABLED" in manifest["sdk"]["environment"]["added"]
    assert "found Poplar SDK" in (project.latest / "16threads" / "run.log").read_text()


def test_an_sdk_enabled_in_the_shell_does_not_reach_perf(project: Project, spies: Path, tmp_path: Path) -> None:
    enabled = {"POPLAR_SDK_ENABLED": "/opt/poplar", "LD_LIBRARY_PATH": "/opt/poplar/lib", "PYTHONPATH": ""}
    env = project.environment(PATH=f"{spies}{os.pathsep}{os.environ['PATH']}", **enabled)
    completed = project.run("flamegraph", env=env)
    assert completed.returncode == 0, completed.stderr
    for environment in environments(tmp_path, "perf"):
        assert "LD_LIBRARY_PATH" not in environment
        assert "POPLAR_SDK_ENABLED" not in environment


def test_no_secret_of_the_shell_is_written_down(project: Project) -> None:
    secret = "hunter2-" + "x" * 20
    env = project.environment(MY_TOKEN=secret, RUST_LOG="off")
    assert project.run("flamegraph", env=env).returncode == 0
    for file in project.latest.rglob("*"):
        if file.is_file() and file.suffix in (".json", ".md", ".log", ".svg"):
            assert secret not in file.read_text(errors="replace"), file
    phases = json.loads((project.latest / "manifest.json").read_text())["variants"][0]["phases"]
    assert phases, "a log filter of somebody's shell must not hide the phases"


def test_rows_build_apart(project: Project) -> None:
    assert project.run("flamegraph", "--variant", "16threads").returncode == 0
    bundled = project.root / "target" / "bundled" / "target"
    normal = bundled / "release" / "ipu-trivial-test"
    before = normal.stat().st_mtime_ns if normal.exists() else None
    assert project.run("flamegraph", "--variant", "16threads").returncode == 0
    assert (normal.stat().st_mtime_ns if normal.exists() else None) == before
    assert (bundled / "flamegraph" / "release" / "ipu-trivial-test").exists()
