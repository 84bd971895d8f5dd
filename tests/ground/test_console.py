"""What the console prints: plain lines where there is no terminal, nothing that steers one, JSON alone on stdout."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from ipuenv.ground.console import Console, duration, printable, size
from ipuenv.ground.errors import UsageError


def consoles(*, json_only: bool = False) -> tuple[Console, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Console(out=out, err=err, json_only=json_only), out, err


def test_answers_go_to_stdout_and_notes_to_stderr() -> None:
    console, out, err = consoles()
    console.answer("the answer")
    console.note("progress")
    assert (out.getvalue(), err.getvalue()) == ("the answer\n", "progress\n")


def test_json_stands_alone() -> None:
    console, out, err = consoles(json_only=True)
    console.answer("for a person")
    console.table([("a", "b")])
    console.json({"value": 1})
    assert json.loads(out.getvalue()) == {"value": 1}
    assert "for a person" in err.getvalue()


def test_a_step_is_one_line_at_its_start_and_one_at_its_end() -> None:
    console, _, err = consoles()
    with console.step("building", expected_s=12) as step:
        step.note = "3 crates"
    first, second = err.getvalue().splitlines()
    assert first == "> building (about 12 s)"
    assert second.startswith("✓ building: 3 crates (")


def test_a_step_that_fails_says_so() -> None:
    console, _, err = consoles()
    with pytest.raises(KeyError), console.step("building"):
        raise KeyError
    assert err.getvalue().splitlines()[1].startswith("✗ building (")


def test_an_error_has_its_beats() -> None:
    console, _, err = consoles()
    error = UsageError(
        "two\nproblems",
        expected="none",
        hint="mend them",
        tail=[f"line {n}" for n in range(20)],
        log=Path("/x/run.log"),
    )
    console.error(error)
    lines = err.getvalue().splitlines()
    assert lines[:3] == ["error: two", "  problems", "  expected: none"]
    assert lines[4] == "    line 10"
    assert lines[-2:] == ["  whole log: /x/run.log", "  next: mend them"]


def test_nothing_foreign_reaches_the_terminal() -> None:
    console, out, err = consoles()
    evil = "\x1b]0;owned\x07\x1b[2J[bold]x[/bold] :smile:\r"
    console.answer(evil)
    console.note(evil)
    console.warn(evil)
    console.error(UsageError(evil, expected=evil, hint=evil, tail=[evil]))
    console.table([(evil, "1")])
    for text in (out.getvalue(), err.getvalue()):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\r" not in text
        assert "[bold]x[/bold] :smile:" in text


def test_long_lines_are_never_wrapped_in_a_pipe() -> None:
    console, out, _ = consoles()
    console.answer("x" * 500)
    console.table([("y" * 500, "1")], header=("name", "n"))
    assert [len(line) for line in out.getvalue().splitlines() if line[0] in "xy"] == [500, 503]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.004, "0.00 s"),
        (0.42, "0.42 s"),
        (7.31, "7.3 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3840, "1 h 04 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (3400, "3.4 kB"), (99_600, "100 kB"), (1_234_000_000, "1.2 GB")],
)
def test_sizes(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text


@pytest.mark.parametrize(
    ("text", "shown"), [("plain é ✓", "plain é ✓"), ("a\tb", "a b"), ("\x1b[1m", "\\x1b[1m"), ("\u202e", "\\u202e")]
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


SHOW = """
import sys, time
from ipuenv.ground.console import Console
console = Console()
with console.step("recording", expected_s=2):
    time.sleep(0.5)
console.answer("done", style="bold")
"""


def on_a_terminal(**environment: str) -> str:
    """What a person sees: the bytes that reach a pseudo-terminal."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment}
    env.pop("NO_COLOR", None) if "NO_COLOR" not in environment else None
    process = subprocess.Popen([sys.executable, "-c", SHOW], stdout=follower, stderr=follower, env=env)
    os.close(follower)
    seen = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    assert process.wait() == 0
    os.close(leader)
    return seen.decode()


def test_a_terminal_shows_elapsed_and_expected_time() -> None:
    seen = on_a_terminal()
    assert "recording 0:00:00 of about 2.0 s" in seen.replace("\x1b[33m", "").replace("\x1b[0m", "")
    assert "\x1b[32m✓" in seen
    assert "\x1b[1mdone" in seen


def test_no_color_is_honoured() -> None:
    seen = on_a_terminal(NO_COLOR="1")
    assert "\x1b[3" not in seen
    assert "✓" in seen


def test_a_dumb_terminal_gets_plain_lines() -> None:
    seen = on_a_terminal(TERM="dumb")
    assert "\x1b" not in seen
    assert "> recording (about 2.0 s)" in seen


def test_a_stream_that_cannot_encode_a_tick_gets_an_escape() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=True,
    )
    assert b"\\u2713" in done.stderr
