"""The program's own execution: exact status and figures, measured apart from ipuenv and from perf.

A program is first made *ready* (forked, waiting, its pid known) and then *released*, so that perf can attach in
between. See :mod:`ipuenv.stages.spawn_agent` for the small process that does the forking.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

from ipuenv.ground import command
from ipuenv.ground.errors import FailedError, IpuenvError, MissingError, UsageError
from ipuenv.stages import spawn_agent

PEAK_RSS_FLOOR_BYTES: Final = 8_000_000
"""A ``peak_rss_bytes`` below this is the spawn agent's, not the program's.

Measured: ``true``, which needs 1 MB, reports 6.9 MB (Python 3.11) to 7.5 MB (Debian's), however large ipuenv is.
"""

WATCH_S: Final = 0.25
"""How often a running program's watcher is asked."""

AGENT_GRACE_S: Final = 5.0
"""How long the agent may take to report or to end once nothing is left for it to wait for."""

Watch = Callable[[], None]
"""Called now and then while a program runs; raises an :class:`IpuenvError` to have it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a program ran, by itself.

    ``exit_code`` is negative for a signal. ``wall_s`` is from the release of its exec to its exit. CPU times and the
    peak resident size cover the program and the children it waited for; see :data:`PEAK_RSS_FLOOR_BYTES`. ``timed_out``
    and ``interrupted`` are our own marks: someone ended the program, whatever its status says.
    """

    exit_code: int
    wall_s: float
    user_s: float
    system_s: float
    peak_rss_bytes: int
    timed_out: bool = False
    interrupted: bool = False


def execute(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    log: Path,
    timeout_s: float | None = None,
) -> Execution:
    """Run a program to its end without a profiler; its stdout and stderr go to ``log``, which is overwritten.

    Never raises for its exit code, a timeout or Ctrl-C: those are in the answer.

    Raises:
        MissingError: the program or ``cwd`` does not exist, or the program may not be executed.
        FailedError: the program cannot be executed on this machine.
    """
    with ready(argv, env=env, cwd=cwd, log=log) as program:
        program.release()
        return program.wait(timeout_s=timeout_s)


@contextlib.contextmanager
def ready(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> Iterator[Program]:
    """A program that waits for its release. However the block ends, nothing of its group is left running.

    Raises:
        MissingError: the program was not found on ``env``'s PATH, or ``cwd`` does not exist.
    """
    if not cwd.is_dir():
        raise MissingError(f"the folder '{cwd}' does not exist", expected="a folder to run the program in")
    full = [_located(argv[0], env), *argv[1:]]
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as given:
            requests_out, requests_in = os.pipe()
            given.callback(os.close, requests_out)
            requests = stack.enter_context(os.fdopen(requests_in, "wb", buffering=0))
            reports_out, reports_in = os.pipe()
            given.callback(os.close, reports_in)
            reports = stack.enter_context(os.fdopen(reports_out, "rb", buffering=0))
            sink = given.enter_context(log.open("ab"))
            sink.truncate(0)
            agent = command.start(
                [sys.executable, "-I", "-S", spawn_agent.__file__, str(requests_out), str(reports_in)],
                env=_agent_environment(),
                stdout=sink,
                stderr=sink,
                pass_fds=(requests_out, reports_in),
            )
            program = Program(agent=agent, argv=full, requests=requests, reports=reports, log=log)
            stack.callback(program.close)
        program.hand_over(env=env, cwd=cwd)
        yield program


class Program:
    """A program behind its spawn agent. Made by :func:`ready`."""

    def __init__(
        self, *, agent: command.Child, argv: Sequence[str], requests: FileIO, reports: FileIO, log: Path
    ) -> None:
        self.argv = tuple(argv)
        self.pid = 0
        self._agent = agent
        self._requests = requests
        self._reports = reports
        self._log = log
        self._unread = b""
        self._ended = False

    def hand_over(self, *, env: Mapping[str, str], cwd: Path) -> None:
        """Send the agent what to run, and learn the waiting program's pid."""
        fields = [os.fspath(cwd), str(len(self.argv)), *self.argv, *(f"{name}={value}" for name, value in env.items())]
        for field in fields:
            if "\0" in field:
                raise UsageError(f"{field!r} holds a NUL character", expected="arguments and variables without one")
        request = b"\0".join(os.fsencode(field) for field in fields)
        self._send(len(request).to_bytes(8, "big") + request)
        words = self._report(None)
        if words is None or words[0] != "waiting":
            raise self._agent_failure()
        self.pid = int(words[1])

    def release(self) -> None:
        """Let the program begin."""
        self._send(bytes([spawn_agent.RELEASE]))

    def wait(self, *, timeout_s: float | None = None, watch: Watch | None = None) -> Execution:
        """Wait for the released program's end, and for nothing longer than ``timeout_s``.

        Ctrl-C, the timeout and an error of ``watch`` end the program's group: SIGINT or SIGTERM, time to end, SIGKILL.
        A second Ctrl-C kills at once.

        Raises:
            MissingError: the program does not exist or may not be executed.
            FailedError: it cannot be executed here.
            IpuenvError: what ``watch`` raised, when the program has ended.
        """
        timed_out = interrupted = False
        words: list[str] | None = None
        try:
            words = self._report(timeout_s, watch)
            timed_out = words is None
            words = words or self._end(signal.SIGTERM)
        except KeyboardInterrupt:
            interrupted = True
            words = words or self._end(signal.SIGINT)
        except IpuenvError:
            self._end(signal.SIGTERM)
            raise
        self._ended = True
        if words[0] == "refused":
            raise _refusal(self.argv[0], step=words[1], number=int(words[2]))
        return Execution(
            exit_code=os.waitstatus_to_exitcode(int(words[1])),
            wall_s=float(words[2]),
            user_s=float(words[3]),
            system_s=float(words[4]),
            peak_rss_bytes=int(words[5]) * 1024,
            timed_out=timed_out,
            interrupted=interrupted,
        )

    def close(self) -> None:
        """End whatever still runs: the agent kills the program's group when its input closes."""
        self._requests.close()
        if self._agent.wait(AGENT_GRACE_S) != 0 and not self._ended:
            self._kill()
        self._agent.end()

    def _end(self, first: int) -> list[str]:
        """Signal the group and wait for its end; the agent's last report."""
        words: list[str] | None = None
        with contextlib.suppress(KeyboardInterrupt):
            self._send(bytes([first]))
            words = self._report(command.TERMINATE_GRACE_S)
        if words is None:
            self._send(bytes([signal.SIGKILL]))
            words = self._report(AGENT_GRACE_S)
        if words is None:
            raise self._agent_failure()
        return words

    def _report(self, timeout_s: float | None, watch: Watch | None = None) -> list[str] | None:
        """The agent's next line in words; None when ``timeout_s`` has passed."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            left_s = None if deadline_s is None else deadline_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return None
            slice_s = left_s if watch is None else min(WATCH_S, WATCH_S if left_s is None else left_s)
            if select.select([self._reports], [], [], slice_s)[0]:
                part = os.read(self._reports.fileno(), 4096)
                if not part:
                    raise self._agent_failure()
                self._unread += part
            elif watch is not None:
                watch()
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode().split()

    def _send(self, message: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # the agent is gone: reading its report says so
            while message:
                message = message[os.write(self._requests.fileno(), message) :]

    def _kill(self) -> None:
        if self.pid:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)

    def _agent_failure(self) -> FailedError:
        self._kill()
        self._ended = True
        return FailedError(
            f"the process that starts '{self.argv[0]}' ended before it could report",
            expected="the program's status from its spawn agent",
            hint="look for an out-of-memory kill in 'dmesg', then try again",
            log=self._log,
        )


def _located(program: str, env: Mapping[str, str]) -> str:
    """``program`` as it is when it names a path, else where ``env``'s PATH has it."""
    return program if "/" in program else os.fspath(command.find(program, path=env.get("PATH", os.defpath)))


def _agent_environment() -> dict[str, str]:
    """What the interpreter needs to start where its library is in an unusual place; nothing of the program's."""
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


def _refusal(program: str, *, step: str, number: int) -> IpuenvError:
    """The error for a program that could not be started, from the errno of the step that failed."""
    reason = os.strerror(number)
    if step == "chdir":
        return MissingError(f"'{program}' could not be started in its folder: {reason}", expected="a folder to run in")
    what = f"'{program}' could not be started: {reason}"
    if number == errno.ENOENT and Path(program).exists():
        return MissingError(
            what, expected="the interpreter or loader that the file names", hint=f"look at 'file {program}'"
        )
    if number in (errno.ENOENT, errno.ENOTDIR):
        return MissingError(what, expected="an executable file")
    if number in (errno.EACCES, errno.EPERM):
        return MissingError(what, expected="a file that may be executed", hint=f"chmod +x {program}")
    return FailedError(what, expected="a program for this machine", hint=f"look at 'file {program}'")
