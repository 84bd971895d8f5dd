"""Settings: where the workspace, the SDK and the artifacts are, and who said so.

The nearest source wins: an option, an ``IPUENV_*`` variable, the project root's ``.env``, ``[tool.ipuenv]`` of its
``pyproject.toml``, the default. A relative path means the current folder where a person just typed it (option,
variable) and the project root where a file says it. An empty variable counts as not set.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from dotenv.parser import parse_stream

from ipuenv.ground.errors import UsageError
from ipuenv.ground.profile_errors import FileError, Problem, found, load_toml, nearest, quoted, unknown

PREFIX = "IPUENV_"
DOTENV_FILE = ".env"
PYPROJECT_FILE = "pyproject.toml"
PYPROJECT_TABLE = "tool.ipuenv"

DEFAULT_PROFILE = "attention-compiler"
DEFAULT_ARTIFACTS = "artifacts"

NO_SDK = "none"
"""The value of the setting ``sdk`` that says that the program needs none; its value is then None, set by somebody."""

NAMES = ("workspace", "sdk", "artifacts", "profile", "device-lock")
"""Every setting as options and ``[tool.ipuenv]`` spell it; see :func:`variable`."""

T = TypeVar("T")


class Source(StrEnum):
    """Who set a value, the one that wins first."""

    OPTION = "option"
    VARIABLE = "variable"
    DOTENV = "dotenv"
    PYPROJECT = "pyproject"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[T]):
    """A value and where it came from; ``origin`` is what a person would look for: ``.env:3``, ``--workspace``."""

    value: T
    source: Source
    origin: str


AnySetting = Setting[Path | None] | Setting[Path] | Setting[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, paths absolute. ``warnings`` are lines about what was set and means nothing."""

    workspace: Setting[Path | None]
    sdk: Setting[Path | None]
    artifacts: Setting[Path]
    profile: Setting[str]
    device_lock: Setting[Path | None]
    warnings: tuple[str, ...] = ()

    def by_name(self) -> dict[str, AnySetting]:
        """The settings under the names that people use."""
        return {
            "workspace": self.workspace,
            "sdk": self.sdk,
            "artifacts": self.artifacts,
            "profile": self.profile,
            "device-lock": self.device_lock,
        }


class SettingsError(FileError):
    """``.env`` or ``[tool.ipuenv]`` is wrong."""


def variable(name: str) -> str:
    """The variable of a setting: ``IPUENV_DEVICE_LOCK`` for ``device-lock``."""
    return PREFIX + name.upper().replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    text: str
    source: Source
    origin: str
    base: Path


def resolve(
    *, options: Mapping[str, str | None], environ: Mapping[str, str], project_root: Path, cwd: Path
) -> Settings:
    """The settings in force. ``options`` are by name, None where not given; ``environ`` is looked at, never changed.

    Raises:
        UsageError: an option is empty.
        SettingsError: ``.env`` or ``[tool.ipuenv]`` cannot be read, or the latter has an unknown key or a wrong type.
    """
    dotenv = _read_dotenv(project_root / DOTENV_FILE)
    given: dict[str, _Given] = {}
    layers = (
        _from_pyproject(project_root),
        _from_dotenv(dotenv, project_root),
        _from_environ(environ, cwd),
        _from_options(options, cwd),
    )
    for layer in layers:
        given.update(layer)
    home = environ.get("HOME", "")
    return Settings(
        workspace=_optional_path(given.get("workspace"), home),
        sdk=_sdk(given.get("sdk"), home),
        artifacts=_path(given.get("artifacts"), home, default=project_root / DEFAULT_ARTIFACTS),
        profile=_profile(given.get("profile"), home),
        device_lock=_optional_path(given.get("device-lock"), home),
        warnings=(*_unknown_variables(dict.fromkeys(environ, "")), *dotenv.warnings),
    )


def _absolute(given: _Given, home: str) -> Path:
    text = given.text
    if home and (text == "~" or text.startswith("~/")):  # only a shell expands it, and only where it stands unquoted
        text = home + text[1:]
    return Path(os.path.abspath(given.base / text))  # noqa: PTH100 - messages show the path as it was given


def _optional_path(given: _Given | None, home: str) -> Setting[Path | None]:
    if given is None:
        return Setting(value=None, source=Source.DEFAULT, origin=Source.DEFAULT)
    return Setting(value=_absolute(given, home), source=given.source, origin=given.origin)


def _sdk(given: _Given | None, home: str) -> Setting[Path | None]:
    if given is not None and given.text == NO_SDK:
        return Setting(value=None, source=given.source, origin=given.origin)
    return _optional_path(given, home)


def _path(given: _Given | None, home: str, *, default: Path) -> Setting[Path]:
    if given is None:
        return Setting(value=default, source=Source.DEFAULT, origin=Source.DEFAULT)
    return Setting(value=_absolute(given, home), source=given.source, origin=given.origin)


