"""``flamegraph``: what is said before, during and after a run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ipuenv.front import pages
from ipuenv.ground.console import duration, size
from ipuenv.ground.errors import FailedError, GateError, UsageError, worst
from ipuenv.ground.profile import Identity
from ipuenv.stages import store
from ipuenv.verbs import dry_run, pipeline, planning, where

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ipuenv.ground.console import Console
    from ipuenv.stages.manifest import RunManifest, VariantManifest
    from ipuenv.stages.store import Published
    from ipuenv.verbs.planning import Plan

HOT_SHOWN = 10
_DONE = 0


def flamegraph(
    options: Mapping[str, str | None],
    *,
    variant: str | None,
    label: str | None,
    console: Console,
    as_json: bool,
    sweep_id: str | None = None,
    lock_timeout: str | None = None,
) -> int:
    """Record a variant and show what came of it; the exit code. Runs that belong together share a ``sweep_id``."""
    plan = _prepared(options, variant, label, console, sweep_id, lock_timeout)
    _introduce(plan, console)
    writers = pipeline.Pages(run=pages.run_page, collection=partial(pages.collection_page, plan.profile.artifacts))
    published = pipeline.flamegraph(plan, console, writers)
    for note in published.notes:
        console.warn(note)
    if published.left_out:
        console.warn(f"not stored, being no plain files: {', '.join(published.left_out)}")
    summarize(published, console)
    if as_json:
        console.json(_answer(published))
    return worst([_verdict(plan, variant, console) for variant in published.manifest.variants])


def _verdict(plan: Plan, variant: VariantManifest, console: Console) -> int:
    """The exit code of one variant: it failed, or its output had to be identical to others and is not."""
    if variant.status != "pass":
        return FailedError.exit_code
    declared, output = plan.profile.output, variant.output
    if declared is None or output is None or declared.identical is not Identity.REQUIRED:
        return _DONE
    differing = [*output.others.differing, *output.baseline.differing]
    if not differing:
        return _DONE
    console.error(
        GateError(
            f"the output of {variant.id} differs from that of {', '.join(dict.fromkeys(differing))}",
            expected=f"equal bytes where {' and '.join(declared.depends_on) or 'nothing'} is equal",
            hint=f'compare the files, or set [output] identical = "{Identity.REPORTED}" if they may differ',
        )
    )
    return GateError.exit_code


def print_plan(
    options: Mapping[str, str | None], *, variant: str | None, label: str | None, console: Console, as_json: bool
) -> int:
    """Print what :func:`flamegraph` would do."""
    plan = _prepared(options, variant, label, console)
    planned = dry_run.plan_commands(plan)
    if as_json:
        console.json(planned.data())
        return _DONE
    _introduce(plan, console)
    for line in planned.script():
        console.answer(line)
    console.answer(f"# then drawn: {', '.join(path.name for path in planned.files if path.suffix == '.svg')}")
    console.answer(f"# stored in: {planned.run_folder}")
    return _DONE


def _prepared(
    options: Mapping[str, str | None],
    variant: str | None,
    label: str | None,
    console: Console,
    sweep_id: str | None = None,
    lock_timeout: str | None = None,
) -> Plan:
    if label is not None:
        store.checked_label(label)
    return planning.prepare(
        where.find_where(options, console),
        variant=variant,
        label=label,
        sweep_id=sweep_id,
        lock_timeout_s=seconds("lock-timeout", lock_timeout),
    )


def seconds(option: str, text: str | None) -> float | None:
    """An option's value as seconds.

    Raises:
        UsageError: it is no number, or a negative one.
    """
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise UsageError(f"--{option} is '{text}'", expected="seconds, 0 or more", hint=f"--{option} 60")
    return value


def _introduce(plan: Plan, console: Console) -> None:
    """What is used, said before anything takes long; stand-ins are called so."""
    roots = plan.roots
    console.note(f"{plan.profile.title}: {plan.variant.id}, build '{plan.variant.build}'", style="bold")
    console.note(f"  profile    {plan.profile_file}")
    if roots.workspace_is_bundled:
        console.note(f"  workspace  {roots.workspace} (the bundled workspace, a stand-in for a real one)")
    else:
        console.note(f"  workspace  {roots.workspace} ({plan.settings.workspace.origin})")
    if not roots.needs_sdk:
        console.note(f"  SDK        none ({plan.settings.sdk.origin})")
    elif roots.sdk_is_bundled:
        console.note(f"  SDK        {roots.sdk} (the bundled stand-in, not Graphcore's SDK)")
    else:
        console.note(f"  SDK        {roots.sdk or 'searched for around the workspace'} ({plan.settings.sdk.origin})")


def summarize(published: Published, console: Console) -> None:
    """The answer: files, hottest functions, quality, parallelism, identity."""
    run = published.manifest
    for variant in run.variants:
        _summarize_variant(run, variant, published.path, console)


def _summarize_variant(run: RunManifest, variant: VariantManifest, path: Path, console: Console) -> None:
    folder = path / variant.id
    heading = f"{run.profile.title}, {variant.id}: {variant.status}"
    console.answer()
    console.answer(heading, style="bold green" if variant.status == "pass" else "bold red")
    if variant.status_reason:
        console.answer(f"  {variant.status_reason}; its output is in {_shown(folder / 'run.log')}")
    console.answer()
    rows = [(_shown(folder / file.path), size(file.size_bytes)) for file in variant.files]
    console.table(
        [*rows, (_shown(path / store.README), "")], header=("written", "size"), right=frozenset({1}), indent=2
    )
    _hottest(variant, console)
    console.answer()
    console.table(list(_facts(run, variant)), indent=2)


def _hottest(variant: VariantManifest, console: Console) -> None:
    if variant.recording is None:
        return
    whole = max(variant.recording.samples, 1)
    rows = [
        (f"{hot.self_samples / whole:.1%}", f"{hot.total_samples / whole:.1%}", hot.name)
        for hot in variant.hot_functions[:HOT_SHOWN]
    ]
    console.answer()
    console.table(rows, header=("self", "total", "hottest functions"), right=frozenset({0, 1}), indent=2)


def _facts(run: RunManifest, variant: VariantManifest) -> Iterator[tuple[str, str]]:
    recorded = variant.recorded
    if recorded is not None:
        cpu = f"{duration(recorded.user_s)} user, {duration(recorded.system_s)} system"
        yield "program", f"{duration(recorded.wall_s)} wall, {cpu}, peak {size(recorded.peak_rss_bytes)}"
    if variant.recording is not None:
        recording = variant.recording
        lost = f", {recording.lost:,} lost" if recording.lost else ""
        events = ", ".join(recording.events_used)
        yield "samples", f"{recording.samples:,} of {events} at {recording.frequency_hz} Hz{lost}"
        yield "quality", "; ".join([recording.quality, *recording.reasons])
    if variant.parallelism is not None:
        yield "parallelism", _busy(run, variant)
    if variant.output is not None:
        yield "package", _identity(run, variant)
    yield "device", _device(variant)


def _busy(run: RunManifest, variant: VariantManifest) -> str:
    measured = variant.parallelism
    if measured is None:
        return ""
    serial = f"one alone for {measured.serial_fraction:.0%} of the time, none for {measured.idle_fraction:.0%}"
    busiest = f"the busiest of {len(measured.threads)} threads did {measured.threads[0].share:.0%} of the work"
    mean = f"{measured.mean_busy_threads:.1f} threads busy on average on {run.host.cpus} CPUs"
    return f"{mean}; {serial}; {busiest}" if measured.threads else mean


def _identity(run: RunManifest, variant: VariantManifest) -> str:
    output = variant.output
    if output is None or output.sha256 is None:
        return "not written"
    said = [f"sha256 {output.sha256[:16]}"]
    baseline = output.baseline
    if baseline.verdict == "no baseline":
        pinned = f"the baseline {run.baseline_run} holds nothing to compare with"
        said.append(pinned if run.baseline_run else "no baseline is pinned")
    else:
        verdict = "identical to" if baseline.verdict == "identical" else "DIFFERS from"
        said.append(f"{verdict} the baseline {run.baseline_run}")
    others = output.others
    if others.verdict == "identical":
        said.append(f"identical to {len(others.against)} earlier that must agree")
    elif others.verdict == "differs":
        said.append(f"DIFFERS from {', '.join(others.differing)}")
    return "; ".join(said)


def _device(variant: VariantManifest) -> str:
    match variant.device.touched:
        case "no":
            return "not touched: the program's log shows no sign of the device being taken"
        case "yes":
            return f"touched: {variant.device.evidence}"
        case "unknown":
            return "unknown: the program logged nothing that would tell"


def _shown(path: Path) -> str:
    """A path as someone in this folder would type it."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else os.fspath(path)


def _answer(published: Published) -> dict[str, JsonValue]:
    run = published.manifest
    return {
        "run": run.run_id,
        "path": os.fspath(published.path),
        "variants": [
            {
                "id": variant.id,
                "status": variant.status,
                "path": os.fspath(published.path / variant.id),
                "files": [os.fspath(published.path / variant.id / file.path) for file in variant.files],
                "output": variant.output.model_dump(mode="json") if variant.output is not None else None,
                "samples": variant.recording.samples if variant.recording is not None else None,
                "quality": variant.recording.quality if variant.recording is not None else None,
            }
            for variant in run.variants
        ],
    }
