"""What a Poplar SDK looks like, on disk and in an environment: locating one, and taking one's entries out again.

An SDK of 2.6 or later has a script ``enable`` on top that enables Poplar and PopART together; an older one has only the
scripts of the two parts. Sites rename the folders, so a part is known by what it holds and never by its name alone.
"""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ipuenv.ground.errors import IpuenvError, MissingError, UsageError

ENABLED = "POPLAR_SDK_ENABLED"
"""The variable by which a script says which Poplar it enabled: the part's folder, not the SDK's."""
SETTING = "IPUENV_SDK"
STAND_IN_MARK = "STAND-IN"
TOP_SCRIPT = "enable"
PART_SCRIPT = "enable.sh"
POPC = Path("bin", "popc")

LIST_VARIABLES = frozenset(
    {
        "CMAKE_PREFIX_PATH",
        "CPATH",
        "CPLUS_INCLUDE_PATH",
        "C_INCLUDE_PATH",
        "LD_LIBRARY_PATH",
        "LIBRARY_PATH",
        "PATH",
        "PKG_CONFIG_PATH",
        "PYTHONPATH",
    }
)
"""Lists with ':' in which an empty entry means the current folder and the first of two equal entries wins."""
_SINGLE_VARIABLES = ("OPAL_PREFIX", "OMPI_CPPFLAGS")

PLACES = (
    "/opt",
    "/opt/gc",
    "/opt/graphcore",
    "/opt/poplar",
    "/opt/poplar_sdk",
    "/software/graphcore",
    "/software/graphcore/poplar_sdk",
)
"""Folders that are searched, with their subfolders, beside the workspace's surroundings and the home folder."""

_SHAPE = f"a folder with '{TOP_SCRIPT}' or 'poplar-*/{PART_SCRIPT}' in it"
_SHOWN_CANDIDATES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A path that might have been taken, and why it was not."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkChoice:
    """What was settled on. Paths are absolute, symbolic links in them as they were named."""

    sdk: Path
    """The SDK's folder; a part's own folder where that is all there is."""
    scripts: tuple[Path, ...]
    """What to source, in this order."""
    component: Path | None
    """The folder that ``POPLAR_SDK_ENABLED`` has to name afterwards; None where only the script knows."""
    why: str
    ignored: tuple[Ignored, ...] = ()

    @property
    def is_stand_in(self) -> bool:
        return is_stand_in(self.sdk)

    def explain(self) -> tuple[str, ...]:
        """The choice in lines a person can read."""
        return (
            *(f"source '{script}'" for script in self.scripts),
            f"because {self.why}",
            *(f"not '{left.path}': {left.reason}" for left in self.ignored),
            *(["this is the stand-in that comes with ipuenv, not Graphcore's SDK"] if self.is_stand_in else []),
        )


def is_file(path: Path) -> bool:
    """Whether this is a file; no, rather than an error, where one may not look."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for a folder that may not be entered


def is_stand_in(folder: Path) -> bool:
    """Whether an SDK's folder, or the SDK around a part's folder, is the stand-in that comes with ipuenv."""
    return any(is_file(place / STAND_IN_MARK) for place in (folder, folder.parent))


def is_component(folder: Path) -> bool:
    """Whether ``folder`` is Poplar's own, whatever its name."""
    return is_file(folder / PART_SCRIPT) and is_file(folder / POPC)


def is_popart(folder: Path) -> bool:
    """Whether ``folder`` is PopART's. Only its name tells, and renamed folders keep the word in all known places."""
    return "popart" in folder.name.lower() and is_file(folder / PART_SCRIPT) and not is_component(folder)


def popart_beside(component: Path) -> tuple[Path, ...]:
    """The PopART folders that belong to the SDK around ``component``."""
    return tuple(_unlinked(folder for folder in _subfolders(component.parent) if is_popart(folder)))


def owned_folders(component: Path | None) -> frozenset[str]:
    """The folders of the SDK around ``component``, Poplar's and PopART's, as they are named and as they really are.

    None for an existing folder that is no Poplar: ``/usr`` as a value must not cost ``/usr/bin``.
    """
    if component is None or not component.is_absolute() or (component.exists() and not is_component(component)):
        return frozenset()
    folders = [str(folder) for folder in (component, *popart_beside(component))]
    return frozenset({*folders, *map(os.path.realpath, folders)})


