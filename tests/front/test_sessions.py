"""The Nox sessions: one per variant, in this process, with nox beside ipuenv and with a nox installed alone."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, SMALL_PROFILE, Project


def copy_project(project: Project, folder: Path) -> Path:
    """A project root with ipuenv's own noxfile, whose bundled build is the session's."""
    root = folder / "checkout"
    root.mkdir()
    for name in ("noxfile.py", "pyproject.toml", "README.md"):
        shutil.copy(REPOSITORY / name, root)
    for name in ("ipuenv", "examples"):
        (root / name).symlink_to(REPOSITORY / name)
    (root / "profiles").mkdir()
    shutil.copy(REPOSITORY / "profiles" / "builds.toml", root / "profiles")
    (root / "profiles" / "small.toml").write_text(SMALL_PROFILE)
    (project.root / "target").mkdir(exist_ok=True)
    (root / "target").symlink_to(project.root / "target")
    return root


def nox(project: Project, root: Path, *words: str, program: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(program)] if program else [sys.executable, "-m", "nox"]
    return subprocess.run(
        [*command, *words],
        cwd=root,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def sessions_in(listed: str) -> dict[str, str]:
    """Sessions and their tags as ``nox --list`` prints them."""
    return {match[1]: match[2] or "" for match in re.finditer(r"^[*-] (\S+)(?: \[(.*?)\])? ->", listed, re.MULTILINE)}


def test_a_session_for_every_variant(project: Project, tmp_path: Path) -> None:
    listed = nox(project, copy_project(project, tmp_path), "--list")
    assert listed.returncode == 0, listed.stderr
    sessions = sessions_in(listed.stdout)
    expected = {
        f"profile-{threads}threads{batch}{build}"
        for threads in (1, 2, 16)
        for batch in ("", "-batch2")
        for build in ("", "-release")
    }
    assert {name for name, tag in sessions.items() if tag == "profile"} == expected
    assert {"tests", "lint", "types"} <= sessions.keys()


def test_a_session_records_its_variant(project: Project, tmp_path: Path) -> None:
    root = copy_project(project, tmp_path)
    done = nox(project, root, "-s", "profile-2threads", "profile-2threads-batch2")
    assert done.returncode == 0, done.stderr
    runs = [json.loads((run / "manifest.json").read_text()) for run in project.published()]
    assert sorted(run["variants"][0]["id"] for run in runs) == ["2threads", "2threads-batch2"]
    sweeps = {run["sweep_id"] for run in runs}
    assert len(sweeps) == 1
    assert None not in sweeps
    assert not (root / ".nox").exists(), "no environment is made for a recording"


def test_ctrl_c_ends_the_sessions_with_130_and_leaves_nothing(project: Project, tmp_path: Path) -> None:
    root = copy_project(project, tmp_path)
    text = SMALL_PROFILE.replace('"--attention-heads", "1", "--attention-blocks", "1", ', "")
    (root / "profiles" / "small.toml").write_text(text)
    command = [sys.executable, "-m", "nox", "-s", "profile-1threads", "profile-2threads"]
    process = subprocess.Popen(command, cwd=root, env=project.environment(), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list(project.artifacts.rglob("run.log")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert not project.published()
    assert not list(project.artifacts.rglob("*.partial"))


def test_a_wrong_profile_leaves_the_other_sessions(project: Project, tmp_path: Path) -> None:
    root = copy_project(project, tmp_path)
    (root / "profiles" / "small.toml").write_text("schema = 2\n")
    listed = nox(project, root, "--list")
    assert listed.returncode == 0, listed.stderr
    assert "small.toml" in listed.stderr
    assert {"tests", "lint"} <= sessions_in(listed.stdout).keys()


def test_a_nox_installed_alone_finds_what_the_noxfile_imports(project: Project, tmp_path: Path) -> None:
    """As pipx installs it: an environment that holds nox and nothing of ours."""
    alone = tmp_path / "alone"
    venv.create(alone, with_pip=True)
    subprocess.run([alone / "bin" / "pip", "install", "--quiet", "nox"], check=True)
    root = copy_project(project, tmp_path)
    done = nox(project, root, "-s", "profile-2threads", program=alone / "bin" / "nox")
    assert done.returncode == 0, done.stderr
    (run,) = project.published()
    assert json.loads((run / "manifest.json").read_text())["variants"][0]["status"] == "pass"


def test_the_noxfile_repeats_the_projects_dependencies() -> None:
    text = (REPOSITORY / "noxfile.py").read_text()
    block = text.split("# /// script\n")[1].split("# ///\n")[0]
    script = tomllib.loads("".join(line.removeprefix("# ") for line in block.splitlines(keepends=True)))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert script["dependencies"] == project["dependencies"]
    assert script["requires-python"] == project["requires-python"]


@pytest.mark.parametrize("words", [("--help",), ("--list",), ("flamegraph", "--help")])
def test_help_imports_nothing_heavy(project: Project, words: tuple[str, ...]) -> None:
    script = (
        "import sys; from ipuenv.front.cli import program; "
        f"program.run(['ipuenv', *{words!r}], exit=False); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=project.root, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert not loaded & {"numpy", "pydantic", "symbolic", "rich", "requests", "zstandard", "elftools", "nox"}
    assert "flamegraph" in done.stdout
