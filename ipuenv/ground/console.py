"""The one place that prints.

Progress and notes go to stderr, answers to stdout, so that ``--json`` stands alone there. On a terminal a running step
shows its elapsed and expected time; elsewhere every step is one plain line when it starts and one when it ends.
Whatever did not come from us (symbols, logs, labels) passes :func:`printable` first.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.console import Console as RichConsole
    from rich.text import Text

    from ipuenv.ground.errors import IpuenvError


UNLIMITED_COLUMNS = 100_000
"""Width of what is no terminal: a file or a pipe gets every row whole."""


def printable(text: str) -> str:
    r"""``text`` without characters that could steer a terminal; tabs become spaces, the rest is shown as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\t" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def duration(seconds: float) -> str:
    """``0.42 s``, ``7.3 s``, ``2 min 05 s``, ``1 h 04 min``."""
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 0.995 else f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(size_bytes: float) -> str:
    """``812 B``, ``3.4 kB``, ``1.2 GB`` (powers of 1000)."""
    value, unit = float(size_bytes), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.1f} {unit}"


@dataclass(slots=True)
class Step:
    """A step that is running; ``note`` is added to its closing line."""

    note: str = ""


class Console:
    """Speaks to the person. One is made per command and handed down; nothing else prints."""

    def __init__(self, *, out: TextIO | None = None, err: TextIO | None = None, json_only: bool = False) -> None:
        self._out_file = out if out is not None else sys.stdout
        self._err_file = err if err is not None else sys.stderr
        self.json_only = json_only

    # rich is imported when something is first printed: a command that only lists must not wait for it

    @cached_property
    def _err(self) -> RichConsole:
        return _rich(self._err_file)

    @cached_property
    def _out(self) -> RichConsole:
        return self._err if self.json_only else _rich(self._out_file)

    @property
    def is_interactive(self) -> bool:
        """Whether progress goes to a terminal."""
        return self._err.is_terminal and not self._err.is_dumb_terminal

    # -- answers --------------------------------------------------------------------------------------------------

    def answer(self, text: str = "", style: str = "") -> None:
        """A line of the answer, on stdout; moved to stderr when stdout belongs to JSON."""
        self._out.print(_text(text), style=style)

    def table(
        self,
        rows: Sequence[Sequence[str]],
        *,
        header: Sequence[str] = (),
        right: frozenset[int] = frozenset(),
        indent: int = 0,
    ) -> None:
        """Rows in aligned columns, part of the answer; ``right`` names the columns that hold numbers.

        On a terminal the last column is cut to the width; in a file or a pipe every row is whole.
        """
        from rich.padding import Padding
        from rich.table import Table

        table = Table(box=None, show_header=bool(header), pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        columns = len(header) or max((len(row) for row in rows), default=0)
        for index in range(columns):
            title = header[index] if header else ""
            is_last = index == columns - 1
            table.add_column(
                title,
                justify="right" if index in right else "left",
                no_wrap=True,
                overflow="ellipsis" if is_last else "fold",
                min_width=None if is_last else max([len(title), *(len(printable(row[index])) for row in rows)]),
            )
        for row in rows:
            table.add_row(*map(_text, row))
        padded = Padding(table, (0, 0, 0, indent), expand=False)
        if self._out.is_terminal:
            self._out.print(padded)
            return
        with self._out.capture() as captured:
            self._out.print(padded)
        for line in captured.get().splitlines():
            self.answer(line.rstrip())

    def json(self, value: JsonValue) -> None:
        """The machine's answer, alone on stdout."""
        self._out_file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        self._out_file.flush()

    # -- progress and notes ---------------------------------------------------------------------------------------

    def note(self, text: str, style: str = "") -> None:
        """A line of progress, on stderr."""
        self._err.print(_text(text), style=style)

    def warn(self, text: str) -> None:
        """Something that deserves attention but stops nothing."""
        self._mark("warning: ", "bold yellow", text)

    def error(self, error: IpuenvError) -> None:
        """An error in its three beats, the failed tool's last lines and its log."""
        first, *further = error.what.splitlines() or [""]
        self._mark("error: ", "bold red", first)
        for line in further:
            self.note(f"  {line}")
        if error.expected:
            self.note(f"  expected: {error.expected}")
        if error.tail:
            self.note("  last lines:")
            for line in error.tail:
                self.note(f"    {line}", style="dim")
        if error.log is not None:
            self.note(f"  whole log: {error.log}")
        if error.hint:
            self._mark("  next: ", "bold", error.hint)

    @contextlib.contextmanager
    def step(self, text: str, *, expected_s: float | None = None, live: bool = True) -> Iterator[Step]:
        """Announce a step, show its time while it runs, close it with its outcome.

        ``expected_s`` is how long it took last time, in seconds. ``live=False`` is for steps whose tool draws on the
        terminal itself.
        """
        step, began, mark = Step(), time.monotonic(), "✗"
        try:
            with self._running(text, expected_s, live=live):
                yield step
            mark = "✓"
        finally:
            note = f": {step.note}" if step.note else ""
            style = "green" if mark == "✓" else "red"
            self._mark(f"{mark} ", style, f"{text}{note} ({duration(time.monotonic() - began)})")

    @contextlib.contextmanager
    def _running(self, text: str, expected_s: float | None, *, live: bool) -> Iterator[None]:
        if not live or not self.is_interactive:
            hint = f" (about {duration(expected_s)})" if expected_s else ""
            self._mark("> ", "cyan", f"{text}{hint}")
            yield
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        expected = f"of about {duration(expected_s)}" if expected_s else ""
        columns = (SpinnerColumn("line"), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, TextColumn(expected, markup=False), console=self._err, transient=True) as progress:
            progress.add_task(printable(text))
            yield

    def _mark(self, mark: str, style: str, text: str) -> None:
        from rich.text import Text

        self._err.print(Text.assemble((mark, style), printable(text)))


def _rich(file: TextIO) -> RichConsole:
    """A console that prints what it is given: no markup, no emoji, no colouring of numbers, no wrapping."""
    from rich.console import Console as RichConsole

    if hasattr(file, "reconfigure") and (file.encoding or "").lower().replace("-", "") != "utf8":
        file.reconfigure(errors="backslashreplace")
    width = None if file.isatty() else UNLIMITED_COLUMNS
    return RichConsole(file=file, markup=False, emoji=False, highlight=False, soft_wrap=True, width=width)


def _text(text: str) -> Text:
    from rich.text import Text

    return Text(printable(text))
