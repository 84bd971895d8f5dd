"""Building: one cargo build of one program, in its own target folder, with variables that are stated in full."""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ipuenv.ground import command
from ipuenv.ground.errors import TAIL_LINES, FailedError, IpuenvError, MissingError, UsageError
from ipuenv.stages.cargo_output import CargoOutput, cargo_output, plain

if TYPE_CHECKING:
    from ipuenv.ground.console import Console

MESSAGE_FORMAT: Final = "--message-format=json-render-diagnostics"

_RUSTFLAGS = "RUSTFLAGS"
_ENCODED_RUSTFLAGS = "CARGO_ENCODED_RUSTFLAGS"
_CONFIG_RUSTFLAGS = re.compile(r"CARGO_(BUILD|TARGET_.+)_RUSTFLAGS")
_STDERR = 2
_NO_PROFILE = re.compile(r"^error: profile `.*` is not defined")
_NO_TOOLCHAIN = re.compile(r"toolchain '.*' is not installed|could not choose a version of cargo")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What to build and how: a row of builds.toml applied to a program.

    ``target_dir`` counts from the workspace. ``debug`` None leaves debug info to the workspace's own cargo profile,
    ``jobs`` None their number to cargo, and no ``rustflags`` leaves them to the workspace's cargo configuration.
    ``env`` holds further variables.
    """

    workspace: Path
    package: str
    bin: str
    target_dir: Path
    cargo_profile: str = "release"
    debug: bool | None = None
    jobs: int | None = None
    rustflags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """The command and what changes in the environment it is given: ``variables`` to set, names ``removed`` from it."""

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    removed: tuple[str, ...]

    def environment(self, base_env: Mapping[str, str]) -> dict[str, str]:
        """``base_env`` with the changes made."""
        kept = {name: value for name, value in base_env.items() if name not in self.removed}
        return kept | dict(self.variables)

    def by_hand(self, workspace: Path) -> str:
        """The build as a line of shell."""
        changes = [f"-u{name}" for name in self.removed] + [f"{name}={value}" for name, value in self.variables.items()]
        plain = [argument for argument in self.argv if argument != MESSAGE_FORMAT]
        return f"cd {shlex.quote(os.fspath(workspace))} && {shlex.join(['env', *changes, *plain])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A finished build.

    ``executable`` is the file that cargo named; ``fresh`` says that cargo had nothing to do for it. ``wall_s`` is
    cargo's. ``rustflags_replaced`` names the settings that our flags put out of force, if any.
    """

    executable: Path
    argv: tuple[str, ...]
    variables: Mapping[str, str]
    removed: tuple[str, ...]
    cargo_version: str
    rustc_version: str
    wall_s: float
    fresh: bool
    rustflags_replaced: str | None = None


def plan(request: BuildRequest, base_env: Mapping[str, str]) -> BuildPlan:
    """What :func:`build` would run in ``base_env``; touches nothing."""
    variables = dict(request.env)
    variables["CARGO_TARGET_DIR"] = os.path.normpath(request.workspace.absolute() / request.target_dir)
    if request.debug is not None:
        profile = request.cargo_profile.upper().replace("-", "_")
        variables[f"CARGO_PROFILE_{profile}_DEBUG"] = str(request.debug).lower()
    if request.jobs is not None:
        variables["CARGO_BUILD_JOBS"] = str(request.jobs)
    for name in (_RUSTFLAGS, _ENCODED_RUSTFLAGS):
        variables.pop(name, None)
    if any(not flag or re.search(r"\s", flag) for flag in request.rustflags):
        variables[_ENCODED_RUSTFLAGS] = "\x1f".join(request.rustflags)
    elif request.rustflags:
        variables[_RUSTFLAGS] = " ".join(request.rustflags)
    selected = ("--release",) if request.cargo_profile == "release" else ("--profile", request.cargo_profile)
    return BuildPlan(
        argv=("cargo", "build", "-p", request.package, "--bin", request.bin, *selected, MESSAGE_FORMAT),
        variables=variables,
        removed=tuple(name for name in (_RUSTFLAGS, _ENCODED_RUSTFLAGS) if name in base_env and name not in variables),
    )


