"""The spawn agent: a small process between ipuenv and the program. Run as ``python -I -S spawn_agent.py IN OUT``.

It exists so that the program's figures are its own. A child's ``ru_maxrss`` starts at the resident size of whoever
forked it, and ipuenv is large; this script imports next to nothing, so the floor is about 7 MB. It also holds the
program back until it is released, so that perf can attach to it first, and it outlives nobody: when its input closes,
because ipuenv let go of it or died, the program's group is killed.

Input: eight bytes, a big-endian length, then that many bytes of NUL-separated text: folder, number of arguments,
arguments, ``NAME=value``...; then single bytes: 0 releases the program, any other is a signal for its group.
Output, one line each: ``waiting PID``; then ``refused chdir|exec ERRNO`` or
``ended WAIT_STATUS WALL_S USER_S SYSTEM_S PEAK_RSS_KIB``.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

RELEASE = 0


def read_exactly(source: int, size: int) -> bytes:
    """``size`` bytes of ``source``; ends the agent when the writer is gone."""
    parts = []
    while size:
        part = os.read(source, min(size, 1 << 16))
        if not part:
            sys.exit(1)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def tell(report: int, *words: object) -> None:
    """Send one line; a reader that is gone wants no report."""
    try:
        os.write(report, (" ".join(map(str, words)) + "\n").encode())
    except OSError:
        return


def become(folder: bytes, argv: list[bytes], env: dict[bytes, bytes], gate: int, fault: int) -> None:
    """Wait for the gate, then turn into the program. Returns only by ending the process."""
    step, number = "chdir", 0
    try:
        os.setpgid(0, 0)
        # Python ignores the first two; a shell that put ipuenv in the background may have ignored SIGINT.
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(ignored, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(folder)
        step = "exec"
        if os.read(gate, 1):  # from here on perf records
            os.execve(argv[0], argv, env)  # noqa: S606 (becoming the program is the point)
    except OSError as error:
        number = error.errno or 0
    finally:
        tell(fault, step, number)
        os._exit(127)


def has_ended(pid: int) -> bool:
    """Whether the program has ended; it stays a zombie, so that its group's number cannot be taken yet."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def make_group(pid: int) -> None:
    """Give the child its group; it does the same, whoever comes first."""
    try:
        os.setpgid(pid, pid)
    except OSError:
        return


def signal_group(pid: int, number: int) -> None:
    """Signal the program's group; one that is gone is fine."""
    try:
        os.killpg(pid, number)
    except OSError:
        return


def serve(requests: int, pid: int, gate: int) -> float:
    """Pass on releases and signals until the program has ended; when it was released, on the monotonic clock."""
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for deadly in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(deadly, signal.SIG_IGN)
    watched, released_s = [requests, wake], time.monotonic()
    while not has_ended(pid):
        ready, _, _ = select.select(watched, [], [])
        if wake in ready:
            os.read(wake, 512)
        if requests in ready:
            order = os.read(requests, 1)
            if order == bytes([RELEASE]):
                released_s = time.monotonic()
                os.write(gate, b"\0")
            else:
                signal_group(pid, order[0] if order else signal.SIGKILL)
                watched = watched if order else [wake]
    return released_s


def main() -> None:
    """One request, one program, one report."""
    requests, reports = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(requests, False)
    os.set_inheritable(reports, False)
    size = int.from_bytes(read_exactly(requests, 8), "big")
    folder, count, *rest = read_exactly(requests, size).split(b"\0")
    argv, pairs = rest[: int(count)], rest[int(count) :]
    env = dict(pair.split(b"=", 1) for pair in pairs)
    gate_out, gate_in = os.pipe()
    fault_out, fault_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate_in)
        become(folder, argv, env, gate_out, fault_in)
    os.close(fault_in)
    make_group(pid)
    tell(reports, "waiting", pid)
    released_s = serve(requests, pid, gate_in)
    wall_s = time.monotonic() - released_s
    signal_group(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    fault = os.read(fault_out, 64).decode().split()
    if fault:
        tell(reports, "refused", *fault)
    else:
        tell(reports, "ended", status, wall_s, usage.ru_utime, usage.ru_stime, usage.ru_maxrss)


if __name__ == "__main__":
    main()
