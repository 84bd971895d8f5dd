"""The error tree. Every error knows its exit code and speaks in three beats: what failed, what was expected, what next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

TAIL_LINES = 10
"""How many last lines of a failed tool's log an error carries."""


class IpuenvError(Exception):
    """Something a person can act on.

    ``what`` names the failure and quotes the value; ``expected`` says what was wanted or is likely; ``hint`` is what to
    type next; ``tail`` holds the last lines of a failed tool and ``log`` the path of all of them.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        what: str,
        *,
        expected: str = "",
        hint: str = "",
        tail: Sequence[str] = (),
        log: Path | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.hint = hint
        self.tail = tuple(tail)[-TAIL_LINES:]
        self.log = log


class FailedError(IpuenvError):
    """The profiled program, or a tool that ipuenv runs, failed."""


class UsageError(IpuenvError):
    """The command line, a profile or a file someone brought is wrong, or the choice is ambiguous."""

    exit_code = 2


class MissingError(IpuenvError):
    """Something that is needed is not on this machine, or not permitted on it."""

    exit_code = 3


class GateError(IpuenvError):
    """Everything worked and the answer is no."""

    exit_code = 4


class BusyError(IpuenvError):
    """The device stayed busy for as long as we were willing to wait."""

    exit_code = 5


class InterruptedRunError(IpuenvError):
    """Someone pressed Ctrl-C or asked us to end."""

    exit_code = 130


_SEVERITY = (130, 5, 3, 4, 2, 1, 0)


def worst(codes: Sequence[int]) -> int:
    """The exit code that stands for several; 0 for none. A code outside the table counts as a failure, 1."""
    known = [code if code in _SEVERITY else 1 for code in codes]
    return min(known, key=_SEVERITY.index, default=0)
