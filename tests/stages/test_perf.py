"""Recordings, against plain ``perf record``, ``perf script`` and ``perf evlist``; and every way to fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

import ipuenv
from ipuenv.ground.errors import FailedError, MissingError, UsageError
from ipuenv.stages import perf
from ipuenv.stages.perf import Recording, RecordOptions, record

ENV = {"PATH": os.environ["PATH"], "OF_THE_PROGRAM": "1"}
PERF_ENV = {"PATH": os.environ["PATH"], "OF_PERF": "1"}
FAST = 997

# A process of its own that records. DENY makes the kernel answer perf_event_open with that errno.
DRIVER = """
import ctypes, dataclasses, errno, json, os, resource, struct, sys
from pathlib import Path
from ipuenv.ground.errors import IpuenvError
from ipuenv.stages.perf import RecordOptions, record

order = json.loads(sys.argv[1])
if order["deny"]:
    NUMBER = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
    PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
    LOAD, JUMP_IF_EQUAL, RETURN, RET_ERRNO, RET_ALLOW = 0x20, 0x15, 0x06, 0x00050000, 0x7FFF0000
    code = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, NUMBER),
            (RETURN, 0, 0, RET_ERRNO | getattr(errno, order["deny"])), (RETURN, 0, 0, RET_ALLOW)]
    packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    program = Program(len(code), ctypes.addressof(packed))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0
if order["memlock"] is not None:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (order["memlock"], order["memlock"]))
folder = Path(order["folder"])
try:
    recording = record(
        order["argv"], env={"PATH": os.environ["PATH"]}, cwd=Path("/"), log=Path(order["log"]),
        perf_data=folder / "perf.data", perf_env={"PATH": os.environ["PATH"]},
        options=RecordOptions(**order["options"]),
    )
    answer = {"execution": dataclasses.asdict(recording.execution)}
except IpuenvError as error:
    answer = {"error": type(error).__name__, "what": error.what, "expected": error.expected, "hint": error.hint,
              "tail": error.tail}
