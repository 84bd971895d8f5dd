"""What cargo writes to stderr: drawn on the terminal as it comes, up to its first error, and kept from there on.

A compile error is thereby seen once, in the error that a failed build becomes, and not twice. cargo is given a
pseudo-terminal where we have a terminal, so that it draws its progress and colours as it does by itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import termios
import threading
import tty
from collections.abc import Iterator
from typing import Final

_ESCAPE = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
_CUT_ESCAPE = re.compile(rb"\x1b(\[[0-9;]*)?\Z")
_ERROR = re.compile(rb"(?:\A|(?<=[\r\n]))(?:\x1b\[[0-9;]*[A-Za-z])*error(?=[^A-Za-z])")
_CLEAR_LINE = b"\r\x1b[0m\x1b[K"
_JOIN_S: Final = 2.0  # a daemon that a build script left behind may hold on to the stream


class CargoOutput:
    """cargo's stderr so far. ``stream`` is the descriptor to give to cargo; ``terminal`` is where it is shown."""

    def __init__(self, *, stream: int, terminal: int | None) -> None:
        self.stream = stream
        self._terminal = terminal
        self._all = bytearray()
        self._shown = 0
        self._line = 0
        self._error_at: int | None = None

    def take(self, chunk: bytes) -> None:
        """Show ``chunk`` unless it belongs to an error, or may turn out to."""
        self._all += chunk
        if self._error_at is not None:
            return
        found = _ERROR.search(self._all, self._line)
        self._line = max(self._all.rfind(b"\n"), self._all.rfind(b"\r")) + 1
        if found is not None:
            self._error_at = found.start()
            self._show(self._error_at, _CLEAR_LINE)
        elif self._line < len(self._all) and b"error".startswith(_visible(self._all[self._line :])):
            self._show(self._line)
        else:
            self._show(len(self._all))

    def errors(self) -> list[str]:
        """The lines from the first error on, with their colours; all lines when cargo named no error."""
        text = bytes(self._all[self._error_at or 0 :]).rstrip()
        # What a line held before a carriage return was progress, and is overwritten.
        return [os.fsdecode(line.rstrip(b"\r").rpartition(b"\r")[2]) for line in text.split(b"\n")] if text else []

    def show_lines(self, lines: list[str]) -> bool:
        """Show lines of :meth:`errors` on the terminal; False when there is none."""
        if self._terminal is None:
            return False
        self._write(b"".join(os.fsencode(line) + b"\n" for line in lines))
        return True

    def _show(self, end: int, then: bytes = b"") -> None:
        if end > self._shown or then:
            self._write(bytes(self._all[self._shown : end]) + then)
        self._shown = max(self._shown, end)

    def _write(self, data: bytes) -> None:
        if self._terminal is not None:
            with contextlib.suppress(OSError):  # the terminal was closed; the build goes on
                while data:
                    data = data[os.write(self._terminal, data) :]


def plain(line: str) -> str:
    """A line without its colours."""
    return os.fsdecode(_ESCAPE.sub(b"", os.fsencode(line)))


@contextlib.contextmanager
def cargo_output(*, terminal: int | None) -> Iterator[CargoOutput]:
    """A stream for cargo's stderr, read to its end when the block ends. ``terminal`` None shows nothing."""
    if terminal is None:
        reader, writer = os.pipe()
    else:
        reader, writer = os.openpty()
        tty.setraw(writer)
        with contextlib.suppress(termios.error):
            termios.tcsetwinsize(writer, termios.tcgetwinsize(terminal))
    output = CargoOutput(stream=writer, terminal=terminal)
    thread = threading.Thread(target=_read, args=(reader, output), daemon=True)
    thread.start()
    try:
        yield output
    finally:
        os.close(writer)
        thread.join(_JOIN_S)


def _read(reader: int, output: CargoOutput) -> None:
    with contextlib.suppress(OSError), os.fdopen(reader, "rb", buffering=0) as stream:  # EIO: a pty without writers
        while chunk := stream.read(1 << 16):
            output.take(chunk)


def _visible(data: bytearray) -> bytes:
    return bytes(_CUT_ESCAPE.sub(b"", _ESCAPE.sub(b"", data)))