def build(request: BuildRequest, *, env: Mapping[str, str], console: Console) -> Built:
    """Build the program. On a terminal cargo draws its progress and its warnings; elsewhere it is silent unless it fails.

    Raises:
        MissingError: cargo, its toolchain or the workspace's folder is missing.
        UsageError: there is no cargo workspace, or it has no such package or bin, or its manifest is wrong.
        FailedError: the build failed; carries the end of the compiler's errors, whose beginning was shown.
    """
    planned = plan(request, env)
    cargo = os.fspath(command.find("cargo", path=env.get("PATH")))
    cargo_env = planned.environment(env)
    if not request.workspace.is_dir():
        raise MissingError(
            f"the workspace '{request.workspace}' does not exist",
            expected="the folder of a cargo workspace",
            hint="set IPUENV_WORKSPACE to it",
        )
    package_id = _find_bin(request, cargo, cargo_env)
    messages = _Messages(request.bin, package_id)
    with cargo_output(terminal=_STDERR if console.is_interactive else None) as output:
        completed = command.run(
            [cargo, *planned.argv[1:]],
            env=cargo_env,
            cwd=request.workspace,
            stderr=output.stream,
            on_stdout_line=messages.take,
        )
    if completed.exit_code != 0:
        raise _failure(request, planned, output, console, completed.exit_code)
    if messages.executable is None:
        raise FailedError(
            f"cargo built '{request.bin}' but named no executable",
            expected="a 'compiler-artifact' message with an executable",
            hint=planned.by_hand(request.workspace),
        )
    return Built(
        executable=messages.executable,
        argv=planned.argv,
        variables=planned.variables,
        removed=planned.removed,
        cargo_version=_version(cargo, request.workspace, cargo_env),
        rustc_version=_version(env.get("RUSTC", "rustc"), request.workspace, cargo_env),
        wall_s=completed.wall_s,
        fresh=messages.fresh,
        rustflags_replaced=replaced_rustflags(request, env),
    )


def replaced_rustflags(request: BuildRequest, env: Mapping[str, str]) -> str | None:
    """The settings of cargo that the request's flags put out of force, in words; None when there are none.

    cargo takes flags from one place only: ours win over the ``rustflags`` of every ``.cargo/config.toml``.
    """
    if not request.rustflags:
        return None
    found = [f"{name} ({value})" for name, value in env.items() if _CONFIG_RUSTFLAGS.fullmatch(name) and value]
    for path in _cargo_configs(request.workspace, env):
        found += [f"{key} ({value}) of {path}" for key, value in _configured_rustflags(path)]
    return "; ".join(found) or None


class _Messages:
    """Reads cargo's messages as they come and finds the executable."""

    def __init__(self, bin_name: str, package_id: str) -> None:
        self.executable: Path | None = None
        self.fresh = False
        self._bin = bin_name
        self._package_id = package_id

    def take(self, line: bytes) -> None:
        """Read one line of cargo's stdout."""
        try:
            message: Any = json.loads(line)
        except ValueError:  # whatever else a compiler wrapper prints
            return
        match message:
            case {
                "reason": "compiler-artifact",
                "package_id": self._package_id,
                "executable": str(path),
                "target": {"name": self._bin, "kind": ["bin"]},
                "fresh": bool(fresh),
            }:
                self.executable = Path(path)
                self.fresh = fresh


