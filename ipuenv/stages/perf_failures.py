"""What perf's complaints mean: from its words to an error that says what to type next."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ipuenv.ground import command
from ipuenv.ground.errors import FailedError, IpuenvError, MissingError, UsageError

_KERNEL_SETTINGS = Path("/proc/sys/kernel")
_CONTAINER = "in a container, allow the call: '--cap-add PERFMON --security-opt seccomp=unconfined'"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    """One known complaint. The texts may hold ``{said}``, the complaining line, and the names of :func:`_facts`."""

    pattern: re.Pattern[str]
    error: type[IpuenvError]
    what: str
    expected: str
    hint: str = ""


def _cause(pattern: str, error: type[IpuenvError], what: str, expected: str, hint: str = "") -> _Cause:
    return _Cause(pattern=re.compile(pattern), error=error, what=what, expected=expected, hint=hint)


_CAUSES: Final = (
    _cause(
        r"No space left on device|Disk quota exceeded|File too large",
        FailedError,
        "no room was left in '{folder}' while recording: {said}",
        "room for the whole recording",
        "free some space there ('df -h {folder}'), or record less: a lower frequency, 'fp' instead of 'dwarf'",
    ),
    _cause(
        r"failed to open .+ : ",
        FailedError,
        "perf could not create its file: {said}",
        "a folder that may be written to",
    ),
    _cause(
        r"Permission error mapping pages|failed to mmap with 1\b",
        MissingError,
        "perf may not lock enough memory for its buffers (kernel.perf_event_mlock_kb is {mlock_kb})",
        "a limit that holds perf's buffers, one for each CPU",
        "sudo sysctl kernel.perf_event_mlock_kb=4096, or record with fewer buffer pages",
    ),
    _cause(
        r"No permission to enable|Access to performance monitoring|You may not have permission",
        MissingError,
        "perf is not permitted to record here (kernel.perf_event_paranoid is {paranoid})",
        "perf_event_open to be permitted; levels up to 2 permit it for one's own programs, 1 shows kernel frames too",
        "{permit}",
    ),
    _cause(
        r"sys_perf_event_open\(\) syscall returned with 38|Function not implemented",
        MissingError,
        "this kernel has no perf events: {said}",
        "a Linux kernel with CONFIG_PERF_EVENTS; some sandboxes have none",
        "run on another machine, or run without recording",
    ),
    _cause(
        r"event syntax error|invalid or unsupported event",
        UsageError,
        "perf does not know the event: {said}",
        "an event that 'perf list' names",
        "perf list",
    ),
    _cause(
        r"event is not supported|doesn't support sampling|in per-thread mode, enable system wide|\bNo such device\b",
        MissingError,
        "this machine cannot record the event: {said}",
        "an event that this CPU, or this virtual machine, counts",
        "leave the event out: perf then takes cycles, or cpu-clock where there are no counters",
    ),
    _cause(
        r"unknown option [`']control",
        MissingError,
        "this perf is too old to be switched on through a control pipe: {said}",
        "perf 5.9 or newer",
        command.INSTALL_HINTS["perf"],
    ),
    _cause(
        r"perf not found for kernel",
        MissingError,
        "perf is not installed for the running kernel: {said}",
        "the package that fits this kernel",
        "apt-get install linux-tools-$(uname -r)",
    ),
    _cause(
        r"^ *callchain: ",
        UsageError,
        "perf does not take the call graph: {said}",
        "'fp' or 'dwarf,BYTES'",
    ),
    _cause(
        r"Too many events are opened",
        MissingError,
        "perf ran out of open files, of which it needs several for each CPU",
        "a higher limit on open files",
        "ulimit -n 65536",
    ),
)


def explain(said: str, exit_code: int, *, folder: Path | None = None) -> IpuenvError:
    """The error for a perf that ended too early, or left an incomplete file, having ``said`` this.

    ``folder`` is where the recording was to be written.
    """
    lines = essence(said)
    for cause in _CAUSES:
        line = next((line for line in lines if cause.pattern.search(line)), None)
        if line is not None:
            facts = _facts(line.strip(), folder)
            rest = [other for other in lines if other != line] if "{said}" in cause.what else lines
            return cause.error(
                cause.what.format_map(facts),
                expected=cause.expected.format_map(facts),
                hint=cause.hint.format_map(facts),
                tail=rest[:_TAIL_LINES],
            )
    return FailedError(
        f"perf record did not complete the recording ({command.ending(exit_code)})",
        expected="perf to record until the program ends, and to write its whole file",
        hint="read perf's last lines, and look for an out-of-memory kill in 'dmesg'",
        tail=lines[:_TAIL_LINES],
    )


def essence(said: str) -> list[str]:
    """What perf had to say, without the pages of usage that follow them."""
    lines = [line.rstrip() for line in re.split(r"^ *Usage: ", said, maxsplit=1, flags=re.MULTILINE)[0].splitlines()]
    return [line for line in lines if line and line not in ("Error:", "Events disabled", "Events enabled")]


_TAIL_LINES = 4
"""perf says what is wrong first, and then goes on about it."""


def _facts(said: str, folder: Path | None) -> dict[str, str]:
    paranoid = _kernel_setting("perf_event_paranoid")
    sysctl = "sudo sysctl kernel.perf_event_paranoid=1"
    return {
        "said": said,
        "folder": str(folder or ""),
        "paranoid": paranoid,
        "mlock_kb": _kernel_setting("perf_event_mlock_kb"),
        "permit": _CONTAINER if paranoid in ("1", "0", "-1") else f"{sysctl}; {_CONTAINER}",
    }


def _kernel_setting(name: str) -> str:
    try:
        return (_KERNEL_SETTINGS / name).read_text(encoding="ascii").strip()
    except OSError:
        return "unreadable"
