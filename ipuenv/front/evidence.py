"""The parts of a run's page that say what was profiled: program, device, output bytes, environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ipuenv.front.markdown import code, table, text
from ipuenv.ground.console import duration, size

if TYPE_CHECKING:
    from ipuenv.stages.manifest import (
        Build,
        EnvironmentChanges,
        Identity,
        Output,
        RunManifest,
        VariantManifest,
    )


def profiled(run: RunManifest) -> str:
    """What was profiled: the profile's own words, executable, revision, device."""
    lines = ["## What was profiled", ""]
    lines += [f"* {_names(names)}{text(notes)}" for notes, names in _grouped(run, lambda v: v.notes) if notes]
    lines += [f"* {sentence}" for sentence in _workspace(run)]
    lines += [f"* {_names(names)}{sentence}" for sentence, names in _grouped(run, _executable) if sentence]
    lines += [f"* {_names(names)}{sentence}" for sentence, names in _grouped(run, _device)]
    return "\n".join(lines)


def _grouped(run: RunManifest, sentence_of: Callable[[VariantManifest], str]) -> Iterator[tuple[str, list[str]]]:
    """Each sentence once, with the variants it holds for; no names where it holds for all."""
    groups: dict[str, list[str]] = {}
    for variant in run.variants:
        groups.setdefault(sentence_of(variant), []).append(variant.id)
    for sentence, names in groups.items():
        yield sentence, [] if len(names) == len(run.variants) else names


def _names(names: list[str]) -> str:
    return f"{', '.join(map(code, names))}: " if names else ""


def _workspace(run: RunManifest) -> Iterator[str]:
    if run.workspace.bundled:
        yield (
            f"The workspace {code(run.workspace.root)} is the one bundled with ipuenv: it stands in for a real one, "
            "and its times say nothing about that."
        )
    else:
        yield f"The workspace is {code(run.workspace.root)}."
    if run.sdk is not None and run.sdk.stand_in:
        yield f"The SDK {code(run.sdk.root)} is ipuenv's stand-in, not Graphcore's."
    elif run.sdk is not None:
        yield f"The SDK is {code(run.sdk.root)}."
    if run.git is None:
        yield "The workspace is under no git revision."
        return
    branch = f" on branch {code(run.git.branch)}" if run.git.branch else ""
    dirty = ", without uncommitted changes to tracked files"
    if run.git.dirty:
        diff = f" (SHA-256 of the diff {code(run.git.diff_sha256)})" if run.git.diff_sha256 else ""
        dirty = f", **with uncommitted changes**{diff}"
    yield f"Git revision {code(run.git.revision)}{branch}{dirty}."


def _executable(variant: VariantManifest) -> str:
    executable = variant.executable
    if executable is None:
        return ""
    build_id = f", build-id {code(executable.build_id)}" if executable.build_id else ""
    return (
        f"The executable {code(executable.name)} ({size(executable.size_bytes)}, SHA-256 {code(executable.sha256)}"
        f"{build_id}) was built as {code(variant.build.row)} and run from its own copy."
    )


def _device(variant: VariantManifest) -> str:
    device = variant.device
    seen = f": {code(device.evidence)}" if device.evidence else ""
    sentence = {
        "no": f"It does not execute the IPU{seen}.",
        "yes": f"It executed the IPU{seen}.",
        "unknown": f"Whether it executed the IPU is not known{seen}.",
    }[device.touched]
    if device.lock_wait_s:
        sentence += f" It waited {duration(device.lock_wait_s)} for the device's lock."
    return sentence


def identity(run: RunManifest) -> str:
    """Whether the outputs are byte-identical to each other and to the baseline's."""
    lines = [f"* {_output(variant.id, variant.output)}" for variant in run.variants if variant.output is not None]
    return "\n".join(["## Output bytes", "", *lines]) if lines else ""


def _output(variant_id: str, output: Output) -> str:
    path = code(f"{variant_id}/{output.file}")
    if output.sha256 is None or output.size_bytes is None:
        return f"{path} was not written."
    return (
        f"{path}: {size(output.size_bytes)}, SHA-256 {code(output.sha256)}. "
        f"{_verdict(output.others, 'the other variants', 'There is no other variant to compare it with.')} "
        f"{_verdict(output.baseline, 'the baseline', 'There is no baseline to compare it with.')}"
    )


def _verdict(judged: Identity, whose: str, nothing: str) -> str:
    if judged.verdict == "identical":
        return f"Byte-identical to that of {whose} ({', '.join(map(code, judged.against))})."
    if judged.verdict == "differs":
        return f"**Differs** from that of {whose} ({', '.join(map(code, judged.differing))})."
    return nothing


def environment(run: RunManifest) -> str:
    """Versions, builds and the variables that were set."""
    parts = ["## Environment", table(["what", "value"], [[name, value] for name, value in _versions(run)])]
    builds = {variant.build.row: variant.build for variant in run.variants}
    if builds:
        header = ["build", "target dir", "cargo profile", "debug info", "jobs", "RUSTFLAGS"]
        parts.append(table(header, [_build(build) for build in builds.values()]))
    parts += [
        f"The build's flags replace {text(b.rustflags_replaced)}." for b in builds.values() if b.rustflags_replaced
    ]
    variables = list(_variables(run))
    if variables:
        parts.append(table(["for", "variable", "", "value"], variables))
    return "\n\n".join(parts)


def _versions(run: RunManifest) -> Iterator[tuple[str, str]]:
    yield (
        "host",
        f"{code(run.host.name)}, {text(run.host.cpu_model)}, {run.host.cpus} CPUs, kernel {text(run.host.kernel)}",
    )
    tools = run.tools
    for name, version in (
        ("perf", tools.perf),
        ("rustc", tools.rustc),
        ("cargo", tools.cargo),
        ("Python", tools.python),
    ):
        if version is not None:
            yield name, text(version)
    if run.sdk is not None and run.sdk.version is not None:
        yield "SDK", text(run.sdk.version)
    yield "ipuenv", text(tools.ipuenv)


def _build(build: Build) -> list[str]:
    return [
        code(build.row),
        code(build.target_dir),
        code(build.cargo_profile),
        "as the workspace says" if build.debug is None else text(str(build.debug).lower()),
        "as cargo decides" if build.jobs is None else str(build.jobs),
        " ".join(map(code, build.rustflags)) or "as the workspace says",
    ]


def _variables(run: RunManifest) -> Iterator[list[str]]:
    """A row for each variable that the SDK, a build or the program had changed; once where all variants agree."""
    if run.sdk is not None:
        yield from (["SDK", *cells] for cells in _changes(run.sdk.environment))
    builds = {variant.build.row: variant.build.command for variant in run.variants}
    for row, command in builds.items():
        if command is not None:
            yield from ([f"build {code(row)}", *cells] for cells in _changes(command.environment))
    programs: dict[tuple[str, ...], list[str]] = {}
    for variant in run.variants:
        for cells in _changes(variant.program.environment):
            programs.setdefault(tuple(cells), []).append(variant.id)
    for cells, names in programs.items():
        whose = "" if len(names) == len(run.variants) else f" of {', '.join(map(code, names))}"
        yield [f"program{whose}", *cells]


def _changes(changes: EnvironmentChanges) -> Iterator[Sequence[str]]:
    for how, variables in (("added", changes.added), ("changed", changes.changed)):
        for name, value in variables.items():
            yield code(name), how, code(value)
    for name in changes.removed:
        yield code(name), "removed", ""
