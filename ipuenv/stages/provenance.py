"""Where a run comes from: the workspace's revision, the machine, and the environment that tools are given."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ipuenv.ground import command
from ipuenv.ground.errors import MissingError

_TOOL_VARIABLES = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ"})
_TOOL_PREFIXES = ("LC_", "XDG_", "GIT_", "CARGO_", "RUSTUP_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A git revision. ``diff_sha256`` is the hash of what tracked files differ from it by, None where nothing does."""

    commit: str
    branch: str | None
    diff_sha256: str | None

    @property
    def is_dirty(self) -> bool:
        return self.diff_sha256 is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The host of a run; ``cpus`` counts the processors that we may use."""

    name: str
    kernel: str
    cpu_model: str
    cpus: int


def tool_environment(base: Mapping[str, str]) -> dict[str, str]:
    """What perf and git are given: enough to work, and nothing of an SDK that someone enabled in the shell."""
    return {name: value for name, value in base.items() if name in _TOOL_VARIABLES or name.startswith(_TOOL_PREFIXES)}


def revision(folder: Path, base: Mapping[str, str]) -> Revision | None:
    """The revision of the tracked files below a folder; None where git, or a repository, is missing."""
    env = {**tool_environment(base), "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    commit = _git(folder, env, "rev-parse", "HEAD")
    if commit is None or not _git(folder, env, "ls-tree", "--name-only", "HEAD", "."):
        return None  # also for a folder that some repository around it does not track
    branch = (_git(folder, env, "symbolic-ref", "--short", "-q", "HEAD") or b"").decode("utf-8", "replace").strip()
    diff = _git(folder, env, "diff", "--no-ext-diff", "--no-textconv", "--binary", "HEAD", "--", ".")
    return Revision(
        commit=commit.decode().strip(),
        branch=branch or None,
        diff_sha256=hashlib.sha256(diff).hexdigest() if diff else None,
    )


def _git(folder: Path, env: Mapping[str, str], *words: str) -> bytes | None:
    try:
        completed = command.run(["git", "-C", os.fspath(folder), *words], env=env)
    except MissingError:
        return None
    return completed.stdout if completed.exit_code == 0 else None


def machine() -> Machine:
    """The machine that we are on."""
    return Machine(
        name=platform.node(),
        kernel=platform.release(),
        cpu_model=_cpu_model(),
        cpus=len(os.sched_getaffinity(0)),
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())
