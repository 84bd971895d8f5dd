"""Roots: the folders that everything else is relative to, and the files that ipuenv brings along.

What ipuenv writes lies below the project root, or in a workspace that somebody configured. The bundled workspace is
only read: inside a wheel it may belong to root. So its target dirs, and a lock that a profile places below the
workspace, lie below ``<project root>/target/bundled`` instead.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import tomli

from ipuenv.ground.errors import MissingError, UsageError
from ipuenv.ground.profile_errors import listed, nearest, quoted
from ipuenv.ground.settings import PYPROJECT_FILE, Setting, Settings, Source

PROFILES_DIR = "profiles"
BUILDS_FILE = "builds.toml"
MANIFEST_FILE = "Cargo.toml"
BUNDLED_TARGET = "target/bundled"

PACKAGE_DIR = Path(__file__).resolve().parent.parent

_OUR_TABLE = re.compile(r"^\s*\[\s*tool\s*\.\s*ipuenv\s*\]", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundled:
    """What ipuenv brings along."""

    profiles: Path
    workspace: Path
    sdk: Path


def find_bundled(package_dir: Path = PACKAGE_DIR) -> Bundled:
    """The files beside the package in a checkout, inside it in an installed wheel."""
    inside = package_dir / "_bundled"
    root = inside if _is_dir(inside) else package_dir.parent
    examples = root / "examples"
    return Bundled(profiles=root / PROFILES_DIR, workspace=examples / "ipu-workspace", sdk=examples / "poplar-sdk")


def find_project_root(cwd: Path) -> Path:
    """The nearest folder from ``cwd`` upwards with ``profiles/`` or ``[tool.ipuenv]``; else ``cwd``."""
    here = Path(os.path.abspath(cwd))  # noqa: PTH100 - a symlink is where the person is
    return next((folder for folder in (here, *here.parents) if _is_project_root(folder)), here)


def _is_project_root(folder: Path) -> bool:
    return _is_dir(folder / PROFILES_DIR) or _names_ipuenv(folder / PYPROJECT_FILE)


def _is_dir(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises where a folder may not be looked into


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - as above


def _names_ipuenv(pyproject: Path) -> bool:
    try:
        text = pyproject.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    try:
        tool = tomli.loads(text).get("tool")
    except (ValueError, RecursionError):
        # broken, but if it is ours then whoever reads the settings says so
        return _OUR_TABLE.search(text) is not None
    return isinstance(tool, dict) and "ipuenv" in tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The folders of one command, all absolute.

    ``target_base`` is what a build's ``target-dir`` is relative to; ``sdk`` is None where a workspace is configured and
    no SDK is, and it has to be searched for unless ``needs_sdk`` is false; ``device_lock_override`` is the setting that beats every profile's ``device.lock``.
    """

    project_root: Path
    artifacts: Path
    workspace: Path
    workspace_is_bundled: bool
    target_base: Path
    sdk: Path | None
    sdk_is_bundled: bool
    needs_sdk: bool
    device_lock_override: Path | None

    def target_dir(self, target_dir: str) -> Path:
        """The folder that a row of ``builds.toml`` builds in."""
        return self.target_base / target_dir

    def device_lock(self, lock: str) -> Path:
        """The lock file that a profile's ``device.lock`` stands for."""
        if self.device_lock_override is not None:
            return self.device_lock_override
        return Path(os.path.abspath(self.target_base / lock))  # noqa: PTH100 - the lock may be a symlink


def find_roots(settings: Settings, *, project_root: Path, bundled: Bundled) -> Roots:
    """The roots that ``settings`` ask for. Commands that build and run nothing do without.

    Raises:
        MissingError: the workspace is not there or is none.
    """
    is_bundled = settings.workspace.value is None
    workspace = bundled.workspace if settings.workspace.value is None else settings.workspace.value
    fault = _workspace_fault(workspace)
    if fault and is_bundled:
        raise MissingError(
            f"the bundled workspace '{workspace}' {fault}",
            expected="the example workspace that ipuenv is installed with",
            hint="install ipuenv again, or set IPUENV_WORKSPACE=/path/to/workspace",
        )
    if fault:
        raise _missing_workspace(settings.workspace, workspace, fault)
    needs_sdk = settings.sdk.value is not None or settings.sdk.source is Source.DEFAULT
    sdk = settings.sdk.value or (bundled.sdk if is_bundled and needs_sdk else None)
    return Roots(
        project_root=project_root,
        artifacts=settings.artifacts.value,
        workspace=workspace,
        workspace_is_bundled=is_bundled,
        target_base=project_root / BUNDLED_TARGET if is_bundled else workspace,
        sdk=sdk,
        sdk_is_bundled=is_bundled and sdk == bundled.sdk,
        needs_sdk=needs_sdk,
        device_lock_override=settings.device_lock.value,
    )


def _workspace_fault(workspace: Path) -> str:
    if not os.path.lexists(workspace):
        return "does not exist"
    if not _is_dir(workspace):
        return "is not a folder"
    if not _is_file(workspace / MANIFEST_FILE):
        return f"holds no {MANIFEST_FILE}"
    return ""


def _missing_workspace(setting: Setting[Path | None], workspace: Path, fault: str) -> MissingError:
    return MissingError(
        f"the workspace '{workspace}', set by {setting.origin}, {fault}",
        expected=f"a Cargo workspace: a folder that holds a {MANIFEST_FILE}",
        hint=f"correct {setting.origin}, or leave it out to use the bundled workspace",
    )


def profile_names(*, project_root: Path, bundled: Bundled) -> tuple[str, ...]:
    """The profiles that a name can stand for: the project's own, then the bundled ones."""
    found = (
        path.stem
        for folder in (project_root / PROFILES_DIR, bundled.profiles)
        for path in sorted(folder.glob("*.toml"))
        if path.name != BUILDS_FILE
    )
    return tuple(dict.fromkeys(found))


def find_profile(name: str, *, project_root: Path, bundled: Bundled) -> Path:
    """The file of a profile: by name in the project's ``profiles/``, else among the bundled; or a ``.toml`` itself.

    A relative path is taken from the project root; settings have made theirs absolute.

    Raises:
        UsageError: there is none; lists the names and names the nearest.
    """
    names = profile_names(project_root=project_root, bundled=bundled)
    if name.endswith(".toml"):
        path = project_root / name
        if _is_file(path):
            return path
        raise _unknown_profile(f"there is no profile '{path}'", path.stem, names)
    if name in names:
        own = project_root / PROFILES_DIR / f"{name}.toml"
        return own if _is_file(own) else bundled.profiles / f"{name}.toml"
    raise _unknown_profile(f"there is no profile {quoted(name)}", name, names)


def _unknown_profile(what: str, name: str, names: tuple[str, ...]) -> UsageError:
    guess = nearest(name.rpartition("/")[2], names)
    return UsageError(
        what,
        expected=f"one of {listed(names)}, or the path of a .toml file" if names else "the path of a .toml file",
        hint=f"did you mean '{guess}'?" if guess else "name one with --profile or IPUENV_PROFILE",
    )


def find_builds(profile: Path, *, project_root: Path, bundled: Bundled) -> Path:
    """The ``builds.toml`` that a profile's builds are rows of: beside it, else the project's, else the bundled one."""
    candidates = (profile.parent / BUILDS_FILE, project_root / PROFILES_DIR / BUILDS_FILE)
    return next((path for path in candidates if _is_file(path)), bundled.profiles / BUILDS_FILE)


def shown(path: Path, base: Path) -> str:
    """How messages name ``path``: from ``base`` where it lies below, else in full."""
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)
