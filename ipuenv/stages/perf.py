"""Recording: ``perf record`` attached to a program that waits for its release, so that each has its own environment.

perf attaches by pid with its events off, is switched on through a control pipe, acknowledges, and only then does the
program begin. What perf's status says is never used to tell how the program ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

import zstandard

from ipuenv.ground import command
from ipuenv.ground.errors import FailedError, IpuenvError, UsageError
from ipuenv.stages import execution, perf_failures

if TYPE_CHECKING:
    from ipuenv.stages.execution import Execution

ATTACH_LIMIT_S: Final = 120.0
"""How long perf may take to attach; it answers within half a second on an idle machine."""

NUDGES_S: Final = (5.0, 30.0, 600.0)
"""How long perf may take to end after the program: before it is told to stop, interrupted, and given up.

It ends by itself. On a recording of many gigabytes it still reads the whole file for its build-ids.
"""

DETACH_GRACE_S: Final = 2.0
"""How long a program may seem to outlive a perf that ended well: both ends are noticed separately."""

_CALL_GRAPH = re.compile(r"fp|dwarf(,[1-9][0-9]{0,4})?")
_DWARF_STACK_LIMIT_BYTES = 65528
_KALLSYMS = Path("/proc/kallsyms")
_HEADER = struct.Struct("=8s8Q")  # magic, header size, attribute size; offset and size of attributes, data, event types
_FEATURES = struct.Struct("=4Q")
_SECTION = struct.Struct("=2Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """How perf records.

    ``frequency`` in samples per second and thread; ``call_graph`` is ``fp`` or ``dwarf,BYTES``; ``event`` None leaves
    the choice to perf (cycles, or cpu-clock where there are no counters); ``mmap_pages`` is the size of each buffer.

    Raises:
        UsageError: a value is out of range.
    """

    frequency: int = 99
    call_graph: str = "fp"
    event: str | None = None
    mmap_pages: int | None = None

    def __post_init__(self) -> None:
        if self.frequency < 1:
            raise UsageError(f"the sampling frequency is {self.frequency}", expected="1 or more samples per second")
        match = _CALL_GRAPH.fullmatch(self.call_graph)
        if match is None or int((match[1] or ",8")[1:]) > _DWARF_STACK_LIMIT_BYTES:
            raise UsageError(
                f"the call graph is {self.call_graph!r}",
                expected=f"'fp', 'dwarf' or 'dwarf,BYTES' with at most {_DWARF_STACK_LIMIT_BYTES} bytes",
            )
        if self.mmap_pages is not None and (self.mmap_pages < 1 or self.mmap_pages & (self.mmap_pages - 1)):
            raise UsageError(f"the number of buffer pages is {self.mmap_pages}", expected="a power of two")

    def argv(self) -> tuple[str, ...]:
        """The arguments to perf for these options."""
        return (
            *("-F", str(self.frequency), "--call-graph", self.call_graph),
            *(("-e", self.event) if self.event else ()),
            *(("-m", str(self.mmap_pages)) if self.mmap_pages else ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A program that ran under perf, and the whole ``perf_data`` of it, which may hold no sample.

    ``pid`` is the program's. Of what it did before its exec, about a millisecond under the name of the spawn agent, a
    sample may be in the file. ``argv`` is the command that ran; ``equivalent_argv`` does the same typed by hand;
    ``perf_log`` is what perf said.
    """

    execution: Execution
    pid: int
    perf_data: Path
    argv: tuple[str, ...]
    equivalent_argv: tuple[str, ...]
    perf_version: str
    perf_log: str


