"""Builds: the rows of ``profiles/builds.toml``, each a way to have cargo make the profiled executable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from ipuenv.ground.axes import ID_ALPHABET
from ipuenv.ground.profile_errors import Problem, ProfileError, has_control_characters, load_toml, quoted
from ipuenv.ground.sections import Listed, RelativePath, Section, validate

RELEASE_BUILD = "release"
"""The one row that may share the workspace's own ``target``: it is the build that everyone else there makes."""

_WORKSPACE_TARGET = "target"
_PROFILE_DIRS = {"dev": "debug", "test": "debug", "bench": "release"}
_CARGO_PROFILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")


def _cargo_profile(value: str) -> str:
    if not _CARGO_PROFILE.match(value):
        raise ValueError(f"wanted the name of a cargo profile, found {quoted(value)}.")
    return value


def _flag(value: str) -> str:
    if not value or has_control_characters(value):
        raise ValueError(f"wanted a compiler flag without control characters, found {quoted(value)}.")
    return value


def _row_name(value: str) -> str:
    if not value[:1].isalnum() or not ID_ALPHABET.match(value):
        raise ValueError("wanted a build's name of letters, digits, '.', '_' and '-', since it names a folder.")
    return value


_RowName = Annotated[str, AfterValidator(_row_name)]


class Build(Section):
    """A row of ``builds.toml``. What a row leaves out stays as the workspace has it."""

    target_dir: RelativePath
    """CARGO_TARGET_DIR, below the workspace (the bundled one's is below the project root); no two rows share one"""

    cargo_profile: Annotated[str, AfterValidator(_cargo_profile)] = "release"
    """the cargo profile to build with"""

    debug: bool | None = None
    """whether the executable carries debug information, which inlined frames and source lines come from"""

    jobs: Annotated[int, Field(ge=1, le=4096)] | None = None
    """CARGO_BUILD_JOBS: how many compilers run at once"""

    rustflags: Listed[Annotated[str, AfterValidator(_flag)]] | None = None
    """flags for rustc, one per entry; they replace ``build.rustflags`` of the workspace's ``.cargo/config.toml``"""

    sdk_environment: bool = True
    """whether cargo runs in the SDK's environment"""

    @property
    def profile_dir(self) -> str:
        """The folder below the target dir that cargo puts this build into."""
        return _PROFILE_DIRS.get(self.cargo_profile, self.cargo_profile)


def load_builds(path: Path, *, file: str = "") -> Mapping[str, Build]:
    """The rows of a ``builds.toml`` by name; ``file`` is the name that messages use for it.

    Raises:
        ProfileError: with all problems of the file.
    """
    file = file or str(path)
    data = load_toml(path, file=file)
    if not data:
        raise ProfileError(file, [Problem((), "wanted at least one build, found none.")])
    return validate(Mapping[_RowName, Build], data, file=file, further=_target_dir_problems(data))


def _target_dir_problems(data: Mapping[str, object]) -> Iterator[Problem]:
    dirs: dict[str, tuple[PurePosixPath, str]] = {}
    for name, row in data.items():
        if isinstance(row, dict) and isinstance(row.get("target-dir"), str):
            # Path drops './' and '//', so that two spellings of one folder are equal
            dirs[name] = PurePosixPath(row["target-dir"]), str(row.get("cargo-profile", "release"))
    for index, (name, (own, _)) in enumerate(dirs.items()):
        place = (name, "target-dir")
        if _belongs_to_the_workspace(own, name):
            text = (
                f"{quoted(str(own))} holds the workspace's own builds. Write {quoted(f'{_WORKSPACE_TARGET}/{name}')}."
            )
            yield Problem(place, text)
            continue
        for other, (theirs, cargo_profile) in dirs.items():
            if own == theirs and other in list(dirs)[:index]:
                yield Problem(place, f"{quoted(str(own))} is the target dir of '{other}' too. Give each row its own.")
            elif own.is_relative_to(theirs / _PROFILE_DIRS.get(cargo_profile, cargo_profile)):
                yield Problem(place, f"{quoted(str(own))} lies where '{other}' is built. Give each row its own.")


def _belongs_to_the_workspace(target_dir: PurePosixPath, row: str) -> bool:
    target = PurePosixPath(_WORKSPACE_TARGET)
    is_inside = any(target_dir.is_relative_to(target / folder) for folder in ("release", "debug"))
    return is_inside or (target_dir == target and row != RELEASE_BUILD)
