"""Stacks kept as pprof and written for other tools, and cuts, by the command line."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ipuenv.engine.pprof_reader import read_pprof
from tests.conftest import Project

PICTURES = ("small.svg", "small-functions.svg", "small-work.svg")


def manifest_of(project: Project) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((project.latest / "manifest.json").read_text())
    return loaded


def rendered(project: Project, *words: str | Path, folder: Path) -> list[Path]:
    completed = project.run("render", *words, "-o", folder)
    assert completed.returncode == 0, completed.stderr
    return [Path(line) for line in completed.stdout.splitlines()]


def total_of(svg: Path) -> int:
    found = re.search(r'total_samples="(\d+)"', svg.read_text())
    assert found is not None
    return int(found[1])


@pytest.fixture(scope="module")
def variant(recorded_run: Project) -> Path:
    return recorded_run.latest / "16threads"


@pytest.fixture
def copied(recorded_run: Project, tmp_path: Path) -> Project:
    """The run in artifacts of its own, to be damaged."""
    artifacts = tmp_path / "artifacts"
    shutil.copytree(recorded_run.artifacts, artifacts, symlinks=True)
    return Project(root=recorded_run.root, artifacts=artifacts)


def test_a_run_keeps_its_stacks_and_says_so(recorded_run: Project, variant: Path) -> None:
    manifest = manifest_of(recorded_run)
    recorded = manifest["variants"][0]["recording"]
    assert "small.pb.gz" in {file["path"] for file in manifest["variants"][0]["files"]}
    read = read_pprof((variant / "small.pb.gz").read_bytes())
    assert read.stacks.total == recorded["samples"]
    assert read.about.comments[1:] == (
        "title: SigLIP attention compiler, small",
        "notes: batch 1; 16 Rayon workers",
        f"run {manifest['run_id']}, variant 16threads",
        f"event {recorded['events_used'][0]}",
    )
    started_at = datetime.fromisoformat(manifest["started_at"])
    assert read.about.time_ns // 1000 == round(started_at.timestamp() * 1_000_000)
    build_ids = {location.build_id for location in read.stacks.table.locations}
    assert manifest["variants"][0]["executable"]["build_id"] in build_ids


def test_the_kept_stacks_are_made_again_byte_for_byte(recorded_run: Project, variant: Path, tmp_path: Path) -> None:
    assert rendered(recorded_run, "latest", "--format", "pprof", folder=tmp_path) == [tmp_path / "small.pb.gz"]
    assert (tmp_path / "small.pb.gz").read_bytes() == (variant / "small.pb.gz").read_bytes()


def test_a_run_without_its_recording_is_drawn_byte_for_byte(copied: Project, tmp_path: Path) -> None:
    (copied.latest / "16threads" / "perf.data").unlink()
    completed = copied.run("render", "latest", "-o", tmp_path / "out")
    assert completed.returncode == 0, completed.stderr
    assert "is gone: drawn from 'small.pb.gz'" in completed.stderr
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(PICTURES)
    for name in PICTURES:
        assert (tmp_path / "out" / name).read_bytes() == (copied.latest / "16threads" / name).read_bytes()
    refused = copied.run("render", "latest", "--time", "0..1", "-o", tmp_path / "refused")
    assert refused.returncode == 2
    assert "--time needs to know when each sample was taken" in refused.stderr


def test_pictures_from_pprof_are_those_from_the_recording(recorded_run: Project, variant: Path, tmp_path: Path) -> None:
    shutil.copy(variant / "perf.data", tmp_path / "mine.data")
    (made,) = rendered(recorded_run, tmp_path / "mine.data", "--format", "pprof", folder=tmp_path)
    assert made.name == "mine.pb.gz"
    rendered(recorded_run, tmp_path / "mine.data", folder=tmp_path / "recording")
    drawn = rendered(recorded_run, made, folder=tmp_path / "pprof")
    assert [path.name for path in drawn] == ["mine.svg", "mine-functions.svg"]
    for path in drawn:
        assert path.read_bytes() == (tmp_path / "recording" / path.name).read_bytes()


def test_speedscope_holds_every_thread(recorded_run: Project, tmp_path: Path) -> None:
    (made,) = rendered(recorded_run, "latest", "--format", "speedscope", folder=tmp_path)
    document = json.loads(made.read_text())
    assert made.name == "small.speedscope.json"
    assert document["name"] == "SigLIP attention compiler, small"
    assert len(document["profiles"]) > 10
    stacks = read_pprof((recorded_run.latest / "16threads" / "small.pb.gz").read_bytes()).stacks
    assert sum(profile["endValue"] for profile in document["profiles"]) == sum(stacks.periods)


def test_cuts_are_drawn_and_said(recorded_run: Project, variant: Path, tmp_path: Path) -> None:
    stacks = read_pprof((variant / "small.pb.gz").read_bytes()).stacks
    tid = int(stacks.tids[0])
    rendered(recorded_run, "latest", "--thread", str(tid), "--view", "full", folder=tmp_path / "thread")
    assert total_of(tmp_path / "thread" / "small.svg") == int(stacks.row_samples[stacks.tids == tid].sum())
    assert f"batch 1; 16 Rayon workers; only thread {tid}</text>" in (tmp_path / "thread" / "small.svg").read_text()
    halves = [rendered(recorded_run, "latest", "--time", span, folder=tmp_path / span) for span in ("..0.1", "0.1..")]
    assert sum(total_of(drawn[0]) for drawn in halves) == stacks.total
    assert min(total_of(drawn[0]) for drawn in halves) > 0


@pytest.mark.parametrize(
    ("words", "said", "expected"),
    [
        (("--thread", "nobody"), "there is no thread 'nobody'", "a thread's name or id: ipu-trivial-tes ("),
        (("--time", "2..1"), "'2..1' is no range of time", "A..B in seconds"),
        (
            ("--time", "9999.."),
            "no sample was taken in the part from 9999 s to the end",
            "from the first sample to the last",
        ),
        (("--format", "pprof", "--view", "full"), "--view full was given with --format pprof", "svg or folded alone"),
    ],
)
def test_what_cannot_be_cut_or_written(
    recorded_run: Project, tmp_path: Path, words: tuple[str, ...], said: str, expected: str
) -> None:
    completed = recorded_run.run("render", "latest", *words, "-o", tmp_path)
    assert completed.returncode == 2
    for part in (said, expected, "next: "):
        assert part in completed.stderr
    assert not list(tmp_path.iterdir())


def test_a_file_is_not_overwritten_by_what_is_made_of_it(recorded_run: Project, variant: Path, tmp_path: Path) -> None:
    shutil.copy(variant / "small.pb.gz", tmp_path / "small.pb.gz")
    before = (tmp_path / "small.pb.gz").read_bytes()
    completed = recorded_run.run("render", tmp_path / "small.pb.gz", "--format", "pprof", "-o", tmp_path)
    assert completed.returncode == 2
    assert "is what is read, and would be overwritten" in completed.stderr
    assert (tmp_path / "small.pb.gz").read_bytes() == before


def test_a_damaged_pprof_is_named(recorded_run: Project, variant: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.pb.gz").write_bytes((variant / "small.pb.gz").read_bytes()[:500])
    completed = recorded_run.run("render", tmp_path / "cut.pb.gz", "-o", tmp_path / "out")
    assert completed.returncode == 2
    assert "cut.pb.gz' is no pprof file, or a damaged one: it is cut off" in completed.stderr
    assert "Traceback" not in completed.stderr
