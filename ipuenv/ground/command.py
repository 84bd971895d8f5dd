"""The one place that starts processes.

Everything runs from an argv list, never through a shell, with an environment that the caller states in full. Children
get a process group of their own, so that whatever they started ends with them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ipuenv.ground.errors import FailedError, MissingError

TERMINATE_GRACE_S = 5.0
"""How long a group may take to end after a polite signal before it is killed. perf needs time to flush."""

Stream = int | IO[bytes]
"""What a child's stdin, stdout or stderr is joined to: a descriptor, a file, or one of subprocess's constants."""

INSTALL_HINTS: dict[str, str] = {
    "perf": "install perf: 'apt-get install linux-perf' (Debian) or 'apt-get install linux-tools-generic' (Ubuntu)",
    "cargo": "install Rust from https://rustup.rs or by 'apt-get install cargo'",
    "git": "install git: 'apt-get install git'",
    "bash": "install bash: 'apt-get install bash'",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A process that ended. ``exit_code`` is negative for a signal, as in :mod:`subprocess`; times in seconds."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes
    wall_s: float
    timed_out: bool = False

    @property
    def stdout_text(self) -> str:
        return os.fsdecode(self.stdout)

    @property
    def stderr_text(self) -> str:
        return os.fsdecode(self.stderr)


class Child:
    """A running process at the head of its own group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal_group(self, number: int) -> None:
        """Send a signal to the whole group; a group that is already gone is fine."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def wait(self, timeout_s: float | None = None) -> int | None:
        """The exit code once the child has ended, negative for a signal; None when ``timeout_s`` has passed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(timeout_s)
        return None

    def end(self, first: int = signal.SIGTERM, grace_s: float = TERMINATE_GRACE_S) -> None:
        """End the group: ``first``, then SIGKILL when ``grace_s`` has passed. Reaps the child."""
        if self.process.poll() is None:
            self.signal_group(first)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        self.signal_group(signal.SIGKILL)
        self.process.wait()


def find(program: str, *, path: str | None = None) -> Path:
    """The executable's absolute path.

    Raises:
        MissingError: it is not on the search path.
    """
    found = shutil.which(program, path=path)
    if found is None:
        raise MissingError(
            f"'{program}' was not found on PATH",
            expected=f"an executable '{program}'",
            hint=INSTALL_HINTS.get(program, f"install '{program}' or add its folder to PATH"),
        )
    return Path(found).absolute()


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream | None = None,
    stderr: Stream | None = None,
    pass_fds: Sequence[int] = (),
) -> Child:
    """Start a process in its own group and return at once.

    Raises:
        MissingError: the program does not exist or may not be executed.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(pass_fds),
            process_group=0,
        )
    except (FileNotFoundError, PermissionError) as error:
        if cwd is not None and not cwd.is_dir():
            raise MissingError(f"the folder '{cwd}' does not exist", expected="a folder to run in") from error
        name = Path(argv[0]).name
        raise MissingError(
            f"'{argv[0]}' could not be started: {error.strerror}",
            expected="an executable program",
            hint=INSTALL_HINTS.get(name, ""),
        ) from error
    return Child(process)


@contextlib.contextmanager
def running(child: Child) -> Iterator[Child]:
    """Own ``child`` for a block: however the block ends, nothing of its group is left running."""
    try:
        yield child
    finally:
        child.end()


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: bytes = b"",
    stdout: Stream = subprocess.PIPE,
    stderr: Stream | None = subprocess.PIPE,
    pass_fds: Sequence[int] = (),
    timeout_s: float | None = None,
    on_stdout_line: Callable[[bytes], None] | None = None,
) -> Completed:
    """Run a process to its end. Never raises for its exit code: see :func:`check`.

    ``stderr=None`` leaves the child the terminal (cargo draws its progress there). ``on_stdout_line`` sees each line of
    stdout as it comes. When ``timeout_s`` passes the whole group is killed and ``timed_out`` set.
    """
    began = time.monotonic()
    child = start(
        argv,
        env=env,
        cwd=cwd,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
    )
    timed_out = False
    with running(child):
        if on_stdout_line is not None and child.process.stdout is not None:
            lines: list[bytes] = []
            with child.process.stdout as stream:
                for line in stream:
                    lines.append(line)
                    on_stdout_line(line)
            child.process.wait()
            out, err = b"".join(lines), b""
        else:
            try:
                out, err = child.process.communicate(stdin or None, timeout=timeout_s)
            except subprocess.TimeoutExpired:
                timed_out = True
                child.signal_group(signal.SIGKILL)
                out, err = child.process.communicate()
    return Completed(
        argv=tuple(argv),
        exit_code=child.process.returncode,
        stdout=out or b"",
        stderr=err or b"",
        wall_s=time.monotonic() - began,
        timed_out=timed_out,
    )


def check(completed: Completed, *, what: str, hint: str = "", log: Path | None = None) -> Completed:
    """Return ``completed`` if it ended well.

    Raises:
        FailedError: it did not; carries the last lines it printed.
    """
    if completed.exit_code == 0 and not completed.timed_out:
        return completed
    text = os.fsdecode(completed.stderr or completed.stdout)
    raise FailedError(
        f"{what} failed ({ending(completed.exit_code)})",
        expected=f"'{Path(completed.argv[0]).name}' to end with 0",
        hint=hint,
        tail=text.splitlines(),
        log=log,
    )


def ending(exit_code: int) -> str:
    """How a process ended, in words: ``exit 3``, ``killed by SIGKILL``."""
    if exit_code >= 0:
        return f"exit {exit_code}"
    try:
        return f"killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"killed by signal {-exit_code}"
