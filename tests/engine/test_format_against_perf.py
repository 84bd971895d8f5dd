"""Every form of recording that perf makes here, read by us and by ``perf script``: sample by sample, frame by frame.

The subject forks and replaces itself by another program in the middle of each recording.
"""

from __future__ import annotations

import os
import platform
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ipuenv.engine import perfdata, recording
from ipuenv.engine.perfdata import Comm, Fork, Mmap
from tests.engine.conftest import compile_program, tool
from tests.engine.mutations import RECORDINGS
from tests.engine.perf_script import compare_functions, perf_samples
from tests.engine.swapped import swap

BOTH = "cpu-clock,page-faults"
UNCHAINED = "cpu-clock/call-graph=no/,page-faults/call-graph=fp/"

FORMS: dict[str, tuple[str, ...]] = {
    "plain": ("-F", "1999", "-g"),
    "two events": ("-F", "1999", "-g", "-e", BOTH),
    "a group": ("-F", "1999", "-g", "-e", f"{{{BOTH}}}"),
    "an event without chains": ("-F", "1999", "-e", UNCHAINED),
    "a fixed period": ("-c", "500000", "-g", "-e", "cpu-clock"),
    "context switches": ("-c", "1", "-g", "-e", "context-switches"),
    "a tracepoint": ("-c", "1", "-g", "-e", "sched:sched_switch"),
    "no time": ("-F", "1999", "-g", "--no-timestamp"),
    "each thread's own buffer": ("-F", "1999", "-g", "--per-thread"),
    "processors": ("-F", "1999", "-g", "--sample-cpu"),
    "addresses and maps of data": ("-F", "1999", "-g", "-d"),
    "registers": ("-F", "1999", "-g", "--user-regs=ip,sp", "--intr-regs=ip,sp"),
    "control groups and namespaces": ("-F", "1999", "-g", "--all-cgroups", "--namespaces"),
    "switches": ("-F", "1999", "-g", "--switch-events"),
    "compressed": ("-F", "1999", "-g", "-z"),
    "compressed with build-ids": ("-F", "1999", "-g", "-z22", "--buildid-mmap"),
    "a pipe": ("-F", "1999", "-g", "-o", "-"),
    "a compressed pipe": ("-F", "1999", "-g", "-z", "-o", "-"),
    "a pipe with two events": ("-F", "1999", "-g", "-e", BOTH, "-o", "-"),
    "a pipe with tracing data": ("-c", "1", "-g", "-e", "sched:sched_switch", "-o", "-"),
}

Recorder = Callable[..., Path]


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("forks.cpp", tmp_path_factory.mktemp("programs") / "forks")


