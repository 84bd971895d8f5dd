"""What the profiled program said of itself: its phases, its wait for the device, whether it took the device.

The lines are those of ``tracing_subscriber``'s text and JSON formats; colours are stripped, whoever asked for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

Touched = Literal["yes", "no", "unknown"]

PHASE_FINISHED = "package build phase finished"
WAITING = "waiting for hardware ownership"
ACQUIRED = "acquired hardware ownership"
DEVICE_USED = (ACQUIRED, "hardwareTest=", "application loaded")
"""Words that only a program prints which took the device or loaded something onto it."""

EVIDENCE_CHARS = 200
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_TEXT_LINE = re.compile(r"\s*(?P<time>\d{4}-\d\d-\d\dT\S+Z)\s+(?P<level>TRACE|DEBUG|INFO|WARN|ERROR)\s+(?P<rest>.*)$")
_FIELD = re.compile(r'(?P<key>[A-Za-z_][\w.]*)=(?P<value>"(?:[^"\\]|\\.)*"|\S+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase that the program timed; ``elapsed_ms`` in milliseconds. Phases may nest."""

    name: str
    elapsed_ms: float
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLog:
    """The facts of a log. ``lock_wait_s`` is None where the program never asked for the lock.

    ``device_touched`` is ``unknown`` where the log holds no line of the program's own logging, since silence then proves
    nothing. ``evidence`` is the line that decided.
    """

    phases: tuple[Phase, ...] = ()
    lock_wait_s: float | None = None
    device_touched: Touched = "unknown"
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One logged event."""

    time: datetime | None
    message: str
    fields: Mapping[str, Any]


def strip_colour(text: str) -> str:
    """``text`` without ANSI escape sequences."""
    return _ANSI.sub("", text)


def read_log(path: Path) -> ProgramLog:
    """Read a program's log; a missing one says nothing."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return parse(file)
    except FileNotFoundError:
        return ProgramLog()


def parse(lines: Iterator[str] | list[str]) -> ProgramLog:
    """Take the facts out of a log's lines."""
    phases: list[Phase] = []
    evidence, has_events = "", False
    waiting_since: datetime | None = None
    wait_s: float | None = None
    for raw in lines:
        text = strip_colour(raw.rstrip("\n"))
        if not evidence and any(words in text for words in DEVICE_USED):
            evidence = text.strip()[:EVIDENCE_CHARS]
        event = _event(text)
        if event is None:
            continue
        has_events = True
        if PHASE_FINISHED in event.message:
            phases.append(_phase(event))
        elif WAITING in event.message:
            waiting_since = event.time
        elif ACQUIRED in event.message and waiting_since is not None and event.time is not None:
            wait_s = (wait_s or 0.0) + max((event.time - waiting_since).total_seconds(), 0.0)
            waiting_since = None
    touched: Touched = "yes" if evidence else "no" if has_events else "unknown"
    return ProgramLog(phases=tuple(phases), lock_wait_s=wait_s, device_touched=touched, evidence=evidence)


def _event(text: str) -> _Line | None:
    """A logged event, in either format; None for a line that is none."""
    if text.startswith("{"):
        return _json_event(text)
    match = _TEXT_LINE.match(text)
    if match is None:
        return None
    rest = match["rest"]
    fields = {found["key"]: found["value"].strip('"') for found in _FIELD.finditer(rest)}
    return _Line(time=_time(match["time"]), message=rest, fields=fields)


def _json_event(text: str) -> _Line | None:
    try:
        event: Any = json.loads(text)
    except ValueError:
        return None
    match event:
        case {"timestamp": str(time), "fields": {"message": str(message), **fields}}:
            return _Line(time=_time(time), message=message, fields={str(key): value for key, value in fields.items()})
        case _:
            return None


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _phase(event: _Line) -> Phase:
    try:
        elapsed_ms = float(event.fields.get("elapsed_ms", 0))
    except (TypeError, ValueError):
        elapsed_ms = 0.0
    success = str(event.fields.get("success", "true")).lower() == "true"
    return Phase(name=str(event.fields.get("phase", "")), elapsed_ms=elapsed_ms, success=success)
