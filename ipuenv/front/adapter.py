"""The one place where errors become exit codes."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from invoke.exceptions import Exit

from ipuenv.ground.console import Console
from ipuenv.ground.errors import FailedError, InterruptedRunError, IpuenvError, UsageError

if TYPE_CHECKING:
    from invoke.context import Context

_DONE = 0


def command(body: Callable[..., int]) -> Callable[..., None]:
    """Make a task of a function that takes a console and returns an exit code.

    Invoke finds the options by the wrapped function's signature; its context is replaced by the console.
    """

    @functools.wraps(body)
    def wrapped(_context: Context, *args: Any, **options: Any) -> None:
        console = Console(json_only=bool(options.get("json")))
        code = run(console, lambda: 0 if _asks_for_help(body.__name__, options) else body(console, *args, **options))
        if code != _DONE:
            raise Exit(code=code)

    return wrapped


def _asks_for_help(task: str, options: Mapping[str, object]) -> bool:
    """Whether Invoke took ``--help`` for a positional argument, as it does; then the help is printed."""
    for parameter, value in options.items():
        name = parameter.replace("_", "-")
        if not isinstance(value, str) or not value.startswith("-") or value == "-":
            continue
        if value in ("-h", "--help"):
            from ipuenv.front.cli import print_help

            print_help(task)
            return True
        raise UsageError(
            f"'{value}' was given as {name}",
            expected=f"a {name}; options begin with '-', so Invoke may not know this one",
            hint=f"ipuenv {task} --help",
        )
    return False


def run(console: Console, body: Callable[[], int]) -> int:
    """Run a command to its exit code: what went wrong is said, never a traceback for a user's mistake."""
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return body()
    except IpuenvError as error:
        console.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        console.error(InterruptedRunError("interrupted: nothing was stored", hint="start it again"))
        return InterruptedRunError.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our answer has left; nothing is to be said to nobody
        return 1
    except OSError as error:
        place = f" '{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else ""
        console.error(
            FailedError(
                f"the system refused{place}: {error.strerror or error}",
                expected="files and folders that can be read and written",
                hint="look at the path, its rights, and the space on its disk",
            )
        )
        return FailedError.exit_code
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
