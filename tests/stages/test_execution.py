"""The program's own figures, against what programs and the kernel say about them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ipuenv
from ipuenv.ground import command
from ipuenv.ground.errors import FailedError, MissingError, UsageError
from ipuenv.stages import execution
from ipuenv.stages.execution import Execution, execute, ready

ENV = {"PATH": os.environ["PATH"]}

DRIVER = """
import dataclasses, json, os, sys
from pathlib import Path
from ipuenv.stages.execution import execute
log, *argv = sys.argv[1:]
ran = execute(argv, env={"PATH": os.environ["PATH"]}, cwd=Path("/"), log=Path(log))
print(json.dumps(dataclasses.asdict(ran)))
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled ``burn.rs``."""
    built = tmp_path_factory.mktemp("program") / "program"
    flags = ["--edition=2021", "-O", "-g", "-C", "force-frame-pointers=yes", "-o", str(built)]
    subprocess.run(["rustc", *flags, str(Path(__file__).parents[1] / "programs/burn.rs")], check=True)
    return built


def run(tmp_path: Path, *argv: str, env: dict[str, str] | None = None, timeout_s: float | None = None) -> Execution:
    return execute(argv, env=ENV if env is None else env, cwd=tmp_path, log=tmp_path / "log", timeout_s=timeout_s)


def said(tmp_path: Path) -> str:
    return os.fsdecode((tmp_path / "log").read_bytes())


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def gone(pid: int, within_s: float = 5.0) -> bool:
    deadline_s = time.monotonic() + within_s
    while is_running(pid) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return not is_running(pid)


def lines_of(path: Path, count: int) -> list[str]:
    """The first ``count`` words of a log that is being written."""
    deadline_s = time.monotonic() + 20
    while time.monotonic() < deadline_s:
        words = path.read_text(encoding="utf-8").split() if path.exists() else []
        if len(words) >= count:
            return words
        time.sleep(0.01)
    raise AssertionError(f"{path} never held {count} words")


def drive(log: Path, *argv: str) -> subprocess.Popen[str]:
    """A process of its own that executes ``argv`` and prints the :class:`Execution`."""
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(log), *argv],
        env={**ENV, "PYTHONPATH": str(Path(ipuenv.__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )


# -- status ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "exit_code"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -KILL $$", -9), ("kill -ABRT $$", -6)],
)
def test_exit_code_is_exact(tmp_path: Path, script: str, exit_code: int) -> None:
    ran = run(tmp_path, "sh", "-c", script)
    assert ran.exit_code == exit_code
    assert not ran.timed_out
    assert not ran.interrupted


def test_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    arguments = ["", "two words", "new\nline", "-x", "ümläut", "$HOME", "\udcff", ""]
    code = "import sys; print(ascii(sys.argv[1:]))"
    run(tmp_path, sys.executable, "-I", "-X", "utf8", "-c", code, *arguments)
    assert said(tmp_path).strip() == ascii(arguments)


def test_environment_is_exactly_the_given_one(tmp_path: Path) -> None:
    env = {"B": "1", "A": "", "QUOTED": "a 'b' \"c\"", "LINES_": "x\ny", "RAW": "\udcfe", "EQUALS": "a=b=c"}
    run(tmp_path, "/bin/cat", "/proc/self/environ", env=env)
    assert said(tmp_path) == "".join(f"{name}={value}\0" for name, value in env.items())


def test_empty_environment(tmp_path: Path) -> None:
    assert run(tmp_path, "/bin/cat", "/proc/self/environ", env={}).exit_code == 0
    assert said(tmp_path) == ""


def test_large_environment_and_arguments(tmp_path: Path) -> None:
    env = {f"V{index}": "x" * 1000 for index in range(300)}
    ran = run(tmp_path, "/usr/bin/wc", "-c", "/proc/self/environ", *["/dev/null"] * 500, env=env)
    assert ran.exit_code == 0
    assert int(said(tmp_path).split()[0]) == sum(len(f"{name}={value}") + 1 for name, value in env.items())


def test_runs_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "tool").write_text("#!/bin/sh\npwd -P\n", encoding="utf-8")
    (folder / "tool").chmod(0o755)
    execute(["./tool"], env=ENV, cwd=folder, log=tmp_path / "log")
    assert said(tmp_path).strip() == str(folder.resolve())


def test_inherits_no_descriptor(tmp_path: Path) -> None:
    keep = os.open("/dev/null", os.O_RDONLY)
    code = "import os; print(len(os.listdir('/proc/self/fd')), os.readlink('/proc/self/fd/0'))"
    try:
        run(tmp_path, sys.executable, "-I", "-S", "-c", code)
    finally:
        os.close(keep)
    assert said(tmp_path) == "4 /dev/null\n"  # the fourth is the folder that is being listed


def test_inherits_no_signal_disposition(tmp_path: Path) -> None:
    run(tmp_path, "/bin/cat", "/proc/self/status")
    facts = dict(line.split(":\t", 1) for line in said(tmp_path).splitlines())
    assert int(facts["SigIgn"], 16) == 0
    assert int(facts["SigBlk"], 16) == 0


def test_sigpipe_ends_the_program(tmp_path: Path) -> None:
    assert run(tmp_path, "/bin/bash", "-c", "yes | head -n1; echo ${PIPESTATUS[0]}").exit_code == 0
    assert said(tmp_path).split() == ["y", str(128 + signal.SIGPIPE)]


def test_log_holds_both_streams_in_order_and_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("old " * 1000, encoding="utf-8")
    run(tmp_path, "sh", "-c", "echo one; echo two >&2; echo three")
    assert said(tmp_path) == "one\ntwo\nthree\n"


# -- figures --------------------------------------------------------------------------------------------------------


def test_peak_rss_is_the_programs_own(tmp_path: Path, program: Path) -> None:
    ran = run(tmp_path, str(program), "touch", "100")
    kib = int(said(tmp_path).split()[1])
    assert kib > 100 * 1024
    assert kib * 1024 <= ran.peak_rss_bytes <= kib * 1024 + 1_000_000


def test_peak_rss_floor_does_not_depend_on_this_process(tmp_path: Path) -> None:
    ballast = bytearray(os.urandom(1 << 20)) * 300
    ran = run(tmp_path, "/bin/true")
    assert ran.peak_rss_bytes < execution.PEAK_RSS_FLOOR_BYTES
    assert len(ballast) > 20 * ran.peak_rss_bytes


def test_cpu_times_are_the_programs_own(tmp_path: Path, program: Path) -> None:
    ran = run(tmp_path, str(program), "burn", "0.3", "3")
    cpu_s = float(said(tmp_path).split()[0])
    assert cpu_s == pytest.approx(0.9, abs=0.1)
    assert ran.user_s + ran.system_s == pytest.approx(cpu_s, abs=0.05)
    assert ran.wall_s >= 0.3


def test_cpu_times_cover_children_that_were_waited_for(tmp_path: Path, program: Path) -> None:
    ran = run(tmp_path, str(program), "family", "0.3")
    assert ran.user_s + ran.system_s == pytest.approx(0.6, abs=0.1)


def test_figures_agree_with_gnu_time(tmp_path: Path, program: Path) -> None:
    ran = run(tmp_path, str(program), "touch", "64")
    form = ["/usr/bin/time", "-f", "%M", str(program), "touch", "64"]  # Debian: apt-get install time
    outside = subprocess.run(form, capture_output=True, text=True, check=True)
    assert ran.peak_rss_bytes / 1024 == pytest.approx(int(outside.stderr), rel=0.02)


def test_wall_time_begins_with_the_release(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with ready(["touch", str(marker)], env=ENV, cwd=tmp_path, log=tmp_path / "log") as program:
        time.sleep(0.5)
        assert is_running(program.pid)
        assert not marker.exists()
        program.release()
        ran = program.wait()
    assert marker.exists()
    assert ran.wall_s < 0.4


def test_wall_time_is_elapsed_time(tmp_path: Path) -> None:
    assert run(tmp_path, "sleep", "0.5").wall_s == pytest.approx(0.5, abs=0.2)


# -- endings --------------------------------------------------------------------------------------------------------


def test_a_program_that_is_never_released_does_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with ready(["touch", str(marker)], env=ENV, cwd=tmp_path, log=tmp_path / "log") as program:
        pid = program.pid
    assert gone(pid)
    assert not marker.exists()


def test_timeout_ends_the_program_politely(tmp_path: Path) -> None:
    ran = run(tmp_path, "sh", "-c", "trap 'echo asked; exit 3' TERM; sleep 60 & wait", timeout_s=0.5)
    assert ran.timed_out
    assert not ran.interrupted
    assert ran.exit_code == 3
    assert said(tmp_path) == "asked\n"
    assert 0.5 <= ran.wall_s < 4


def test_timeout_kills_who_does_not_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "TERMINATE_GRACE_S", 0.3)
    ran = run(tmp_path, "sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done", timeout_s=0.4)
    assert ran.timed_out
    assert ran.exit_code == -signal.SIGKILL
    assert gone(int(said(tmp_path)))


@pytest.mark.parametrize("timeout_s", [None, 0.5])
def test_nothing_of_the_group_outlives_the_program(tmp_path: Path, timeout_s: float | None) -> None:
    ending = "exit 0" if timeout_s is None else "wait"
    run(tmp_path, "sh", "-c", f"sleep 300 & echo $!; (sleep 300; true) & echo $!; {ending}", timeout_s=timeout_s)
    first, second = map(int, said(tmp_path).split())
    assert gone(first)
    assert gone(second)


@pytest.mark.parametrize(("trap", "exit_code"), [("trap 'echo caught; exit 0' INT", 0), ("trap - INT", -2)])
def test_ctrl_c_is_our_own_mark(tmp_path: Path, trap: str, exit_code: int) -> None:
    log = tmp_path / "log"
    with drive(log, "sh", "-c", f"{trap}; sleep 60 & echo $!; wait") as driver:
        (pid,) = lines_of(log, 1)
        driver.send_signal(signal.SIGINT)
        out, _ = driver.communicate(timeout=20)
    ran = json.loads(out)
    assert ran["interrupted"]
    assert not ran["timed_out"]
    assert ran["exit_code"] == exit_code
    assert gone(int(pid))


def test_second_ctrl_c_kills_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    began_s = time.monotonic()
    with drive(log, "sh", "-c", "trap 'echo deaf' INT; echo up; while :; do sleep 0.05; done") as driver:
        lines_of(log, 1)
        driver.send_signal(signal.SIGINT)
        lines_of(log, 2)
        driver.send_signal(signal.SIGINT)
        out, _ = driver.communicate(timeout=20)
    assert json.loads(out)["exit_code"] == -signal.SIGKILL
    assert json.loads(out)["interrupted"]
    assert time.monotonic() - began_s < command.TERMINATE_GRACE_S


def test_the_program_dies_with_us(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with drive(log, "sh", "-c", "trap '' INT TERM HUP; echo $$ $PPID; sleep 300 & echo $!; wait") as driver:
        pids = [int(word) for word in lines_of(log, 3)]
        driver.kill()
    assert [pid for pid in pids if not gone(pid)] == []


def test_the_program_dies_with_its_agent(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match="before it could report"):
        run(tmp_path, "sh", "-c", "echo $$; kill -KILL $PPID; sleep 300")
    assert gone(int(said(tmp_path)))


def test_a_watcher_that_raises_ends_the_program(tmp_path: Path) -> None:
    def watch() -> None:
        raise FailedError("seen enough")

    argv = ["sh", "-c", "trap 'echo asked; exit' TERM; sleep 60 & wait"]
    with ready(argv, env=ENV, cwd=tmp_path, log=tmp_path / "log") as held:
        held.release()
        with pytest.raises(FailedError, match="seen enough"):
            held.wait(watch=watch)
    assert said(tmp_path) == "asked\n"


# -- programs that cannot be started --------------------------------------------------------------------------------


def test_missing_program(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="No such file or directory") as caught:
        run(tmp_path, str(tmp_path / "nothing"))
    assert str(tmp_path / "nothing") in caught.value.what


def test_program_that_is_not_on_its_path(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="not found on PATH"):
        run(tmp_path, "true", env={"PATH": str(tmp_path)})


def test_file_that_may_not_be_executed(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello", encoding="utf-8")
    with pytest.raises(MissingError, match="Permission denied") as caught:
        run(tmp_path, str(tmp_path / "text"))
    assert "chmod +x" in caught.value.hint


def test_missing_interpreter_is_told_from_a_missing_program(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    script.chmod(0o755)
    with pytest.raises(MissingError, match="No such file") as caught:
        run(tmp_path, str(script))
    assert "interpreter" in caught.value.expected


def test_file_that_is_no_program(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"\0\1\2\3" * 64)
    data.chmod(0o755)
    with pytest.raises(FailedError, match="Exec format error"):
        run(tmp_path, str(data))


def test_exit_127_is_an_exit_code_and_not_a_missing_program(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "exit 127").exit_code == 127


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="does not exist"):
        execute(["true"], env=ENV, cwd=tmp_path / "nowhere", log=tmp_path / "log")


def test_folder_that_may_not_be_entered(tmp_path: Path) -> None:
    loop = tmp_path / "folder"
    loop.mkdir()
    before = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    loop.chmod(0)
    code = DRIVER.replace('Path("/")', f'Path("{loop}")')
    done = subprocess.run(
        [*before, sys.executable, "-c", code, str(tmp_path / "log"), "true"],
        env={**ENV, "PYTHONPATH": str(Path(ipuenv.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "MissingError: 'true' could not be started in its folder: Permission denied" in done.stderr.replace(
        "/usr/bin/", ""
    )


def test_nul_in_an_argument(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="NUL"):
        run(tmp_path, "echo", "a\0b")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    run(tmp_path, "true")
    with pytest.raises(MissingError):
        run(tmp_path, str(tmp_path / "nothing"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
