"""Where we are: the settings in force and the folders that they lead to. Light, since every command begins here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ipuenv.ground import roots, settings

if TYPE_CHECKING:
    from ipuenv.ground.console import Console
    from ipuenv.ground.roots import Bundled
    from ipuenv.ground.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The settings in force and the folders that they lead to."""

    settings: Settings
    project_root: Path
    bundled: Bundled

    @property
    def artifacts(self) -> Path:
        return self.settings.artifacts.value


def symbol_cache() -> Path:
    """The folder in which symbols of executables are kept: ``$XDG_CACHE_HOME/ipuenv/symbols``."""
    from platformdirs import user_cache_path

    return user_cache_path("ipuenv") / "symbols"


def find_where(options: Mapping[str, str | None], console: Console) -> Where:
    """The settings for the current folder; what is odd about them is said.

    Raises:
        UsageError: an option or a file with settings is wrong.
    """
    cwd = Path.cwd()
    project_root = roots.find_project_root(cwd)
    found = settings.resolve(options=options, environ=os.environ, project_root=project_root, cwd=cwd)
    for warning in found.warnings:
        console.warn(warning)
    return Where(settings=found, project_root=project_root, bundled=roots.find_bundled())
