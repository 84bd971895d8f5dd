"""From what someone typed to what will happen: settings, profile, variant, build, folders - before anything runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ipuenv.ground import roots as roots_module
from ipuenv.ground.builds import Build, load_builds
from ipuenv.ground.errors import UsageError
from ipuenv.ground.profile import DEVICE_LOCK, PACKAGE, RUN_DIR, WORKSPACE, CallGraph, Profile, load_profile
from ipuenv.ground.templates import expand, placeholders
from ipuenv.ground.variants import Variant, default_variant, select
from ipuenv.stages.build import BuildRequest
from ipuenv.stages.perf import RecordOptions

if TYPE_CHECKING:
    from ipuenv.ground.roots import Roots
    from ipuenv.ground.settings import Settings
    from ipuenv.stages.environment import SdkEnvironment
    from ipuenv.verbs.where import Where

PACKAGE_FILE = "model.ipuexe"
"""What ``{package}`` is called in a variant's folder."""

QUIET_COLOURS = {"NO_COLOR": "1"}
"""Given to the program: ``tracing_subscriber`` colours even a file unless this is set."""

LOG_FILTER = "RUST_LOG"
"""Taken from the program unless the profile sets it: a filter of somebody's shell would hide the phases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One variant of one profile, ready to run. ``name`` is the profile's, by which its pictures are called."""

    name: str
    profile: Profile
    profile_file: Path
    settings: Settings
    roots: Roots
    variant: Variant
    row: Build
    label: str | None = None
    sweep_id: str | None = None
    lock_timeout_s: float | None = None

    @property
    def build_request(self) -> BuildRequest:
        """What cargo is asked for."""
        return BuildRequest(
            workspace=self.roots.workspace,
            package=self.profile.target.package,
            bin=self.profile.target.bin,
            target_dir=self.roots.target_dir(self.row.target_dir),
            cargo_profile=self.row.cargo_profile,
            debug=self.row.debug,
            jobs=self.row.jobs,
            rustflags=self.row.rustflags or (),
        )

    @property
    def record_options(self) -> RecordOptions:
        """What perf is told."""
        return RecordOptions(frequency=self.profile.record.frequency, call_graph=str(self.profile.record.call_graph))

    @property
    def notes(self) -> str:
        """The profile's notes for this variant."""
        return expand(self.profile.notes, self.variant.texts)

    @property
    def device_lock(self) -> Path | None:
        """The device's lock file, if the profile has a device."""
        device = self.profile.device
        return self.roots.device_lock(device.lock) if device is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How the program is called: ``variables`` are set and ``removed`` unset on top of the SDK's environment."""

    args: tuple[str, ...]
    variables: Mapping[str, str]
    removed: tuple[str, ...] = ()
    output: Path | None = None

    def environment(self, base: Mapping[str, str], sdk: SdkEnvironment | None) -> dict[str, str]:
        """The program's whole environment."""
        enabled = sdk.apply(base) if sdk is not None else base
        return {name: text for name, text in enabled.items() if name not in self.removed} | dict(self.variables)


def load(where: Where) -> tuple[Path, Profile, Mapping[str, Build]]:
    """The profile that the settings name, its file, and the builds that it can use.

    Raises:
        UsageError: there is no such profile, or it or its builds are wrong.
    """
    root, bundled = where.project_root, where.bundled
    file = roots_module.find_profile(where.settings.profile.value, project_root=root, bundled=bundled)
    builds_file = roots_module.find_builds(file, project_root=root, bundled=bundled)
    builds = load_builds(builds_file, file=roots_module.shown(builds_file, root))
    return file, load_profile(file, builds=builds, file=roots_module.shown(file, root)), builds


def prepare(
    where: Where,
    *,
    variant: str | None,
    label: str | None,
    sweep_id: str | None = None,
    lock_timeout_s: float | None = None,
) -> Plan:
    """Plan one variant, the profile's default one unless named. ``lock_timeout_s`` None waits for the device for ever.

    Raises:
        UsageError: profile, variant or label are wrong.
        MissingError: there is no workspace.
    """
    file, profile, builds = load(where)
    chosen = select(profile, variant) if variant is not None else default_variant(profile)
    if profile.record.call_graph is CallGraph.DWARF:
        raise UsageError(
            f"the profile '{file.stem}' asks for [record] call-graph = \"dwarf\"",
            expected='"fp": recordings of register and stack dumps cannot be read yet',
            hint='set call-graph = "fp", and choose a build with frame pointers',
        )
    roots = roots_module.find_roots(where.settings, project_root=where.project_root, bundled=where.bundled)
    return Plan(
        name=file.stem,
        profile=profile,
        profile_file=file,
        settings=where.settings,
        roots=roots,
        variant=chosen,
        row=builds[chosen.build],
        label=label,
        sweep_id=sweep_id,
        lock_timeout_s=lock_timeout_s,
    )


def program(plan: Plan, run_dir: Path) -> Program:
    """The program's arguments and variables when it writes into ``run_dir``."""
    lock = plan.device_lock
    values = {
        **plan.variant.texts,
        PACKAGE: os.fspath(run_dir / PACKAGE_FILE),
        RUN_DIR: os.fspath(run_dir),
        WORKSPACE: os.fspath(plan.roots.workspace),
        DEVICE_LOCK: os.fspath(lock) if lock is not None else "",
    }
    run, output = plan.profile.run, plan.profile.output
    variables = {**QUIET_COLOURS, **{name: expand(text, values) for name, text in run.env.items()}}
    return Program(
        args=tuple(expand(text, values) for text in run.args),
        variables=variables,
        removed=() if LOG_FILTER in variables else (LOG_FILTER,),
        output=Path(expand(output.path, values)) if output is not None else None,
    )


def passes_device_lock(profile: Profile) -> bool:
    """Whether the program is given the lock, and so takes it itself."""
    return any(DEVICE_LOCK in placeholders(text) for text in (*profile.run.args, *profile.run.env.values()))
