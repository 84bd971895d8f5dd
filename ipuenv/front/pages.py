"""Generated pages: the README.md of a run and of a collection. Pure functions from manifests to Markdown.

Every statement is taken from the manifest; what it does not know, the page does not say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ipuenv.front import evidence
from ipuenv.front.markdown import code, fence, link, shortened, table, text
from ipuenv.ground.console import duration, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ipuenv.stages.manifest import RunManifest, VariantManifest, View
    from ipuenv.stages.store import Recent

TOP_FUNCTIONS = 15
"""How many functions a page lists of each variant; the manifest holds more."""

_UNKNOWN = "-"


def run_page(run: RunManifest) -> str:
    """The README.md of a run."""
    sections = [
        _head(run),
        _outputs(run),
        evidence.profiled(run),
        evidence.identity(run),
        _reading(run),
        _results(run),
        _parallelism(run),
        _functions(run),
        _phases(run),
        evidence.environment(run),
        _commands(run),
        _remarks(run),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(run: RunManifest) -> str:
    label = f", label {code(run.label)}" if run.label else ""
    sweep = f", sweep {code(run.sweep_id)}" if run.sweep_id else ""
    return (
        f"# {text(run.profile.title)}\n\n"
        f"Run {code(run.run_id)} of {code(run.collection)}, started {run.started_at:%Y-%m-%d %H:%M:%S %Z}{label}{sweep}. "
        f"Written by ipuenv {text(run.tools.ipuenv)} from {link('`manifest.json`', 'manifest.json')}; do not edit."
    )


def _outputs(run: RunManifest) -> str:
    lines = ["## Interactive outputs", ""]
    for variant in run.variants:
        for name, view in variant.views.items():
            path = f"{variant.id}/{view.file}"
            lines.append(f"* {link(code(path), path)}: {_view(name, view)}")
        if not variant.views:
            reason = f": {text(variant.status_reason)}" if variant.status_reason else ""
            lines.append(f"* {code(variant.id)}: no picture ({variant.status}{reason})")
    recorded = [variant for variant in run.variants if variant.views and variant.recording and variant.recording.file]
    if recorded:
        files = ", ".join(code(f"{variant.id}/{variant.recording.file}") for variant in recorded if variant.recording)
        subject = (
            "All of them use the same recording"
            if len(recorded) == 1
            else "All pictures of a variant use one recording"
        )
        lines += ["", f"{subject}, saved as {files}."]
    return "\n".join(lines)


def _view(name: str, view: View) -> str:
    words = "including inlined frames" if view.inline else "function level, without inlined frames"
    if view.elide:
        words += f"; frames that match {', '.join(map(code, view.elide))} are left out, their samples are not"
    return f"{text(name)} view, {words} ({view.total_samples:,} samples)."


def _reading(run: RunManifest) -> str:
    recordings = [variant.recording for variant in run.variants if variant.recording is not None]
    if not recordings:
        return ""
    events = sorted({event for recording in recordings for event in recording.events_used})
    rates = sorted({recording.frequency_hz for recording in recordings})
    rate = " and ".join(f"{rate} Hz" for rate in rates)
    source = f" ({', '.join(map(code, events))} at {rate})" if events else f" (at {rate})"
    return (
        "## How to read the frames\n\n"
        f"Frame width represents CPU samples{source} across threads, not wall-clock latency.\n"
        "Click a frame to zoom, use Reset Zoom to return, and Search to highlight names."
    )


# -- results ----------------------------------------------------------------------------------------------------------


def _results(run: RunManifest) -> str:
    header = ["variant", "status", "exit", "wall", "user", "system", "peak RSS", "samples", "lost", "quality"]
    rows = [_result(variant) for variant in run.variants]
    parts = ["## Results", table(header, rows, right=frozenset(range(2, 9)))]
    notes = [note for variant in run.variants for note in _result_notes(variant)]
    missing = [name for name in run.planned if name not in {variant.id for variant in run.variants}]
    if missing:
        notes.append(f"* Planned but not run: {', '.join(map(code, missing))}.")
    parts += ["\n".join(notes)] if notes else []
    timed = [_timed(variant) for variant in run.variants if any(e.kind == "timed" for e in variant.executions)]
    if timed:
        header = ["variant", "timed executions", "median wall", "least", "most", "median user", "median system"]
        parts += [
            "Executions that were timed without perf:",
            table(header, timed, right=frozenset(range(1, 7))),
        ]
    return "\n\n".join(parts)


def _result(variant: VariantManifest) -> list[str]:
    execution, recording = variant.recorded, variant.recording
    figures = [_UNKNOWN] * 5
    if execution is not None:
        figures = [
            _UNKNOWN if execution.exit_code is None else str(execution.exit_code),
            *(duration(value) for value in (execution.wall_s, execution.user_s, execution.system_s)),
            size(execution.peak_rss_bytes),
        ]
    quality = [_UNKNOWN] * 3
    if recording is not None:
        quality = [f"{recording.samples:,}", f"{recording.lost:,}", recording.quality]
    return [code(variant.id), variant.status, *figures, *quality]


def _result_notes(variant: VariantManifest) -> Iterator[str]:
    name = code(variant.id)
    if variant.status_reason:
        yield f"* {name}: {variant.status}: {text(variant.status_reason)}"
    if variant.recording is not None:
        for reason in variant.recording.reasons:
            yield f"* {name}: {variant.recording.quality} quality: {text(reason)}"
        unknown = variant.recording.unknown_frames
        if unknown:
            frames = sum(entry.frames for entry in unknown)
            most = f"most are in {code(unknown[0].dso)}" if len(unknown) > 1 else f"all are in {code(unknown[0].dso)}"
            reason = f" ({text(unknown[0].reason)})" if unknown[0].reason else ""
            yield f"* {name}: {frames:,} frames have no symbol; {most}{reason}."


def _timed(variant: VariantManifest) -> list[str]:
    from statistics import median

    timed = [execution for execution in variant.executions if execution.kind == "timed"]
    walls = [execution.wall_s for execution in timed]
    return [
        code(variant.id),
        str(len(timed)),
        *(duration(value) for value in (median(walls), min(walls), max(walls))),
        duration(median(execution.user_s for execution in timed)),
        duration(median(execution.system_s for execution in timed)),
    ]


def _parallelism(run: RunManifest) -> str:
    lines = [f"* {code(v.id)}: {_busy(v)}" for v in run.variants if v.parallelism is not None]
    return "\n".join(["## Parallelism", "", *lines]) if lines else ""


def _busy(variant: VariantManifest) -> str:
    facts = variant.parallelism
    if facts is None:
        return ""
    words = (
        f"{facts.mean_busy_threads:.1f} threads were busy on average; in {facts.serial_fraction:.0%} of the time it was "
        "about one"
    )
    shares = ", ".join(
        f"{code(thread.name) if thread.name else 'thread'} {thread.tid} {thread.share:.0%}"
        for thread in facts.threads[:4]
    )
    return f"{words}. Busiest: {shares}." if shares else f"{words}."


def _functions(run: RunManifest) -> str:
    parts = []
    for variant in run.variants:
        whole = variant.recording.samples if variant.recording is not None else 0
        rows = [
            [code(shortened(entry.name)), _samples(entry.self_samples, whole), _samples(entry.total_samples, whole)]
            for entry in variant.hot_functions[:TOP_FUNCTIONS]
        ]
        if rows:
            title = f"## Top functions of {code(variant.id)}"
            parts.append(f"{title}\n\n{table(['function', 'self', 'total'], rows, right=frozenset({1, 2}))}")
    return "\n\n".join(parts)


def _samples(count: int, whole: int) -> str:
    return f"{count:,} ({count / whole:.1%})" if whole else f"{count:,}"


def _phases(run: RunManifest) -> str:
    rows = [
        [code(variant.id), code(shortened(phase.name)), f"{phase.elapsed_ms:,.1f} ms", "yes" if phase.success else "no"]
        for variant in run.variants
        for phase in variant.phases
    ]
    if not rows:
        return ""
    header = ["variant", "phase", "elapsed", "success"]
    return f"## Phases\n\nAs the program logged them; they may nest.\n\n{table(header, rows, right=frozenset({2}))}"


def _commands(run: RunManifest) -> str:
    parts = []
    for variant in run.variants:
        if variant.commands:
            parts.append(f"## By hand: {code(variant.id)}\n\n{_by_hand(run)}")
        for command in variant.commands:
            where = "From this folder:" if command.folder == "." else f"From {code(command.folder)}:"
            parts.append(f"{text(command.title)}. {where}\n\n{fence(command.script)}")
    return "\n\n".join(parts)


def _by_hand(run: RunManifest) -> str:
    tree = ""
    if run.git is not None:
        tree = f"The workspace has to be at git revision {code(run.git.revision[:12])}"
        tree += ", with the same uncommitted changes. " if run.git.dirty else ". "
    return f"{tree}What these commands make goes to a temporary folder; a stored run never changes."


def _remarks(run: RunManifest) -> str:
    lines = [f"* {text(remark)}" for remark in run.remarks]
    lines += [f"* {code(variant.id)}: {text(remark)}" for variant in run.variants for remark in variant.remarks]
    return "\n".join(["## Remarks", "", *lines]) if lines else ""


# -- collection -------------------------------------------------------------------------------------------------------


def collection_page(name: str, recent: Sequence[Recent], total: int) -> str:
    """The README.md of a collection: its newest runs (``recent``, newest first) of ``total``."""
    newest = next((entry.manifest for entry in recent if entry.manifest is not None), None)
    title = text(newest.profile.title) if newest is not None else code(name)
    shown = f"The newest {len(recent)} of {total:,} runs" if total > len(recent) else f"{total} runs"
    parts = [
        f"# {title}: runs",
        f"{shown} of {code(name)}, newest first. Written by ipuenv whenever a run is stored; do not edit.",
    ]
    if recent:
        header = ["run", "status", "variants", "wall", "label", "pictures"]
        parts.append(table(header, [_run_row(entry) for entry in recent], right=frozenset({2, 3})))
    if newest is not None:
        parts.append(_sweep(newest, [entry.manifest for entry in recent if entry.manifest is not None]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _run_row(entry: Recent) -> list[str]:
    run = entry.manifest
    name = link(code(entry.run.id), f"{entry.run.id}/README.md")
    if run is None:
        return [name, f"unreadable: {text(entry.problem)}", *[_UNKNOWN] * 4]
    walls = [variant.recorded.wall_s for variant in run.variants if variant.recorded is not None]
    pictures = [
        link(code(variant.id), f"{run.run_id}/{variant.id}/{next(iter(variant.views.values())).file}")
        for variant in run.variants
        if variant.views
    ]
    return [
        name,
        _status(run),
        str(len(run.variants)),
        duration(sum(walls)) if walls else _UNKNOWN,
        code(run.label) if run.label else "",
        ", ".join(pictures) or _UNKNOWN,
    ]


def _status(run: RunManifest) -> str:
    counts: dict[str, int] = {}
    for variant in run.variants:
        counts[variant.status] = counts.get(variant.status, 0) + 1
    words = [status if count == len(run.variants) else f"{count} {status}" for status, count in counts.items()]
    return ", ".join(words) + ("" if run.complete else ", incomplete")


def _sweep(newest: RunManifest, runs: Sequence[RunManifest]) -> str:
    """How the newest sweep scales: its variants side by side."""
    same = [run for run in runs if newest.sweep_id and run.sweep_id == newest.sweep_id] or [newest]
    variants = [variant for run in reversed(same) for variant in run.variants]
    if len(variants) < 2:
        return ""
    header = ["variant", "status", "wall", "user", "busy threads", "about one thread", "peak RSS", "output"]
    rows = [_sweep_row(variant) for variant in variants]
    return f"## Newest sweep\n\n{table(header, rows, right=frozenset(range(2, 7)))}"


def _sweep_row(variant: VariantManifest) -> list[str]:
    execution, parallelism, output = variant.recorded, variant.parallelism, variant.output
    figures = [_UNKNOWN] * 3
    if execution is not None:
        figures = [duration(execution.wall_s), duration(execution.user_s), size(execution.peak_rss_bytes)]
    busy = [_UNKNOWN] * 2
    if parallelism is not None:
        busy = [f"{parallelism.mean_busy_threads:.1f}", f"{parallelism.serial_fraction:.0%}"]
    sha256 = code(output.sha256[:12]) if output is not None and output.sha256 is not None else _UNKNOWN
    return [code(variant.id), variant.status, *figures[:2], *busy, figures[2], sha256]
