"""The main job on the bundled workspace, by the command line: what it says, what it stores."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from ipuenv.engine import recording
from ipuenv.engine.stacks import Frame, FrameKind
from ipuenv.engine.views import Elision
from tests.conftest import Project
from tests.engine.perf_script import compare_functions, perf_samples
from tests.engine.test_against_perf import addr2line_chains, our_chains, sampled_vaddrs

SVG = "{http://www.w3.org/2000/svg}"
KIND = "{http://github.com/jonhoo/inferno}kind"


def frames_of(svg: Path) -> list[tuple[str, str]]:
    """Name and kind of every drawn frame."""
    root = ET.parse(svg).getroot()
    groups = [group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None]
    return [
        (re.sub(r" \([\d,]+ samples, [^)]*\)$", "", group.findtext(f"{SVG}title") or ""), group.get(KIND) or "")
        for group in groups
    ]


def total_of(svg: Path) -> int:
    totals = [node.get("total_samples") for node in ET.parse(svg).getroot().iter(f"{SVG}svg")]
    return int(next(total for total in totals if total is not None))


def manifest_of(run: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run / "manifest.json").read_text())
    return loaded


@pytest.fixture(scope="module")
def variant(recorded_run: Project) -> Path:
    return recorded_run.latest / "16threads"


def test_views_of_one_recording(variant: Path) -> None:
    full, functions, work = (variant / f"small{suffix}.svg" for suffix in ("", "-functions", "-work"))
    assert "inlined" in {kind for _, kind in frames_of(full)}
    assert "inlined" not in {kind for _, kind in frames_of(functions)}
    elision = Elision(["rayon::*", "rayon_core::*", "crossbeam_*"])
    elided = [
        name
        for name, kind in frames_of(work)
        if kind != "comm" and elision.matches(Frame(name, FrameKind.NATIVE, name, ""))
    ]
    assert not elided
    assert total_of(full) == total_of(functions) == total_of(work) > 100


def test_functions_of_the_run_equal_perf_script(variant: Path) -> None:
    read = recording.read(variant / "perf.data", stored=[variant / "ipu-trivial-test"])
    counts = compare_functions(read, perf_samples(variant / "perf.data"))
    assert counts["before"] + counts["alias"] < counts["same"] / 50


def test_inline_chains_of_200_sampled_addresses_equal_addr2line(variant: Path) -> None:
    manifest = manifest_of(variant)
    executable = Path(manifest["executable"]["path"])
    vaddrs = sampled_vaddrs(executable, variant / "perf.data")
    chosen = vaddrs[:: max(len(vaddrs) // 200, 1)][:200]
    assert len(chosen) == 200
    assert our_chains(executable, chosen) == addr2line_chains(executable, chosen)


def test_the_run_folder_is_what_the_manifest_says(recorded_run: Project) -> None:
    run = recorded_run.latest
    entries = {f"{v['id']}/{f['path']}": f for v in manifest_of(run)["variants"] for f in v["files"]}
    names = {Path(name).name for name in entries}
    assert {
        "small.svg",
        "small-functions.svg",
        "small-work.svg",
        "perf.data",
        "kallsyms.zst",
        "ipu-trivial-test",
        "run.log",
        "model.ipuexe",
    } <= names
    summed = subprocess.run(
        ["sha256sum", *entries], cwd=run, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for line in summed:
        digest, name = line.split(maxsplit=1)
        assert entries[name]["sha256"] == digest
        assert entries[name]["size_bytes"] == (run / name).stat().st_size


def test_the_program_ran_from_its_stored_executable(recorded_run: Project, variant: Path) -> None:
    manifest = manifest_of(variant)
    blob = Path(manifest["executable"]["path"])
    assert blob.is_relative_to(recorded_run.artifacts / ".blobs" / "sha256")
    assert hashlib.sha256(blob.read_bytes()).hexdigest() == manifest["executable"]["sha256"]
    assert blob.stat().st_mode & 0o777 == 0o555
    assert blob.samefile(variant / "ipu-trivial-test")
    mapped = subprocess.run(
        ["perf", "script", "-i", variant / "perf.data", "--show-mmap-events"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert str(blob) in mapped


def test_the_programs_own_figures(variant: Path) -> None:
    execution = manifest_of(variant)["executions"][0]
    assert execution["exit_code"] == 0
    assert 0 < execution["wall_s"] < 60
    assert execution["user_s"] > 0.05
    assert 8_000_000 < execution["peak_rss_bytes"] < 2_000_000_000


def test_the_event_and_the_quality_are_written_down(variant: Path) -> None:
    recorded = manifest_of(variant)["recording"]
    listed = subprocess.run(["perf", "evlist", "-i", variant / "perf.data"], check=True, capture_output=True, text=True)
    assert set(recorded["events_used"]) <= set(listed.stdout.split())
    assert recorded["samples"] > 100
    assert recorded["quality"] in ("good", "usable")


def test_the_device_was_not_taken_and_the_log_says_so(variant: Path) -> None:
    manifest = manifest_of(variant)
    assert manifest["device"]["touched"] == "no"
    log = (variant / "run.log").read_text()
    assert "hardware ownership" not in log
    assert "\x1b" not in log
    assert log.count("package build phase finished") == len(manifest["phases"]) > 5


def test_packages_are_equal_over_threads_and_builds(project: Project) -> None:
    hashes = {}
    for variant in ("16threads", "1threads", "16threads-release"):
        completed = project.run("flamegraph", "--variant", variant, "--json")
        assert completed.returncode == 0, completed.stderr
        answer = json.loads(completed.stdout)
        package = Path(answer["variants"][0]["path"]) / "model.ipuexe"
        hashes[variant] = hashlib.sha256(package.read_bytes()).hexdigest()
        output = manifest_of(Path(answer["path"]))["variants"][0]["output"]
        assert output["sha256"] == hashes[variant]
        assert output["baseline"]["verdict"] == "no baseline"
    assert len(set(hashes.values())) == 1
    assert output["others"]["verdict"] == "identical"
    assert len(output["others"]["against"]) == 2


def test_another_batch_is_not_compared(project: Project) -> None:
    for variant in ("16threads", "16threads-batch2"):
        completed = project.run("flamegraph", "--variant", variant, "--json")
        assert completed.returncode == 0, completed.stderr
    output = manifest_of(Path(json.loads(completed.stdout)["path"]))["variants"][0]["output"]
    assert output["others"]["verdict"] == "no baseline"


def test_a_pinned_baseline_is_compared(project: Project, recorded_run: Project) -> None:
    assert project.run("flamegraph").returncode == 0
    (project.collection / "baseline").symlink_to(project.latest.name)
    completed = project.run("flamegraph")
    assert completed.returncode == 0, completed.stderr
    assert f"identical to the baseline {(project.collection / 'baseline').readlink()}" in completed.stdout


def test_what_is_shown(project: Project) -> None:
    completed = project.run("flamegraph", "--label", "first")
    assert completed.returncode == 0, completed.stderr
    told, answered = completed.stderr, completed.stdout
    assert "the bundled workspace, a stand-in" in told
    assert "the bundled stand-in, not Graphcore's SDK" in told
    assert re.search(r"recording 16threads at 1999 Hz: program exit 0 after [\d.]+ m?s \([\d.]+ s\)", told)
    assert project.latest.name.endswith("-first")
    for name in ("small.svg", "small-functions.svg", "small-work.svg", "perf.data", "run.log", "README.md"):
        assert name in answered
    hot = answered.split("hottest functions")[1].split("\n\n")[0].strip().splitlines()
    assert len(hot) == 10
    assert re.search(r"samples +[\d,]+ of \S+ at 1999 Hz", answered)
    assert re.search(r"quality +(good|usable)", answered)
    assert re.search(r"parallelism +[\d.]+ threads busy on average", answered)
    assert "no baseline is pinned" in answered


def test_json_stands_alone_on_stdout(project: Project) -> None:
    completed = project.run("flamegraph", "--json")
    assert json.loads(completed.stdout)["variants"][0]["status"] == "pass"
    assert "hottest functions" in completed.stderr
