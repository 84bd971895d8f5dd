"""The command ``ipuenv``: Invoke's program over our tasks, with our exit code for a wrong command line."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator

from invoke.exceptions import ParseError
from invoke.program import Program

import ipuenv
from ipuenv.front import tasks

USAGE_EXIT_CODE = 2


class _Program(Program):
    """Invoke ends with 1 for a wrong command line; everywhere else in ipuenv that is 2."""

    def parse_core(self, argv: list[str] | None) -> None:
        with _usage_errors():
            super().parse_core(argv)

    def parse_tasks(self) -> None:
        with _usage_errors():
            super().parse_tasks()

    def parse_cleanup(self) -> None:
        with _usage_errors():
            super().parse_cleanup()


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except ParseError as error:
        # Invoke parses before there is a console to speak through
        sys.stderr.write(f"error: {error}\n  next: ipuenv --list, or ipuenv TASK --help\n")
        raise SystemExit(USAGE_EXIT_CODE) from error


program = _Program(name="ipuenv", binary="ipuenv", namespace=tasks.namespace, version=ipuenv.__version__)


def print_help(task: str) -> None:
    """Print the help of a task. Invoke uses up a task's help texts when it parses, so fresh tasks are made for it."""
    fresh = importlib.reload(tasks).namespace
    _Program(name="ipuenv", binary="ipuenv", namespace=fresh).run(["ipuenv", "--help", task], exit=False)


def main() -> None:
    """Run the command line and exit with its code."""
    program.run()
