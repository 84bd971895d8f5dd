"""Templates: text with ``{placeholders}``, as profiles use them; ``{{`` and ``}}`` stand for the braces themselves."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ipuenv.ground.profile_errors import quoted, unknown

LABEL_PLACEHOLDER = ""
"""The name of ``{}``, which only labels have."""

_TOKEN = re.compile(r"(?P<open>\{\{)|(?P<close>\}\})|\{(?P<name>[^{}]*)\}|(?P<stray>[{}])|(?P<text>[^{}]+)")
_WORD = re.compile(r"[A-Za-z0-9_-]+\Z")


class _Placeholder(NamedTuple):
    name: str


def _scan(template: str) -> tuple[list[str | _Placeholder], list[str]]:
    pieces: list[str | _Placeholder] = []
    faults: list[str] = []
    for token in _TOKEN.finditer(template):
        kind = token.lastgroup
        if kind == "name":
            pieces.append(_Placeholder(token["name"]))
        elif kind == "stray":
            brace = token.group()
            state = "is never closed" if brace == "{" else "closes nothing"
            faults.append(f"'{brace}' in column {token.start() + 1} {state}. Write '{brace * 2}' for the brace itself.")
        else:
            pieces.append({"open": "{", "close": "}"}.get(str(kind), token.group()))
    return pieces, faults


def placeholders(template: str) -> tuple[str, ...]:
    """The names that ``template`` uses, in order, repetitions included."""
    return tuple(piece.name for piece in _scan(template)[0] if isinstance(piece, _Placeholder))


def template_problems(
    template: str, *, allowed: Collection[str], refused: Mapping[str, str] | None = None
) -> list[str]:
    """Everything wrong with a template; ``refused`` gives the reason why a known name may not stand here."""
    reasons = refused or {}
    problems = _scan(template)[1]
    for name in dict.fromkeys(placeholders(template)):
        if name in reasons:
            problems.append(f"'{{{name}}}': {reasons[name]}")
        elif name not in allowed:
            braces = "" if _WORD.match(name) else " Write '{{' and '}}' for braces themselves."
            problems.append(unknown(f"placeholder {quoted('{' + name + '}')}", name, allowed) + braces)
    return problems


def label_problems(label: str) -> list[str]:
    """Everything wrong with an axis's label, which holds ``{}`` exactly once and no other placeholder."""
    problems = _scan(label)[1]
    names = placeholders(label)
    problems += [
        f"unknown placeholder {quoted('{' + name + '}')}. A label takes only '{{}}'." for name in names if name
    ]
    count = names.count(LABEL_PLACEHOLDER)
    if count != 1:
        problems.append(f"wanted '{{}}' exactly once, for the value; found it {count} times in {quoted(label)}.")
    return problems


def expand(template: str, values: Mapping[str, str]) -> str:
    """``template`` with its placeholders replaced; what is put in is not read again.

    Raises:
        ValueError: the template is malformed, which loading a profile rules out.
        KeyError: a placeholder has no value.
    """
    pieces, faults = _scan(template)
    if faults:
        raise ValueError(" ".join(faults))
    return "".join(values[piece.name] if isinstance(piece, _Placeholder) else piece for piece in pieces)


def expand_label(label: str, value: object) -> str:
    """An axis's label for one of its values: ``16threads`` from ``{}threads``."""
    return expand(label, {LABEL_PLACEHOLDER: str(value)})


def escape(text: str) -> str:
    """A template that expands to ``text``."""
    return text.replace("{", "{{").replace("}", "}}")