def without_sdk(base: Mapping[str, str], folders: Iterable[str]) -> dict[str, str]:
    """``base`` with no SDK enabled: ``POPLAR_SDK_ENABLED`` gone, and every entry at or below ``folders``."""
    cleared = {name: text for name, text in base.items() if name != ENABLED}
    owned = tuple(f"{folder}/" for folder in folders)
    for name in LIST_VARIABLES & cleared.keys():
        kept = [entry for entry in cleared[name].split(":") if not f"{entry}/".startswith(owned)]
        cleared[name] = ":".join(kept)
        if not kept:
            del cleared[name]
    for name in _SINGLE_VARIABLES:
        if any(folder in f"{cleared.get(name, '')}/" for folder in owned):
            del cleared[name]
    return cleared


def locate(named: str | Path) -> SdkChoice:
    """The SDK that someone named: by its folder, a folder around it, Poplar's own folder, or a script.

    Raises:
        UsageError: several SDKs answer to the name, or the path cannot stand in a search path.
        MissingError: there is no SDK.
    """
    path = Path(named).absolute()
    if ":" in str(path):
        raise UsageError(
            f"'{path}' has a colon in it",
            expected="a path without one: the SDK's script puts it into PATH, where ':' separates entries",
            hint="rename the folder, or name it by a symbolic link without a colon",
        )
    if is_file(path):
        return _of_script(path)
    if not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for a folder that may not be entered
        raise _not_there(path)
    choices = _choices_in(path)
    if not choices:
        raise _nothing_in(path)
    return _only(choices, where=f"in '{path}'")


def search(*, base: Mapping[str, str], workspace: Path, places: Sequence[str | Path] = PLACES) -> SdkChoice:
    """The SDK of a workspace for which nobody named one.

    ``POPLAR_SDK_ENABLED`` of the environment ``base`` comes first, then that of the workspace's ``.env``, then whatever
    is found in and beside the workspace, in the home folder and in ``places``. A stand-in gives way to a real SDK.

    Raises:
        UsageError: several were found.
        MissingError: none was found.
    """
    choice: SdkChoice | None = None
    ignored: list[Ignored] = []
    for origin, hinted in _hints(base, workspace.absolute()):
        if choice is not None:
            if not _is_same(hinted, choice.component or choice.sdk):
                ignored.append(Ignored(path=hinted, reason=f"{origin} names it, but the environment comes first"))
            continue
        try:
            choice = replace(_around(hinted), why=f"{origin} names '{hinted}'")
        except IpuenvError as error:
            ignored.append(Ignored(path=hinted, reason=f"{origin} names it, but {error.what}"))
    if choice is None:
        choice = _search_places(base, workspace, places)
    return replace(choice, ignored=(*ignored, *choice.ignored))


def _search_places(base: Mapping[str, str], workspace: Path, places: Sequence[str | Path]) -> SdkChoice:
    crowded = [workspace.absolute(), workspace.absolute().parent]
    crowded += [Path(base["HOME"])] if base.get("HOME") else []
    found = [choice for place in crowded for choice in _choices_in(place, word="poplar")]
    found += [choice for place in places for choice in _choices_in(Path(place))]
    real = [choice for choice in found if not choice.is_stand_in]
    searched = ", ".join(f"'{place}'" for place in (*crowded, *places))
    if not found:
        raise MissingError(
            "no Poplar SDK was found",
            expected=f"{_SHAPE}; searched {searched}",
            hint=f"name it by {SETTING}=/path/to/poplar_sdk",
        )
    choice = _only(real or found, where=f"around '{workspace}' and in the usual places")
    if real:
        given_way = _unlinked(other.sdk for other in found if other.is_stand_in)
        left = tuple(Ignored(path=path, reason="a stand-in gives way to a real SDK") for path in given_way)
        choice = replace(choice, ignored=(*choice.ignored, *left))
    return replace(choice, why=f"it is the only one around '{workspace}' and in the usual places")