def _failure(
    request: BuildRequest, planned: BuildPlan, output: CargoOutput, console: Console, exit_code: int
) -> IpuenvError:
    """The error of a failed build. Shows what it cannot carry of the compiler's errors, so that each is seen once."""
    lines = output.errors()
    if any(_NO_PROFILE.search(plain(line)) for line in lines):
        return UsageError(
            f"the workspace '{request.workspace}' has no cargo profile '{request.cargo_profile}'",
            expected=f"'release' or a '[profile.{request.cargo_profile}]' in its Cargo.toml",
        )
    rest = lines[:-TAIL_LINES]
    if rest and not output.show_lines(rest):
        for line in rest:
            console.note(plain(line))
    return FailedError(
        f"cargo could not build '{request.bin}' of '{request.package}' ({command.ending(exit_code)})",
        expected="a build without errors",
        hint=planned.by_hand(request.workspace),
        tail=[plain(line) for line in lines],
    )


def _find_bin(request: BuildRequest, cargo: str, env: Mapping[str, str]) -> str:
    """The package id of the requested bin, from ``cargo metadata``."""
    argv = [cargo, "metadata", "--no-deps", "--format-version", "1"]
    completed = command.run(argv, env=env, cwd=request.workspace)
    if completed.exit_code != 0:
        raise _unreadable_workspace(request.workspace, completed.stderr_text)
    packages: dict[str, Any] = {package["name"]: package for package in json.loads(completed.stdout)["packages"]}
    if request.package not in packages:
        raise _unknown(f"package '{request.package}' in '{request.workspace}'", request.package, packages)
    package = packages[request.package]
    bins = [target["name"] for target in package["targets"] if "bin" in target["kind"]]
    if request.bin not in bins:
        raise _unknown(f"bin '{request.bin}' in the package '{request.package}'", request.bin, bins)
    return str(package["id"])


def _unreadable_workspace(workspace: Path, said: str) -> IpuenvError:
    if "could not find `Cargo.toml`" in said:
        return UsageError(
            f"the workspace '{workspace}' has no Cargo.toml",
            expected="the folder of a cargo workspace",
            hint="set IPUENV_WORKSPACE to it",
        )
    if _NO_TOOLCHAIN.search(said):
        return MissingError(
            f"the Rust toolchain that '{workspace}' wants is not installed",
            expected="a toolchain that rustup knows",
            hint=f"cd {shlex.quote(os.fspath(workspace))} && rustup toolchain install",
            tail=said.splitlines(),
        )
    return UsageError(
        f"cargo cannot read the workspace '{workspace}'",
        expected="a valid Cargo.toml",
        tail=said.rstrip().splitlines(),
    )


def _unknown(what: str, name: str, known: Iterator[str] | Sequence[str] | Mapping[str, Any]) -> UsageError:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    return UsageError(
        f"there is no {what}",
        expected=", ".join(names) or "at least one",
        hint=f"did you mean '{near[0]}'?" if near else "",
    )


def _version(program: str, workspace: Path, env: Mapping[str, str]) -> str:
    """A tool's version without its name, such as ``1.95.0 (59807616e 2026-04-14)``."""
    try:
        completed = command.run([program, "--version"], env=env, cwd=workspace)
    except MissingError:
        return "unknown"
    return completed.stdout_text.strip().partition(" ")[2] or "unknown"


def _cargo_configs(workspace: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """The configuration files that cargo reads in the workspace, nearest first."""
    absolute = workspace.absolute()
    home = Path(env["CARGO_HOME"]) if env.get("CARGO_HOME") else Path(env.get("HOME", "/"), ".cargo")
    folders = [folder / ".cargo" for folder in (absolute, *absolute.parents)]
    for folder in dict.fromkeys([*folders, home]):
        yield from (path for path in (folder / "config", folder / "config.toml") if path.is_file())


def _configured_rustflags(path: Path) -> Iterator[tuple[str, str]]:
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # cargo itself complains about it
        return
    tables = {"build": config.get("build", {})}
    tables |= {f"target.{name}": table for name, table in config.get("target", {}).items()}
    for key, table in tables.items():
        flags = table.get("rustflags") if isinstance(table, dict) else None
        if flags:
            yield f"{key}.rustflags", flags if isinstance(flags, str) else " ".join(map(str, flags))
