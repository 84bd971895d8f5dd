"""What is wrong with a file that a person wrote: every problem, each with its place and the nearest spelling."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import tomli

from ipuenv.ground.errors import UsageError

MAX_SHOWN_CHARS = 60
"""How much of a value a message quotes."""

MAX_LISTED = 20
"""How many allowed spellings a message lists."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

TomlPath = tuple[str | int, ...]
"""Keys and list indices from the top of a TOML file down to one value."""


class Problem(NamedTuple):
    """One thing that is wrong, and where. An empty path stands for the file itself."""

    path: TomlPath
    text: str


class FileError(UsageError):
    """A file does not say what it may say. ``problems`` holds all of them, ``what`` one line for each."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        lines = [": ".join(filter(None, (file, toml_path(path), text))) for path, text in self.problems]
        super().__init__("\n".join(lines), hint=f"correct {file}, then run the same command again")


class ProfileError(FileError):
    """A profile or ``builds.toml`` is wrong."""


class ProblemsError(ValueError):
    """Raised by a validator that found several things; paths are relative to the value under validation."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.text for problem in self.problems))


def toml_path(path: Sequence[str | int]) -> str:
    """``run.args[3]``, ``views."my view".elide``."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += ("." if text else "") + (key if _BARE_KEY.match(key) else quoted(key))
    return text


def has_control_characters(text: str) -> bool:
    """Whether ``text`` holds a NUL, a line break or anything else that neither a process nor a line can carry."""
    return _CONTROL.search(text) is not None


def quoted(value: object) -> str:
    """``value`` on one line as TOML would write it, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = "".join(c if c.isprintable() else c.encode("ascii", "backslashreplace").decode() for c in text)
    return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 1] + "…"


def found(value: object) -> str:
    """What a value is and says: ``the string "99"``, ``the boolean true``, ``the list [1, 2]``."""
    kinds: tuple[tuple[type, str], ...] = (
        (bool, "boolean"),  # before int, which it is
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (list, "list"),
        (dict, "table"),
    )
    kind = next((word for type_, word in kinds if isinstance(value, type_)), "date or time")
    return f"the {kind} {quoted(value)}"


def nearest(word: str, candidates: Collection[str]) -> str | None:
    """The candidate that ``word`` was probably meant to be; case, ``-`` and ``_`` hardly count."""
    folded = {_folded(candidate): candidate for candidate in candidates}
    matches = difflib.get_close_matches(_folded(word), list(folded), n=1)
    return folded[matches[0]] if matches else None


def _folded(word: str) -> str:
    return word.casefold().replace("_", "-")


def listed(candidates: Collection[str]) -> str:
    """``a, b, c``, cut to a length that can be read."""
    shown = list(candidates)[:MAX_LISTED]
    rest = len(candidates) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def unknown(what: str, word: str, allowed: Collection[str]) -> str:
    """``unknown key. Did you mean 'args'? Allowed: args, env.``; ``what`` says what kind of word it is."""
    guess = nearest(word, allowed)
    suggestion = f" Did you mean '{guess}'?" if guess else ""
    choice = f" Allowed: {listed(allowed)}." if allowed else " None is allowed here."
    return f"unknown {what}.{suggestion}{choice}"


def load_toml(path: Path, *, file: str, error: type[FileError] = ProfileError) -> dict[str, object]:
    """The tables of a TOML file; ``file`` is the name that messages use.

    Raises:
        FileError: it cannot be read, is not UTF-8 or is not TOML; an ``error``, with line and column where known.
    """
    try:
        raw = path.read_bytes()
    except OSError as failure:
        raise error(file, [Problem((), f"cannot be read: {failure.strerror}")]) from failure
    try:
        return tomli.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as failure:
        line = raw.count(b"\n", 0, failure.start) + 1
        raise error(file, [Problem((), f"line {line}: not UTF-8, which TOML has to be")]) from failure
    except tomli.TOMLDecodeError as failure:
        text = f"line {failure.lineno}, column {failure.colno}: not TOML: {failure.msg}"
        raise error(file, [Problem((), text)]) from failure
    except (RecursionError, ValueError) as failure:  # nested or long beyond what Python reads
        raise error(file, [Problem((), f"not readable as TOML: {quoted(str(failure))}")]) from failure