def _hints(base: Mapping[str, str], workspace: Path) -> Iterator[tuple[str, Path]]:
    """What ``POPLAR_SDK_ENABLED`` says where, the stronger place first."""
    if base.get(ENABLED):
        yield f"{ENABLED} of the environment", workspace / base[ENABLED]
    files = (folder / ".env" for folder in (workspace, *workspace.parents))
    file = next((file for file in files if is_file(file)), None)
    value = _from_dotenv(file) if file else None
    if value:
        yield f"{ENABLED} in '{file}'", workspace / value


def _from_dotenv(file: Path) -> str | None:
    from dotenv import dotenv_values  # only here: most calls never need it

    try:
        lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    # The other lines may be in forms that only the workspace's own reader takes.
    own = "\n".join(line for line in lines if line.split("=")[0].split()[-1:] == [ENABLED])
    return dotenv_values(stream=io.StringIO(own), interpolate=False).get(ENABLED)


def _around(hinted: Path) -> SdkChoice:
    """The SDK around Poplar's own folder, PopART included; else whatever the path names."""
    beside = _sdks_at(hinted.parent) if is_component(hinted) else []
    fitting = [choice for choice in beside if choice.component and _is_same(choice.component, hinted)]
    return fitting[0] if fitting else locate(hinted)


def _of_script(script: Path) -> SdkChoice:
    folder = script.parent
    if script.name == TOP_SCRIPT and _components_in(folder):
        return replace(_of_top(folder), why=f"'{script}' was named")
    if script.name == PART_SCRIPT and is_component(folder):
        return replace(_of_component(folder), why=f"'{script}' was named")
    if script.name == PART_SCRIPT and is_popart(folder):
        raise UsageError(
            f"'{script}' enables PopART only",
            expected="the SDK's folder, or Poplar's script",
            hint=f"name the SDK's folder: {SETTING}={shlex.quote(str(folder.parent))}",
        )
    return SdkChoice(sdk=folder, scripts=(script,), component=None, why=f"'{script}' was named")


def _choices_in(folder: Path, *, word: str = "") -> list[SdkChoice]:
    """Every SDK that ``folder`` is, holds, or holds one level deeper; only subfolders with ``word`` in their names."""
    if is_component(folder):
        return [_of_component(folder)]
    choices = _sdks_at(folder, word=word)
    if choices and is_file(folder / TOP_SCRIPT):
        return choices
    for inner in _subfolders(folder, word=word):
        choices += [replace(choice, why=f"{choice.why}, below '{folder}'") for choice in _sdks_at(inner)]
    return choices


def _sdks_at(folder: Path, *, word: str = "") -> list[SdkChoice]:
    """The SDK whose folder this is: none, one, or one for each Poplar when they lie side by side without ``enable``."""
    components = _components_in(folder, word=word)
    if components and is_file(folder / TOP_SCRIPT):
        return [_of_top(folder)]
    if len(components) == 1 and popart_beside(components[0]):
        return [_of_pair(components[0])]
    return [_of_component(component) for component in components]


def _of_top(sdk: Path) -> SdkChoice:
    components = _components_in(sdk)
    parts = [*components, *(folder for folder in _subfolders(sdk) if is_popart(folder))]
    return SdkChoice(
        sdk=sdk,
        scripts=(sdk / TOP_SCRIPT,),
        component=components[0] if len(components) == 1 else None,
        why=f"'{sdk}' has its own '{TOP_SCRIPT}' (SDK 2.6 or later)",
        ignored=tuple(Ignored(path=part / PART_SCRIPT, reason=f"left to '{TOP_SCRIPT}'") for part in parts),
    )


def _of_pair(component: Path) -> SdkChoice:
    poparts = popart_beside(component)
    if len(poparts) > 1:
        raise UsageError(
            f"{len(poparts)} PopART folders lie beside '{component}'",
            expected=f"at most one; there are {_listed(poparts)}",
            hint=f"name Poplar's own folder, which leaves PopART out: {SETTING}={shlex.quote(str(component))}",
        )
    return SdkChoice(
        sdk=component.parent,
        scripts=(component / PART_SCRIPT, poparts[0] / PART_SCRIPT),
        component=component,
        why=f"'{component.parent}' has no '{TOP_SCRIPT}' (SDK 2.5 or earlier): Poplar first, then PopART",
    )