def record(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    log: Path,
    perf_data: Path,
    perf_env: Mapping[str, str],
    options: RecordOptions | None = None,
    timeout_s: float | None = None,
    on_started: Callable[[int], None] | None = None,
) -> Recording:
    """Run a program under perf to its end; the program has ``env``, perf has ``perf_env``.

    stdout and stderr of the program go to ``log``. ``on_started`` is given the program's pid just before it begins.
    ``perf_data`` appears, or is replaced, only when it is whole. Never raises for the program's exit code, a timeout or
    Ctrl-C, which leave a whole recording of what ran.

    Raises:
        MissingError: perf or the program is missing, or this machine does not permit or support the recording.
        UsageError: perf does not know the event.
        FailedError: perf failed, for instance because the disk is full; the program was ended.
    """
    options = options or RecordOptions()
    perf_version = version(perf_env)
    partial = perf_data.with_name(perf_data.name + ".partial")
    partial.unlink(missing_ok=True)
    try:
        with (
            execution.ready(argv, env=env, cwd=cwd, log=log) as program,
            _attached(program.pid, partial, options, perf_env) as perf,
        ):
            perf.enable()
            if on_started is not None:
                on_started(program.pid)
            program.release()
            ran = program.wait(timeout_s=timeout_s, watch=perf.check_recording)
            perf.finish()
            said = perf.said()
        partial.replace(perf_data)
    finally:
        partial.unlink(missing_ok=True)
    return Recording(
        execution=ran,
        pid=program.pid,
        perf_data=perf_data,
        argv=perf.argv,
        equivalent_argv=equivalent_argv(argv, options),
        perf_version=perf_version,
        perf_log=said,
    )


def equivalent_argv(argv: Sequence[str], options: RecordOptions) -> tuple[str, ...]:
    """The recording as someone would type it."""
    return ("perf", "record", *options.argv(), "-o", "perf.data", "--", *argv)


def version(perf_env: Mapping[str, str]) -> str:
    """The version of perf, such as ``6.1.192``.

    Raises:
        MissingError: perf is not installed, or not for this kernel.
    """
    perf = command.find("perf", path=perf_env.get("PATH"))
    completed = command.run([os.fspath(perf), "version"], env=_perf_environment(perf_env))
    if completed.exit_code != 0:
        raise perf_failures.explain(completed.stdout_text + completed.stderr_text, completed.exit_code)
    return completed.stdout_text.strip().removeprefix("perf version").strip()


def check_permitted(perf_env: Mapping[str, str], options: RecordOptions | None = None) -> None:
    """Record a program that does nothing, to learn whether recording works here at all.

    Raises:
        MissingError, UsageError, FailedError: as :func:`record`.
    """
    with tempfile.TemporaryDirectory(prefix="ipuenv-") as name:
        folder = Path(name)
        record(
            [os.fspath(command.find("true", path=perf_env.get("PATH")))],
            env={},
            cwd=folder,
            log=folder / "run.log",
            perf_data=folder / "perf.data",
            perf_env=perf_env,
            options=options,
        )


def save_kallsyms(path: Path) -> bool:
    """Save this boot's kernel symbols to ``path``, compressed with zstd.

    Returns:
        False, and saves nothing, when the kernel hides the addresses (``kernel.kptr_restrict``) or has no such list.
    """
    try:
        text = _KALLSYMS.read_bytes()
    except OSError:
        return False
    if not any(line.split(b" ", 1)[0].strip(b"0") for line in text.splitlines()):
        return False
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(zstandard.ZstdCompressor(level=9).compress(text))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return True


def is_whole(perf_data: Path) -> bool:
    """Whether perf wrote the file to its end: a perf that was killed leaves sections that are empty or cut off."""
    try:
        with perf_data.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            magic, *_, data_offset, data_size, _, _ = _HEADER.unpack(file.read(_HEADER.size))
            features = sum(word.bit_count() for word in _FEATURES.unpack(file.read(_FEATURES.size)))
            file.seek(data_offset + data_size)
            sections = list(_SECTION.iter_unpack(file.read(features * _SECTION.size)))
    except (OSError, struct.error, OverflowError):
        return False
    return (
        magic == b"PERFILE2"
        and data_size > 0
        and len(sections) == features > 0
        and all(offset + length <= size for offset, length in sections)
    )