def _profile(given: _Given | None, home: str) -> Setting[str]:
    if given is None:
        return Setting(value=DEFAULT_PROFILE, source=Source.DEFAULT, origin=Source.DEFAULT)
    is_path = given.text.endswith(".toml")
    value = str(_absolute(given, home)) if is_path else given.text
    return Setting(value=value, source=given.source, origin=given.origin)


def _from_options(options: Mapping[str, str | None], cwd: Path) -> dict[str, _Given]:
    given = {}
    for name, text in options.items():
        if name not in NAMES:
            raise ValueError(f"no setting is called {name!r}")
        if text is None:
            continue
        if not text:
            raise UsageError(
                f"--{name} {quoted(text)} is empty",
                expected="a name or a path",
                hint=f"give --{name} a value, or leave it out",
            )
        given[name] = _Given(text=text, source=Source.OPTION, origin=f"--{name}", base=cwd)
    return given


def _from_environ(environ: Mapping[str, str], cwd: Path) -> dict[str, _Given]:
    return {
        name: _Given(text=text, source=Source.VARIABLE, origin=variable(name), base=cwd)
        for name in NAMES
        if (text := environ.get(variable(name)))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dotenv:
    values: Mapping[str, tuple[str, int]]
    warnings: Sequence[str]


def _read_dotenv(path: Path) -> _Dotenv:
    """The variables of a ``.env`` with their lines. A line of somebody else's that makes no sense is only warned of."""
    if not path.is_file():
        return _Dotenv(values={}, warnings=())
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(DOTENV_FILE, [Problem((), f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise SettingsError(DOTENV_FILE, [Problem((), "not UTF-8")]) from error
    values: dict[str, tuple[str, int]] = {}
    lines: dict[str, str] = {}
    problems: list[Problem] = []
    warnings: list[str] = []
    for binding in parse_stream(io.StringIO(text)):
        statement = binding.original.string
        blank = len(statement) - len(statement.lstrip())  # the parser counts lines from the blank ones above
        line = binding.original.line + statement.count("\n", 0, blank)
        if binding.error:
            said = f"line {line}: wanted NAME=value, found {quoted(statement.strip())}"
            if PREFIX in statement:
                problems.append(Problem((), said))
            else:
                warnings.append(f"{DOTENV_FILE}: {said}")
        elif binding.key is not None:
            values[binding.key] = (binding.value or "", line)
            lines[binding.key] = f"{DOTENV_FILE}:{line}"
    if problems:
        raise SettingsError(DOTENV_FILE, problems)
    return _Dotenv(values=values, warnings=[*warnings, *_unknown_variables(lines)])


def _from_dotenv(dotenv: _Dotenv, project_root: Path) -> dict[str, _Given]:
    given = {}
    for name in NAMES:
        text, line = dotenv.values.get(variable(name), ("", 0))
        if text:
            given[name] = _Given(text=text, source=Source.DOTENV, origin=f"{DOTENV_FILE}:{line}", base=project_root)
    return given


def _unknown_variables(names: Mapping[str, str]) -> Iterator[str]:
    """A warning for each variable that looks like ours; ``names`` maps it to its place, empty for the environment."""
    known = [variable(name).removeprefix(PREFIX) for name in NAMES]
    for name, place in names.items():
        if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in known:
            guess = nearest(name.removeprefix(PREFIX), known)  # without what makes all of them alike
            meant = f" Did you mean {PREFIX}{guess}?" if guess else ""
            yield f"{place + ': ' if place else ''}{name} is no setting and has no effect.{meant}"


def _from_pyproject(project_root: Path) -> dict[str, _Given]:
    path = project_root / PYPROJECT_FILE
    if not path.is_file():
        return {}
    table = load_toml(path, file=PYPROJECT_FILE, error=SettingsError)
    keys = tuple(PYPROJECT_TABLE.split("."))
    for depth, key in enumerate(keys, start=1):
        inner = table.get(key, {})
        if not isinstance(inner, dict):
            problem = Problem(keys[:depth], f"wanted a table, found {found(inner)}.")
            raise SettingsError(PYPROJECT_FILE, [problem])
        table = inner
    problems = [Problem((*keys, key), text) for key, text in _pyproject_problems(table)]
    if problems:
        raise SettingsError(PYPROJECT_FILE, problems)
    return {
        key: _Given(
            text=str(text),
            source=Source.PYPROJECT,
            origin=f"{PYPROJECT_FILE} [{PYPROJECT_TABLE}] {key}",
            base=project_root,
        )
        for key, text in table.items()
    }


def _pyproject_problems(table: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if key not in NAMES:
            yield key, unknown("key", key, NAMES)
        elif not isinstance(value, str):
            yield key, f"wanted a string, found {found(value)}."
        elif not value:
            yield key, 'wanted a name or a path, found "". Leave the key out instead.'