def _of_component(component: Path) -> SdkChoice:
    around = [component.parent / TOP_SCRIPT, *(popart / PART_SCRIPT for popart in popart_beside(component))]
    return SdkChoice(
        sdk=component,
        scripts=(component / PART_SCRIPT,),
        component=component,
        why=f"'{component}' is Poplar's own folder",
        ignored=tuple(Ignored(path=path, reason="outside Poplar's folder") for path in around if is_file(path)),
    )


def _only(choices: Sequence[SdkChoice], *, where: str) -> SdkChoice:
    """The one SDK among ``choices``, which may hold it several times: through links, or without the folder around it."""
    distinct: dict[str, SdkChoice] = {}
    for choice in sorted(choices, key=lambda choice: (choice.sdk.is_symlink(), choice.sdk)):
        distinct.setdefault(os.path.realpath(choice.component or choice.sdk), choice)
    found = sorted(choice.sdk for choice in distinct.values())
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} Poplar SDKs were found {where}",
            expected=f"exactly one; there are {_listed(found)}",
            hint=f"name one, for example {SETTING}={shlex.quote(str(found[0]))}",
        )
    (choice,) = distinct.values()
    doubles = sorted({other.sdk for other in choices} - {choice.sdk})
    left = tuple(Ignored(path=path, reason=f"the same SDK as '{choice.sdk}'") for path in doubles)
    return replace(choice, ignored=(*choice.ignored, *left))


def _not_there(path: Path) -> MissingError:
    deeper = [inner / path.name for inner in _subfolders(path.parent) if is_file(inner / path.name)]
    if deeper:
        hint = f"it lies one level deeper; name {_listed(deeper)}"
    else:
        hint = f"correct {SETTING}, or leave it out to have the usual places searched"
    return MissingError(f"'{path}' does not exist", expected=f"{_SHAPE}, or a script", hint=hint)


def _nothing_in(path: Path) -> MissingError:
    named = [path, *_subfolders(path, word="poplar")]
    broken = [inner for inner in named if is_file(inner / PART_SCRIPT) and not is_popart(inner)]
    if broken:
        return MissingError(
            f"the Poplar SDK in '{broken[0]}' is not whole: '{broken[0] / POPC}' is not there",
            expected=f"'{POPC}' beside '{PART_SCRIPT}'",
            hint="unpack the SDK again, or name another one",
        )
    if is_popart(path):
        hint = f"that is PopART's folder; name the one around it: {SETTING}={shlex.quote(str(path.parent))}"
    else:
        hint = f"name the folder that the SDK's archive unpacked to: {SETTING}=/path/to/poplar_sdk"
    return MissingError(f"'{path}' holds no Poplar SDK", expected=_SHAPE, hint=hint)


def _components_in(folder: Path, *, word: str = "") -> list[Path]:
    return _unlinked(inner for inner in _subfolders(folder, word=word) if is_component(inner))


def _subfolders(folder: Path, *, word: str = "") -> list[Path]:
    """The folders in ``folder`` whose names hold ``word``, by name; none where it may not be listed."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if word in entry.name.lower() and entry.is_dir()]
    except OSError:
        return []
    return [folder / name for name in sorted(names)]


def _unlinked(paths: Iterable[Path]) -> list[Path]:
    """Each folder once, a real one rather than a symbolic link to it, else the first by name."""
    chosen: dict[str, Path] = {}
    for path in sorted(paths, key=lambda path: (path.is_symlink(), path)):
        chosen.setdefault(os.path.realpath(path), path)
    return sorted(chosen.values())


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _listed(paths: Sequence[Path]) -> str:
    shown = ", ".join(f"'{path}'" for path in paths[:_SHOWN_CANDIDATES])
    return shown if len(paths) <= _SHOWN_CANDIDATES else f"{shown} and {len(paths) - _SHOWN_CANDIDATES} more"