@pytest.fixture(scope="module")
def recorded(forks: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Records the subject in one of :data:`FORMS`, once each."""
    folder = tmp_path_factory.mktemp("forms")

    def record(form: str) -> Path:
        path = folder / f"{form.replace(' ', '-')}.perf.data"
        if not path.exists():
            run_perf(path, *FORMS[form], program=(forks,))
        return path

    return record


def run_perf(path: Path, *options: str, program: tuple[str | Path, ...]) -> Path:
    """Record a program; with ``-o -`` into a pipe."""
    to_pipe = "-" in options
    target = () if to_pipe else ("-o", path)
    command = [tool("perf", "linux-perf"), "record", "-q", "-N", *options, *target, "--", *program]
    written = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    if to_pipe:
        path.write_bytes(written)
    return path


def needs_tracepoints(form: str) -> None:
    if "sched:sched_switch" in FORMS[form] and not os.access("/sys/kernel/tracing/events/sched", os.R_OK):
        pytest.skip("tracepoints can be read by root only")


@pytest.mark.parametrize("form", FORMS)
def test_functions_equal_perf_script(recorded: Recorder, form: str) -> None:
    needs_tracepoints(form)
    found = recording.read(recorded(form))
    theirs = perf_samples(recorded(form), has_time=found.data.has_time)
    counts = compare_functions(found, theirs)
    assert counts["same"] > 20 * counts["alias"]
    assert not found.data.is_partial
    events = np.array([event.name for event in found.data.events])
    assert events[found.data.samples.event].tolist() == [sample.event for sample in theirs]


def test_all_parts_of_the_subject_are_found(recorded: Recorder) -> None:
    found = recording.read(recorded("plain"))
    names = {frame.name.split("(")[0] for frame in found.stacks.table.frames}
    assert {"forks", "exe", "before_exec", "in_child", "in_parent", "after_exec"} <= names
    kinds = {type(task) for task in found.data.tasks}
    assert kinds == {Comm, Fork, Mmap}


def test_the_leader_of_a_group_samples_for_all(forks: Path, tmp_path: Path) -> None:
    """perf prints a sample once for every member of the group; it was taken once."""
    path = run_perf(tmp_path / "leader.data", "-F", "1999", "-g", "-e", f"{{{BOTH}}}:S", program=(forks,))
    theirs = [sample for sample in perf_samples(path) if sample.event == "cpu-clock"]
    assert compare_functions(recording.read(path), theirs)["same"] > 0


def test_events_without_chains_are_told(recorded: Recorder) -> None:
    data = perfdata.read(recorded("an event without chains").read_bytes())
    assert data.unchained["cpu-clock/call-graph=no/"] > 10
    assert len(data.samples) > 0


def test_pipes_tell_their_origin(recorded: Recorder) -> None:
    ours, theirs = (perfdata.read(recorded(form).read_bytes()).features for form in ("a pipe", "plain"))
    assert (ours.hostname, ours.os_release, ours.arch) == (theirs.hostname, theirs.os_release, theirs.arch)
    assert ours.cmdline[-2:] == theirs.cmdline[-2:]


def test_build_ids_that_perf_injects_into_a_pipe(recorded: Recorder, forks: Path, tmp_path: Path) -> None:
    injected = tmp_path / "injected.data"
    with recorded("a pipe").open("rb") as pipe, injected.open("wb") as out:
        subprocess.run(["perf", "inject", "-b"], stdin=pipe, stdout=out, check=True)
    plain, found = perfdata.read(recorded("plain").read_bytes()), recording.read(injected)
    assert found.data.features.build_ids[str(forks)] == plain.features.build_ids[str(forks)]
    assert compare_functions(found, perf_samples(injected))["same"] > 0


@pytest.mark.parametrize("form", ["plain", "two events", "a group", "each thread's own buffer", "processors"])
def test_the_other_byte_order_reads_the_same(recorded: Recorder, form: str, tmp_path: Path) -> None:
    original = recorded(form)
    turned = tmp_path / "turned.data"
    turned.write_bytes(swap(original.read_bytes()))
    found = recording.read(turned)
    theirs = perf_samples(turned, has_time=found.data.has_time)
    assert theirs == perf_samples(original, has_time=found.data.has_time), "perf must read what the swapper wrote"
    assert compare_functions(found, theirs)["same"] > 0
    same = perfdata.read(original.read_bytes())
    assert (found.data.events, found.data.features, found.data.lost) == (same.events, same.features, same.lost)
    for column in ("pid", "tid", "ip", "period", "event", "is_kernel", "chain_length"):
        assert np.array_equal(getattr(found.data.samples, column), getattr(same.samples, column)), column


def test_many_threads(tmp_path: Path) -> None:
    program = compile_program("threads.rs", tmp_path / "threads")
    path = run_perf(tmp_path / "threads.data", "-F", "999", "-g", program=(program, "64", "1500"))
    found = recording.read(path)
    counts = compare_functions(found, perf_samples(path))
    assert counts["same"] > 1000
    names = {sample.comm for sample in perf_samples(path)}
    assert len(names) > 50


def test_losses_are_counted_as_perf_counts_them(tmp_path: Path) -> None:
    """A buffer of one page loses samples, whole threads' names among them; whatever is left is still told apart."""
    program = compile_program("threads.rs", tmp_path / "threads")
    fastest = Path("/proc/sys/kernel/perf_event_max_sample_rate").read_text().strip()
    options = ("-m", "1", "-F", str(min(int(fastest), 20_000)), "-g")
    path = run_perf(tmp_path / "lost.data", *options, program=(program, "32", "300"))
    found = recording.read(path)
    report = subprocess.run(
        ["perf", "report", "--stats", "-i", path], check=True, capture_output=True, text=True
    ).stdout
    lost = sum(int(line.split()[-1]) for line in report.splitlines()[-3:] if "LOST_SAMPLES events" in line)
    assert found.data.lost == lost
    compare_functions(found, perf_samples(path))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the program brings machine code")
def test_code_that_exists_only_in_memory_is_passed_through(tmp_path: Path) -> None:
    program = compile_program("anonymous.cpp", tmp_path / "anonymous")
    path = run_perf(tmp_path / "anonymous.data", "-F", "1999", "-g", program=(program,))
    found = recording.read(path)
    assert compare_functions(found, perf_samples(path))["same"] > 0
    spaces = {task.length for task in found.data.tasks if isinstance(task, Mmap) and task.path == "//anon"}
    assert len(spaces) > 3, "ranges must cover each other for this to prove anything"


def test_a_recording_whose_perf_was_killed_reads_as_perf_would_read_it(tmp_path: Path) -> None:
    """perf reads nothing from a file without the size of its records; put in, it reads what we read without."""
    killed = (RECORDINGS / "killed.perf.data").read_bytes()
    data_at, size = struct.unpack_from("<QQ", killed, 40)
    assert size == 0
    mended = bytearray(killed)
    struct.pack_into("<Q", mended, 48, len(killed) - data_at)
    struct.pack_into("<4Q", mended, 72, 0, 0, 0, 0)
    path = tmp_path / "mended.data"
    path.write_bytes(mended)
    ours = recording.read(RECORDINGS / "killed.perf.data")
    assert ours.data.is_partial
    assert len(ours.data.samples) == len(perf_samples(path)) > 100
    assert recording.read(path).stacks.samples == ours.stacks.samples
