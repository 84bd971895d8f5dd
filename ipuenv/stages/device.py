"""The device's lock, held by ipuenv around a program that does not take it itself.

flock(2), which is what the workspace's programs use through Rust's ``File::lock``; a POSIX lock (lockf) would not
exclude them. The file is never unlinked: whoever waits on it would then wait on a file that nobody else sees.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ipuenv.ground.errors import BusyError, MissingError

_POLL_S = 0.1


@contextlib.contextmanager
def held(lock: Path, *, timeout_s: float | None = None) -> Iterator[float]:
    """Hold the lock for a block; gives the seconds that it was waited for. None waits for ever.

    Raises:
        BusyError: somebody else held it for ``timeout_s``.
        MissingError: the lock file cannot be opened or made.
    """
    began = time.monotonic()
    descriptor = _open(lock)
    try:
        while not _try(descriptor):
            waited_s = time.monotonic() - began
            if timeout_s is not None and waited_s >= timeout_s:
                raise BusyError(
                    f"the device stayed busy: somebody holds '{lock}' since before {waited_s:.0f} s",
                    expected="the lock to become free in time",
                    hint="wait longer with --lock-timeout SECONDS, or look who has it: fuser -v " + str(lock),
                )
            time.sleep(_POLL_S)
        yield time.monotonic() - began
    finally:
        os.close(descriptor)


def _open(lock: Path) -> int:
    """Open what is there before making anything: under ``fs.protected_regular`` O_CREAT fails on another's file."""
    try:
        with contextlib.suppress(FileNotFoundError):
            return os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
        lock.parent.mkdir(parents=True, exist_ok=True)
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise MissingError(
            f"the device's lock '{lock}' cannot be opened: {error.strerror}",
            expected="a file that everybody who uses the device may open",
            hint="name another with IPUENV_DEVICE_LOCK, or mend its rights",
        ) from error


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