print(json.dumps(answer | {"left": sorted(os.listdir(folder))}))
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled ``burn.rs``."""
    built = tmp_path_factory.mktemp("program") / "burner"
    flags = ["--edition=2021", "-O", "-g", "-C", "force-frame-pointers=yes", "-o", str(built)]
    subprocess.run(["rustc", *flags, str(Path(__file__).parents[1] / "programs/burn.rs")], check=True)
    return built


def make(tmp_path: Path, *argv: str, **changes: Any) -> Recording:
    """Record ``argv`` in ``tmp_path``."""
    settings: dict[str, Any] = {
        "env": ENV,
        "cwd": tmp_path,
        "log": tmp_path / "log",
        "perf_data": tmp_path / "perf.data",
        "perf_env": PERF_ENV,
    }
    return record(argv, **{**settings, **changes})


def perf_tool(*argv: str) -> str:
    return subprocess.run(["perf", *argv], check=True, capture_output=True, text=True).stdout


def samples(data: Path) -> list[tuple[str, int, str]]:
    """Command, thread and topmost symbol of each sample, as ``perf script`` sees them."""
    found = []
    for block in perf_tool("script", "-i", str(data), "-F", "comm,tid,ip,sym").strip().split("\n\n"):
        head, *frames = block.splitlines() or [""]
        match = re.fullmatch(r"\s*(.+?)\s+(\d+)\s*", head)
        if match is not None:
            found.append((match[1], int(match[2]), frames[0].split(maxsplit=1)[1] if frames else ""))
    return found


def drive(
    tmp_path: Path,
    *argv: str,
    deny: str | None = None,
    memlock: int | None = None,
    folder: Path | None = None,
    before: tuple[str, ...] = (),
    **options: Any,
) -> subprocess.Popen[str]:
    """A process of its own that records ``argv`` into an own folder and prints how it went."""
    if folder is None:
        folder = tmp_path / "recording"
        folder.mkdir()
    order = {"argv": argv, "deny": deny, "memlock": memlock, "folder": str(folder), "log": str(tmp_path / "log")}
    return subprocess.Popen(
        [*before, sys.executable, "-c", DRIVER, json.dumps({**order, "options": options})],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(ipuenv.__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )


def answer(driver: subprocess.Popen[str]) -> dict[str, Any]:
    """What the driver printed, which must be all that came to its stdout."""
    out, _ = driver.communicate(timeout=60)
    (line,) = out.splitlines()
    return dict(json.loads(line))


def said(tmp_path: Path) -> str:
    return (tmp_path / "log").read_text(encoding="utf-8")


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def perf_of(data: Path) -> int:
    """The pid of the perf that is writing ``data``."""
    wanted = os.fsencode(data.with_name(data.name + ".partial"))
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in words and b"record" in words:
            return int(folder.name)
    raise AssertionError(f"no perf writes {data}")


def fake_perf(folder: Path, script: str) -> dict[str, str]:
    """An environment in which ``perf`` is a script."""
    folder.mkdir()
    (folder / "perf").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / "perf").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


# -- what is recorded -----------------------------------------------------------------------------------------------


def test_samples_of_all_threads_agree_with_plain_perf(tmp_path: Path, program: Path) -> None:
    argv = [str(program), "burn", "0.15", "16"]
    recording = make(tmp_path, *argv, options=RecordOptions(frequency=FAST))
    ours = samples(recording.perf_data)
    plain = tmp_path / "plain.data"
    perf_tool("record", "-F", str(FAST), "-g", "-o", str(plain), "--", *argv)
    assert len(ours) == pytest.approx(len(samples(plain)), rel=0.05)
    ran = recording.execution
    assert len(ours) == pytest.approx(FAST * (ran.user_s + ran.system_s), rel=0.08)
    by_thread = Counter(tid for _, tid, symbol in ours if "burn_here" in symbol)
    assert len(by_thread) == 16
    assert min(by_thread.values()) > 0.8 * FAST * 0.15
    assert sum(by_thread.values()) > 0.9 * len(ours)


def test_samples_carry_the_programs_name_and_symbols(tmp_path: Path, program: Path) -> None:
    recording = make(tmp_path, str(program), "burn", "0.5", "1", options=RecordOptions(frequency=FAST))
    found = samples(recording.perf_data)
    names = Counter(comm for comm, _, _ in found)
    assert names["burner"] >= len(found) - 1  # the fork's own exec may be sampled once
    chains = perf_tool("script", "-i", str(recording.perf_data), "-F", "comm,ip,sym")
    assert chains.count("clone") + chains.count("start_thread") > 0.9 * len(found)


def test_forked_children_are_recorded(tmp_path: Path, program: Path) -> None:
    recording = make(tmp_path, str(program), "family", "0.3", options=RecordOptions(frequency=FAST))
    by_thread = Counter(tid for _, tid, symbol in samples(recording.perf_data) if "burn_here" in symbol)
    assert len(by_thread) == 2
    assert min(by_thread.values()) > 0.8 * FAST * 0.3


def test_figures_are_the_programs_and_not_perfs(tmp_path: Path, program: Path) -> None:
    recording = make(tmp_path, str(program), "touch", "80")
    kib = int(said(tmp_path).split()[1])
    assert kib * 1024 <= recording.execution.peak_rss_bytes <= kib * 1024 + 1_000_000
    assert recording.execution.exit_code == 0


def test_each_has_its_own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_NEITHER", "1")
    real = shutil.which("perf")
    seen = tmp_path / "environment"
    env = fake_perf(tmp_path / "bin", f'[ "$1" = record ] && cat /proc/self/environ > {seen}\nexec {real} "$@"')
    make(tmp_path, "/bin/cat", "/proc/self/environ", env={"ONLY": "this"}, perf_env=env)
    assert said(tmp_path) == "ONLY=this\0"
    theirs = dict(pair.split("=", 1) for pair in seen.read_text(encoding="utf-8").rstrip("\0").split("\0"))
    assert theirs.pop("PWD", None) is not None  # the script's shell sets it
    assert {name: theirs.get(name) for name in env} == env
    assert not {"ONLY", "OF_NEITHER"} & set(theirs)
    assert theirs["PERF_CONFIG"] == "/dev/null"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (RecordOptions(), r"sample_freq \}: 99,.*IP\|TID\|TIME\|CALLCHAIN"),
        (
            RecordOptions(frequency=197, call_graph="dwarf,4096"),
            r"sample_freq \}: 197,.*STACK_USER.*sample_stack_user: 4096",
        ),
        (RecordOptions(event="task-clock"), r"task-clock.*sample_freq \}: 99"),
        (RecordOptions(mmap_pages=16), r"sample_freq \}: 99"),
    ],
)
def test_options_reach_perf(tmp_path: Path, program: Path, options: RecordOptions, expected: str) -> None:
    recording = make(tmp_path, str(program), "burn", "0.05", "1", options=options)
    assert re.search(expected, perf_tool("evlist", "-v", "-i", str(recording.perf_data)))
    if options.mmap_pages is not None:
        assert recording.argv[recording.argv.index("-m") + 1] == "16"


def test_the_equivalent_command_records_the_same(tmp_path: Path, program: Path) -> None:
    recording = make(tmp_path, str(program), "burn", "0.3", "2", options=RecordOptions(frequency=FAST))
    by_hand = tmp_path / "by hand"
    by_hand.mkdir()
    assert recording.equivalent_argv == (
        *("perf", "record", "-F", str(FAST), "--call-graph", "fp", "-o", "perf.data", "--"),
        *(str(program), "burn", "0.3", "2"),
    )
    subprocess.run(recording.equivalent_argv, cwd=by_hand, check=True, capture_output=True)
    assert len(samples(recording.perf_data)) == pytest.approx(len(samples(by_hand / "perf.data")), rel=0.08)


def test_a_program_without_a_sample_is_no_error(tmp_path: Path) -> None:
    recording = make(tmp_path, "/bin/true")
    assert recording.execution.exit_code == 0
    assert samples(recording.perf_data) == []
    assert perf.is_whole(recording.perf_data)


def test_a_failing_program_is_recorded(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; kill -ABRT $$"
    recording = make(tmp_path, "/bin/sh", "-c", script, options=RecordOptions(frequency=FAST))
    assert recording.execution.exit_code == -signal.SIGABRT
    names = Counter(comm for comm, _, _ in samples(recording.perf_data))
    assert names["sh"] >= names.total() - 1 > 0


def test_on_started_is_told_the_pid_before_the_program_begins(tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []
    recording = make(tmp_path, "/bin/sh", "-c", "echo $$", on_started=lambda pid: seen.append((pid, said(tmp_path))))
    assert seen == [(int(said(tmp_path)), "")]
    assert seen[0][0] == recording.pid


def test_what_perf_said_and_which_it_was(tmp_path: Path) -> None:
    recording = make(tmp_path, "/bin/true")
    assert "Captured and wrote" in recording.perf_log
    assert recording.perf_version in perf_tool("--version")
    assert recording.perf_version == perf.version(PERF_ENV)
    assert recording.argv[1] == "record"
    assert said(tmp_path) == ""


def test_what_is_left_is_the_recording_alone(tmp_path: Path) -> None:
    before = open_descriptors()
    make(tmp_path, "/bin/true")
    assert left_in(tmp_path) == ["log", "perf.data"]
    assert open_descriptors() == before


def test_an_older_recording_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_text("old", encoding="utf-8")
    (tmp_path / "perf.data.partial").write_text("left over", encoding="utf-8")
    make(tmp_path, "/bin/true")
    assert perf.is_whole(tmp_path / "perf.data")
    assert left_in(tmp_path) == ["log", "perf.data"]


# -- endings --------------------------------------------------------------------------------------------------------


def test_ctrl_c_leaves_a_whole_recording(tmp_path: Path, program: Path) -> None:
    script = f"trap 'echo caught; exit 0' INT; echo up; {program} burn 60 1 & wait"
    with drive(tmp_path, "/bin/sh", "-c", script, frequency=FAST) as driver:
        wait_until(lambda: (tmp_path / "log").exists() and said(tmp_path) == "up\n")
        time.sleep(0.7)
        driver.send_signal(signal.SIGINT)
        told = answer(driver)
    assert told["left"] == ["perf.data"]
    assert told["execution"]["interrupted"]
    assert told["execution"]["exit_code"] == 0
    assert said(tmp_path) == "up\ncaught\n"
    burnt = [1 for comm, _, symbol in samples(tmp_path / "recording/perf.data") if "burn_here" in symbol]
    assert len(burnt) > 20


def test_timeout_leaves_a_whole_recording(tmp_path: Path, program: Path) -> None:
    argv = (str(program), "burn", "60", "1")
    recording = make(tmp_path, *argv, timeout_s=0.6, options=RecordOptions(frequency=FAST))
    assert recording.execution.timed_out
    assert recording.execution.exit_code == -signal.SIGTERM
    assert len(samples(recording.perf_data)) > 20


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_perf_that_ends_too_early_ends_the_program(tmp_path: Path, number: int) -> None:
    (tmp_path / "perf.data").write_text("of an earlier run", encoding="utf-8")
    timers: list[threading.Timer] = []

    def end_perf_soon(pid: int) -> None:
        timers.append(threading.Timer(0.3, os.kill, (perf_of(tmp_path / "perf.data"), number)))
        timers[0].start()

    with pytest.raises(FailedError, match="did not complete the recording"):
        make(tmp_path, "/bin/sh", "-c", "echo $$; sleep 60", on_started=end_perf_soon)
    timers[0].join()
    assert not Path(f"/proc/{int(said(tmp_path))}").exists()
    assert left_in(tmp_path) == ["log", "perf.data"]
    assert (tmp_path / "perf.data").read_text(encoding="utf-8") == "of an earlier run"


DEAF_PERF = """\
#!{python}
import os, shutil, signal, sys, time
if sys.argv[1] == "version":
    sys.exit(print("perf version 6.1"))