class _Perf:
    """A perf that is attached to a waiting program."""

    def __init__(
        self,
        *,
        child: command.Child,
        argv: tuple[str, ...],
        control: FileIO,
        ack: FileIO,
        words: FileIO,
        perf_data: Path,
    ) -> None:
        self.argv = argv
        self._child = child
        self._control = control
        self._ack = ack
        self._words = words
        self._perf_data = perf_data
        self._ended_s: float | None = None

    def enable(self) -> None:
        """Switch the events on, and return when they are."""
        self._tell("enable")
        if not select.select([self._ack], [], [], ATTACH_LIMIT_S)[0]:
            raise FailedError(
                f"perf did not attach within {ATTACH_LIMIT_S:.0f} s",
                expected="perf to acknowledge that its events are on",
                hint="try again when this machine is less busy",
                tail=perf_failures.essence(self.said()),
            )
        if not self._ack.read(64).startswith(b"ack"):
            raise self._failure()

    def check_recording(self) -> None:
        """Raise when perf no longer records although the program still runs."""
        code = self._child.wait(0)
        if code is None:
            return
        self._ended_s = self._ended_s or time.monotonic()
        if code != 0 or time.monotonic() - self._ended_s > DETACH_GRACE_S:
            raise self._failure()

    def finish(self) -> None:
        """Wait until perf has written everything, as it does by itself once the program is gone."""
        nudges: list[Callable[[], None]] = [
            lambda: self._tell("stop"),
            lambda: self._child.signal_group(signal.SIGINT),
            lambda: self._child.signal_group(signal.SIGKILL),
        ]
        for patience_s, nudge in zip(NUDGES_S, nudges, strict=True):
            if self._child.wait(patience_s) is not None:
                break
            nudge()
        code = self._child.wait()
        if code not in (0, -signal.SIGINT) or not is_whole(self._perf_data):
            raise self._failure()

    def said(self) -> str:
        """What perf has written to its stdout and stderr so far."""
        words = self._words.fileno()
        return os.fsdecode(os.pread(words, os.fstat(words).st_size, 0))

    def _tell(self, order: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._control.write(f"{order}\n".encode())

    def _failure(self) -> IpuenvError:
        return perf_failures.explain(self.said(), self._child.wait() or 0, folder=self._perf_data.parent)


@contextlib.contextmanager
def _attached(pid: int, perf_data: Path, options: RecordOptions, perf_env: Mapping[str, str]) -> Iterator[_Perf]:
    """A perf on its way to being attached to ``pid``, its events off; ended with the block."""
    perf = os.fspath(command.find("perf", path=perf_env.get("PATH")))
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as given:
            control_out, control_in = os.pipe()
            given.callback(os.close, control_out)
            control = stack.enter_context(os.fdopen(control_in, "wb", buffering=0))
            ack_out, ack_in = os.pipe()
            given.callback(os.close, ack_in)
            ack = stack.enter_context(os.fdopen(ack_out, "rb", buffering=0))
            # Not a file: its folder may be the one that runs full.
            words = stack.enter_context(os.fdopen(os.memfd_create("perf"), "w+b", buffering=0))
            attach = ("-N", "-o", os.fspath(perf_data), "-p", str(pid), "-D", "-1")
            argv = (perf, "record", *options.argv(), *attach, "--control", f"fd:{control_out},{ack_in}")
            child = command.start(
                argv, env=_perf_environment(perf_env), stdout=words, stderr=words, pass_fds=(control_out, ack_in)
            )
            stack.enter_context(command.running(child))
        yield _Perf(child=child, argv=argv, control=control, ack=ack, words=words, perf_data=perf_data)


def _perf_environment(perf_env: Mapping[str, str]) -> dict[str, str]:
    """``perf_env`` without the settings of whoever runs it, which could change what is recorded."""
    return {**perf_env, "PERF_CONFIG": os.devnull, "LC_ALL": "C"}
