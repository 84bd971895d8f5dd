"""From what the stages returned to the manifest of a run: nothing is measured here, everything is written down."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import ipuenv
from ipuenv.engine import views
from ipuenv.engine.elf import read_build_id
from ipuenv.engine.hot import hot_functions
from ipuenv.ground.sections import Section
from ipuenv.ground.settings import Source
from ipuenv.stages import manifest, provenance

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ipuenv.engine.parallelism import Parallelism
    from ipuenv.engine.recording import Recording
    from ipuenv.stages.build import Built
    from ipuenv.stages.environment import SdkEnvironment
    from ipuenv.stages.provenance import Revision
    from ipuenv.stages.store import Blob, Staging
    from ipuenv.verbs.identity import Identities
    from ipuenv.verbs.pictures import Picture
    from ipuenv.verbs.planning import Plan
    from ipuenv.verbs.variant_stages import Ran

HOT_FUNCTIONS = 30
"""How many functions a manifest lists."""

THREADS = 64
"""How many threads a manifest lists, busiest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that the stages of a one-variant run returned."""

    plan: Plan
    started_at: datetime
    revision: Revision | None
    sdk: SdkEnvironment | None
    sdk_version: str
    built: Built
    executable: Blob
    ran: Ran
    output: Blob | None
    identities: Identities
    read: Recording
    pictures: Mapping[str, Picture]
    durations_s: Mapping[str, float]


def run_manifest(evidence: Evidence, staging: Staging) -> manifest.RunManifest:
    """The manifest of a run with one variant."""
    plan, revision, host = evidence.plan, evidence.revision, provenance.machine()
    return manifest.with_commands(
        manifest.RunManifest(
            run_id=staging.run_id,
            collection=plan.profile.artifacts,
            label=plan.label,
            sweep_id=plan.sweep_id,
            started_at=evidence.started_at,
            profile=_profile(plan),
            workspace=manifest.Workspace(root=os.fspath(plan.roots.workspace), bundled=plan.roots.workspace_is_bundled),
            git=manifest.Git(
                revision=revision.commit,
                branch=revision.branch,
                dirty=revision.is_dirty,
                diff_sha256=revision.diff_sha256,
            )
            if revision is not None
            else None,
            sdk=_sdk(evidence.sdk, evidence.sdk_version) if evidence.sdk is not None else None,
            tools=manifest.Tools(
                ipuenv=ipuenv.__version__,
                python=platform.python_version(),
                rustc=evidence.built.rustc_version,
                cargo=evidence.built.cargo_version,
                perf=evidence.ran.recording.perf_version,
            ),
            host=manifest.Host(name=host.name, kernel=host.kernel, cpu_model=host.cpu_model, cpus=host.cpus),
            baseline_run=evidence.identities.baseline_run,
            planned=(plan.variant.id,),
            variants=(_variant(evidence, staging),),
            stage_durations_s=evidence.durations_s,
        )
    )


def _variant(evidence: Evidence, staging: Staging) -> manifest.VariantManifest:
    plan, ran, read = evidence.plan, evidence.ran, evidence.read
    return manifest.VariantManifest(
        run_id=staging.run_id,
        id=plan.variant.id,
        axes=dict(plan.variant.values),
        notes=plan.notes,
        status=ran.status,
        status_reason=ran.status_reason,
        run_dir=os.fspath(ran.folder),
        build=_build(evidence),
        program=manifest.Command(
            argv=ran.argv,
            cwd=os.fspath(plan.roots.workspace),
            sdk_environment=evidence.sdk is not None,
            environment=_changes(ran.program.variables, ran.program.removed),
        ),
        executable=manifest.Executable(
            name=evidence.executable.path.name,
            path=os.fspath(evidence.executable.path),
            sha256=evidence.executable.sha256,
            size_bytes=evidence.executable.size_bytes,
            build_id=read_build_id(evidence.executable.path.read_bytes()) or None,
        ),
        output=_output(evidence),
        recording=_recording(evidence),
        executions=(
            manifest.Execution(
                kind="recorded",
                status=ran.status,
                exit_code=ran.execution.exit_code,
                wall_s=ran.execution.wall_s,
                user_s=ran.execution.user_s,
                system_s=ran.execution.system_s,
                peak_rss_bytes=ran.execution.peak_rss_bytes,
            ),
        ),
        phases=tuple(
            manifest.Phase(name=phase.name, elapsed_ms=phase.elapsed_ms, success=phase.success)
            for phase in ran.log.phases
        ),
        device=_device(evidence),
        parallelism=_parallelism(read.parallelism),
        hot_functions=tuple(
            manifest.HotFunction(name=hot.name, self_samples=hot.self_weight, total_samples=hot.total_weight)
            for hot in hot_functions(views.draw(read.stacks, views.FUNCTIONS), HOT_FUNCTIONS)
        ),
        views={
            name: manifest.View(
                file=picture.path.name,
                total_samples=picture.total,
                frames=picture.frames,
                inline=picture.view.inline,
                elide=picture.view.elide,
            )
            for name, picture in evidence.pictures.items()
        },
        svg=manifest.Svg(
            image_width=plan.profile.svg.image_width,
            min_width=plan.profile.svg.min_width,
            deterministic=plan.profile.svg.deterministic,
        ),
        stage_durations_s=evidence.durations_s,
    )


def _changes(variables: Mapping[str, str], removed: Iterable[str]) -> manifest.EnvironmentChanges:
    """What a process got other than we have ourselves."""
    return manifest.EnvironmentChanges(
        added={name: value for name, value in variables.items() if name not in os.environ},
        changed={name: value for name, value in variables.items() if os.environ.get(name, value) != value},
        removed=tuple(name for name in removed if name in os.environ),
    )


def _profile(plan: Plan) -> manifest.Profile:
    where = os.fspath(plan.profile_file)
    settings = [
        manifest.Setting(key=f"settings.{name}", value=_plain(setting.value), source=setting.origin)
        for name, setting in plan.settings.by_name().items()
    ]
    settings += [
        manifest.Setting(key=key, value=value, source=where if is_set else Source.DEFAULT)
        for key, value, is_set in _flattened(plan.profile)
    ]
    return manifest.Profile(
        name=plan.name, title=plan.profile.title, notes=plan.profile.notes, settings=tuple(settings)
    )


def _plain(value: object) -> JsonValue:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _flattened(section: Section, prefix: str = "", *, is_set: bool = True) -> Iterator[tuple[str, JsonValue, bool]]:
    """Each key of a profile with its value, and whether the file has it or it is a default."""
    dumped: dict[str, JsonValue] = section.model_dump(mode="json", by_alias=True)
    for name, field in type(section).model_fields.items():
        key = str(field.alias or name)
        value = getattr(section, name)
        stands = is_set and name in section.model_fields_set
        if isinstance(value, Section):
            yield from _flattened(value, f"{prefix}{key}.", is_set=stands)
        else:
            yield f"{prefix}{key}", dumped[key], stands


def _sdk(captured: SdkEnvironment, version: str) -> manifest.Sdk:
    return manifest.Sdk(
        root=os.fspath(captured.sdk),
        scripts=tuple(map(os.fspath, captured.scripts)),
        stand_in=captured.is_stand_in,
        version=version or None,
        digest=captured.digest,
        environment=manifest.EnvironmentChanges(
            added=captured.added, changed=captured.changed, removed=captured.removed
        ),
    )


def _build(evidence: Evidence) -> manifest.Build:
    plan, built = evidence.plan, evidence.built
    return manifest.Build(
        row=plan.variant.build,
        target_dir=os.fspath(plan.build_request.target_dir),
        cargo_profile=plan.row.cargo_profile,
        debug=plan.row.debug,
        jobs=plan.row.jobs,
        rustflags=plan.row.rustflags or (),
        command=manifest.Command(
            argv=built.argv,
            cwd=os.fspath(plan.roots.workspace),
            sdk_environment=plan.row.sdk_environment and evidence.sdk is not None,
            environment=_changes(built.variables, built.removed),
        ),
        artifact=os.fspath(built.executable),
        rustflags_replaced=built.rustflags_replaced,
        fresh=built.fresh,
    )


def _output(evidence: Evidence) -> manifest.Output | None:
    declared, path = evidence.plan.profile.output, evidence.ran.program.output
    if declared is None or path is None:
        return None
    stored = evidence.output
    return manifest.Output(
        file=os.path.relpath(path, evidence.ran.folder),
        depends_on=declared.depends_on,
        sha256=stored.sha256 if stored is not None else None,
        size_bytes=stored.size_bytes if stored is not None else None,
        others=evidence.identities.others,
        baseline=evidence.identities.baseline,
    )


def _recording(evidence: Evidence) -> manifest.Recording:
    quality, asked = evidence.read.quality, evidence.plan.profile.record
    return manifest.Recording(
        file=evidence.ran.recording.perf_data.name,
        event_asked=None,
        events_used=evidence.read.events,
        frequency_hz=asked.frequency,
        call_graph=str(asked.call_graph),
        program_pid=evidence.ran.recording.pid,
        samples=quality.samples,
        lost=quality.lost,
        truncated=quality.truncated,
        with_unknown=quality.with_unknown,
        unknown_frames=tuple(
            manifest.UnknownFrames(dso=unknown.dso, frames=unknown.frames, reason=unknown.reason)
            for unknown in quality.unknown
        ),
        quality=quality.grade.value,
        reasons=quality.reasons,
        command=manifest.Command(
            argv=evidence.ran.recording.argv, cwd=os.fspath(evidence.plan.roots.workspace), sdk_environment=False
        ),
    )


def _device(evidence: Evidence) -> manifest.Device:
    plan, log = evidence.plan, evidence.ran.log
    device = plan.profile.device
    return manifest.Device(
        touched=log.device_touched,
        evidence=log.evidence,
        lock=os.fspath(plan.device_lock) if plan.device_lock is not None else None,
        holder=device.holder.value if device is not None else None,
        lock_wait_s=evidence.ran.lock_wait_s,
    )


def _parallelism(measured: Parallelism | None) -> manifest.Parallelism | None:
    if measured is None:
        return None
    return manifest.Parallelism(
        mean_busy_threads=measured.mean_busy,
        serial_fraction=measured.serial_share,
        idle_fraction=measured.idle_share,
        threads=tuple(
            manifest.ThreadShare(tid=thread.tid, name=thread.comm, share=min(thread.share, 1.0))
            for thread in measured.threads[:THREADS]
        ),
    )