words = dict(zip(sys.argv, sys.argv[1:]))
control, ack = map(int, words["--control"].removeprefix("fd:").split(","))
def finish(*_):
    shutil.copy("{whole}", words["-o"])
    os._exit(0)
signal.signal(signal.SIGINT, finish if "{listens}" == "interrupt" else signal.SIG_IGN)
while order := os.read(control, 64):
    if order == b"enable\\n":
        os.write(ack, b"ack\\n")
    elif "{listens}" == "stop":
        finish()
time.sleep(60)
"""


def deaf_perf(folder: Path, whole: Path, listens: str) -> dict[str, str]:
    """An environment in which perf writes ``whole`` when it is told to end, and listens to little else."""
    env = fake_perf(folder, "")
    text = DEAF_PERF.format(python=sys.executable, whole=whole, listens=listens)
    (folder / "perf").write_text(text, encoding="utf-8")
    return env


@pytest.mark.parametrize("listens", ["stop", "interrupt", "nothing"])
def test_a_perf_that_does_not_end_by_itself_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listens: str
) -> None:
    monkeypatch.setattr(perf, "NUDGES_S", (0.3, 0.6, 0.6))
    whole = make(tmp_path, "/bin/true").perf_data.rename(tmp_path / "whole.data")
    env = deaf_perf(tmp_path / "bin", whole, listens)
    if listens == "nothing":
        with pytest.raises(FailedError, match="killed by SIGKILL"):
            make(tmp_path, "/bin/true", perf_env=env)
        assert not (tmp_path / "perf.data").exists()
    else:
        recording = make(tmp_path, "/bin/true", perf_env=env)
        assert recording.perf_data.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "perf.data.partial").exists()


# -- failures -------------------------------------------------------------------------------------------------------


def paranoid() -> str:
    return Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii").strip()


@pytest.mark.parametrize("denial", ["EPERM", "EACCES"])
def test_not_permitted(tmp_path: Path, denial: str) -> None:
    marker = tmp_path / "ran"
    with drive(tmp_path, "/usr/bin/touch", str(marker), deny=denial) as driver:
        told = answer(driver)
    assert told["error"] == "MissingError"
    assert f"perf_event_paranoid is {paranoid()}" in told["what"]
    if int(paranoid()) > 1:
        assert "sudo sysctl kernel.perf_event_paranoid=1" in told["hint"]
    assert "seccomp=unconfined" in told["hint"]
    assert told["left"] == []
    assert not marker.exists()


@pytest.mark.parametrize(
    ("errno", "error", "what"),
    [
        ("ENOENT", "MissingError", "this machine cannot record the event"),
        ("ENOSYS", "MissingError", "this kernel has no perf events"),
        ("EMFILE", "MissingError", "open files"),
        ("EBUSY", "FailedError", "did not complete the recording"),
    ],
)
def test_refusals_of_the_kernel(tmp_path: Path, errno: str, error: str, what: str) -> None:
    with drive(tmp_path, "/bin/true", deny=errno) as driver:
        told = answer(driver)
    assert told["error"] == error
    assert what in told["what"]
    assert told["left"] == []


def test_memory_that_may_not_be_locked(tmp_path: Path) -> None:
    before = ("setpriv", "--bounding-set", "-ipc_lock") if os.geteuid() == 0 else ()
    with drive(tmp_path, "/bin/true", memlock=65536, before=before, mmap_pages=65536) as driver:
        told = answer(driver)
    assert told["error"] == "MissingError"
    assert "kernel.perf_event_mlock_kb is " in told["what"]
    assert "sudo sysctl kernel.perf_event_mlock_kb" in told["hint"]
    assert told["left"] == []


def test_unknown_event(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no-such-event") as caught:
        make(tmp_path, "/bin/true", options=RecordOptions(event="no-such-event"))
    assert "perf list" in caught.value.hint
    assert left_in(tmp_path) == ["log"]


def test_full_disk(tmp_path: Path, program: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    as_user = () if os.geteuid() == 0 else ("-r",)
    mount = f'mount -t tmpfs -o size=256k none "{folder}" && exec "$@"'
    began_s = time.monotonic()
    with drive(
        tmp_path,
        *(str(program), "burn", "30", "1"),
        folder=folder,
        before=("unshare", *as_user, "-m", "sh", "-c", mount, "sh"),
        frequency=FAST,
        call_graph="dwarf,16384",
    ) as driver:
        told = answer(driver)
    assert told["error"] == "FailedError"
    assert f"no room was left in '{folder}'" in told["what"]
    assert "df -h" in told["hint"]
    assert told["left"] == []
    assert time.monotonic() - began_s < 15


def test_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match="could not create its file"):
        make(tmp_path, "/bin/true", perf_data=tmp_path / "nowhere/perf.data")


def test_missing_perf(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with pytest.raises(MissingError, match="'perf' was not found") as caught:
        make(tmp_path, "/usr/bin/touch", str(marker), perf_env={"PATH": str(tmp_path)})
    assert "apt-get install" in caught.value.hint
    assert not marker.exists()


def test_perf_that_is_too_old(tmp_path: Path) -> None:
    env = fake_perf(
        tmp_path / "bin",
        """[ "$1" = version ] && { echo 'perf version 5.4.0'; exit 0; }
        { echo "  Error: unknown option \\`control'"; echo; echo ' Usage: perf record [<options>] [<command>]'; } >&2
        exit 129""",
    )
    with pytest.raises(MissingError, match="too old") as caught:
        make(tmp_path, "/bin/true", perf_env=env)
    assert caught.value.expected == "perf 5.9 or newer"


def test_perf_of_another_kernel(tmp_path: Path) -> None:
    env = fake_perf(tmp_path / "bin", "echo 'WARNING: perf not found for kernel 6.8.0-31' >&2; exit 2")
    with pytest.raises(MissingError, match="not installed for the running kernel"):
        make(tmp_path, "/bin/true", perf_env=env)


def test_perf_that_leaves_an_incomplete_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "NUDGES_S", (0.1, 5.0, 5.0))
    whole = make(tmp_path, "/bin/true").perf_data.rename(tmp_path / "cut.data")
    os.truncate(whole, whole.stat().st_size - 1)
    with pytest.raises(FailedError, match=r"did not complete the recording \(exit 0\)"):
        make(tmp_path, "/bin/true", perf_env=deaf_perf(tmp_path / "bin", whole, "stop"))
    assert left_in(tmp_path) == ["bin", "cut.data", "log"]


def test_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="No such file"):
        make(tmp_path, str(tmp_path / "nothing"))
    assert left_in(tmp_path) == ["log"]


def test_callback_that_raises_leaves_nothing(tmp_path: Path) -> None:
    def refuse(pid: int) -> None:
        raise RuntimeError(f"not {pid}")

    with pytest.raises(RuntimeError, match=r"not \d+") as caught:
        make(tmp_path, "/usr/bin/touch", str(tmp_path / "ran"), on_started=refuse)
    assert left_in(tmp_path) == ["log"]
    assert not Path(f"/proc/{str(caught.value).split()[1]}").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"frequency": 0},
        {"call_graph": "lbr"},
        {"call_graph": "dwarf,65529"},
        {"call_graph": "dwarf,"},
        {"mmap_pages": 3},
    ],
)
def test_options_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RecordOptions(**wrong)


def test_check_permitted(tmp_path: Path) -> None:
    perf.check_permitted(PERF_ENV)
    with pytest.raises(UsageError, match="no-such-event"):
        perf.check_permitted(PERF_ENV, RecordOptions(event="no-such-event"))


# -- files ----------------------------------------------------------------------------------------------------------


def test_a_cut_recording_is_not_whole(tmp_path: Path, program: Path) -> None:
    data = make(tmp_path, str(program), "burn", "0.1", "1").perf_data
    whole = data.read_bytes()
    assert perf.is_whole(data)
    cut = tmp_path / "cut.data"
    for size in (0, 8, 71, 103, 104, 200, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:size])
        assert not perf.is_whole(cut), size
    cut.write_bytes(b"x" + whole[1:])
    assert not perf.is_whole(cut)
    assert not perf.is_whole(tmp_path / "nothing")


def test_the_file_of_a_killed_perf_is_not_whole(tmp_path: Path, program: Path) -> None:
    data = tmp_path / "killed.data"
    argv = [
        "perf",
        "record",
        "-F",
        "9997",
        "--call-graph",
        "dwarf",
        "-o",
        str(data),
        "--",
        str(program),
        "burn",
        "9",
        "1",
    ]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL, process_group=0) as running:
        wait_until(lambda: data.exists() and data.stat().st_size > 100_000)
        os.killpg(running.pid, signal.SIGKILL)
    assert not perf.is_whole(data)


def test_kallsyms_are_saved_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "kallsyms"
    source.write_text("ffffffff81000000 T _stext\n0000000000000000 A zero\n" * 1000, encoding="ascii")
    monkeypatch.setattr(perf, "_KALLSYMS", source)
    saved = tmp_path / "kallsyms.zst"
    assert perf.save_kallsyms(saved)
    assert zstandard.ZstdDecompressor().decompress(saved.read_bytes()) == source.read_bytes()
    assert saved.stat().st_size < source.stat().st_size / 10
    assert left_in(tmp_path) == ["kallsyms", "kallsyms.zst"]


def test_kallsyms_of_this_kernel(tmp_path: Path) -> None:
    text = Path("/proc/kallsyms").read_bytes()
    visible = any(int(line.split()[0], 16) for line in text.splitlines())
    assert perf.save_kallsyms(tmp_path / "saved") == visible
    if visible:
        assert zstandard.ZstdDecompressor().decompress((tmp_path / "saved").read_bytes()) == text


@pytest.mark.parametrize("text", ["", "0000000000000000 T _stext\n0000000000000000 t other\n", None])
def test_hidden_kallsyms_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    source = tmp_path / "kallsyms"
    if text is not None:
        source.write_text(text, encoding="ascii")
    monkeypatch.setattr(perf, "_KALLSYMS", source)
    assert not perf.save_kallsyms(tmp_path / "kallsyms.zst")
    assert not (tmp_path / "kallsyms.zst").exists()
