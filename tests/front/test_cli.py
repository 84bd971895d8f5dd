"""The command line: its exit codes for misuse, and the two names of one namespace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Project


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("flamgraph",), "flamgraph"),
        (("flamegraph", "--no-such-option"), "--no-such-option"),
        (("render",), "source"),
        (("render", "--bogus"), "--bogus"),
        (("--help", "nothing"), "nothing"),
    ],
)
def test_a_wrong_command_line_ends_with_2(project: Project, words: tuple[str, ...], said: str) -> None:
    completed = project.run(*words)
    assert completed.returncode == 2
    assert said in completed.stderr
    assert "Traceback" not in completed.stderr


@pytest.mark.parametrize("words", [("render", "--help"), ("render", "-h"), ("--help", "render"), ("config", "--help")])
def test_help_of_a_task(project: Project, words: tuple[str, ...]) -> None:
    completed = project.run(*words)
    assert completed.returncode == 0, completed.stderr
    assert "Options:" in completed.stdout
    assert ("Folder for the files" in completed.stdout) == ("render" in words), "options come with their texts"


def test_invoke_and_ipuenv_share_one_namespace(project: Project) -> None:
    ours = project.run("--list").stdout
    invoke = subprocess.run(
        [sys.executable, "-m", "invoke", "--list"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    tasks = [line.split()[0] for line in ours.splitlines() if line.startswith("  ")]
    assert {"flamegraph", "render", "config"} <= set(tasks)
    assert tasks == [line.split()[0] for line in invoke.splitlines() if line.startswith("  ")]


def test_config_shows_who_set_what(project: Project, tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "profiles").mkdir(parents=True)
    (root / ".env").write_text("IPUENV_SDK=/from/dotenv\nIPUENV_PROFILE=from-dotenv\n")
    (root / "pyproject.toml").write_text('[tool.ipuenv]\nworkspace = "ws"\nprofile = "from-pyproject"\n')
    env = project.environment(IPUENV_PROFILE="from-variable")
    completed = project.run("config", "--json", "--device-lock", "/from/option", env=env, cwd=root)
    settings = json.loads(completed.stdout)["settings"]
    assert {name: (setting["value"], setting["origin"]) for name, setting in settings.items()} == {
        "workspace": (str(root / "ws"), "pyproject.toml [tool.ipuenv] workspace"),
        "sdk": ("/from/dotenv", ".env:1"),
        "artifacts": (str(project.artifacts), "IPUENV_ARTIFACTS"),
        "profile": ("from-variable", "IPUENV_PROFILE"),
        "device-lock": ("/from/option", "--device-lock"),
    }
    shown = project.run("config", env=env, cwd=root).stdout
    assert "/from/dotenv" in shown
    assert ".env:1" in shown


def test_version(project: Project) -> None:
    assert project.run("--version").stdout.startswith("ipuenv 0.")
