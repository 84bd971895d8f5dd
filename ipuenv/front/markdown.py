"""Markdown from text that nobody vouches for: symbols, notes, paths and log lines stay what they are on a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from ipuenv.ground.console import printable

LONGEST_NAME = 200
"""Characters of a name beyond which a table shows its ends only."""

_SPECIAL = re.compile(r"[\\`*_\[\]#~$]")
_AT_THE_START = re.compile(r"(?P<number>\d*)(?P<mark>(?<=\d)[.)](?=\s|$)|(?<!\d)[-+=])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
_NEEDS_NO_CARE = re.compile(r"[^\s`|\\]+(?: [^\s`|\\]+)*")


def text(value: str) -> str:
    """``value`` as running text."""
    shown = printable(value).strip()
    escaped = "".join(_ENTITIES.get(char) or (f"\\{char}" if _SPECIAL.match(char) else char) for char in shown)
    # What would begin a list, a rule or a heading when it stands first in a line.
    return _AT_THE_START.sub(r"\g<number>\\\g<mark>", escaped, count=1) if _AT_THE_START.match(escaped) else escaped


def code(value: str) -> str:
    """``value`` as code, in a sentence or a table."""
    shown = printable(value)
    if _NEEDS_NO_CARE.fullmatch(shown):
        return f"`{shown}`"
    # A code span cannot hold every text inside a table; entities can.
    return (
        "<code>"
        + "".join(char if char.isalnum() or ord(char) > 127 else f"&#{ord(char)};" for char in shown)
        + "</code>"
    )


def shortened(value: str) -> str:
    """``value`` with its middle left out where it is very long."""
    half = LONGEST_NAME // 2
    return value if len(value) <= LONGEST_NAME else f"{value[:half]}…{value[-half:]}"


def link(label: str, path: str) -> str:
    """A link to a file below the page's folder; ``label`` is Markdown already."""
    return f"[{label}]({quote(path.encode('utf-8', 'backslashreplace'))})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> str:
    """A table of cells that are Markdown already; ``right`` names the columns that hold numbers."""
    rule = ["---:" if column in right else "---" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows])


def fence(script: str, language: str = "bash") -> str:
    """A block of code, whatever backticks it holds."""
    longest = max((len(run) for run in re.findall(r"`+", script)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{language}\n{script}\n{mark}"
