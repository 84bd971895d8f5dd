"""The commands that make a run again by hand, from the facts of its manifest: bash, with stock tools where they do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ipuenv.stages.manifest.parts import Command, EnvironmentChanges, Recording, ReproductionCommand, Sdk

if TYPE_CHECKING:
    from ipuenv.stages.manifest.documents import RunManifest, VariantManifest

_LINE = 100
"""Where a command is broken into lines; a longer word stays whole."""

_RUN_FOLDER = "."
_FUNCTIONS = "functions"
_SDK_MARK = "POPLAR_SDK_ENABLED"
"""The SDK's script does nothing where this is set."""


def with_commands(run: RunManifest) -> RunManifest:
    """The same run, each variant with its commands."""
    variants = tuple(
        variant.model_copy(update={"commands": tuple(_commands(run, variant))}) for variant in run.variants
    )
    return run.model_copy(update={"variants": variants})


def quoted(text: str) -> str:
    """``text`` as one bash word; characters that a page or a terminal would change are written as escapes."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(_escaped(char) for char in text) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    return char if char.isprintable() else "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def _commands(run: RunManifest, variant: VariantManifest) -> Iterator[ReproductionCommand]:
    recording, output = variant.recording, variant.output
    if recording is not None:
        yield ReproductionCommand(
            kind="record",
            title="Build and record" if variant.build.command else "Record",
            folder=variant.program.cwd,
            script=_record(run, variant, recording),
        )
    if recording is not None and output is not None and output.sha256 is not None:
        lines = [*_out(run, variant), _wrapped(*_package_check(variant.id, output.file, output.sha256))]
        yield ReproductionCommand(
            kind="package",
            title="Compare the output made by hand, and the stored one, with the hash of this run",
            folder=_RUN_FOLDER,
            script="\n".join(lines),
        )
    if recording is None or recording.file is None:
        return
    if _FUNCTIONS in variant.views:
        lines = [*_out(run, variant), _wrapped(_flamegraph(variant, recording.file))]
        yield ReproductionCommand(
            kind="functions",
            title="Draw the functions view from the stored recording",
            folder=_RUN_FOLDER,
            script="\n".join(lines),
        )
    own = [name for name in variant.views if name != _FUNCTIONS]
    if own:
        words = ["ipuenv", "render", quoted(variant.id), *(f"--view {quoted(name)}" for name in own), '-o "$out"']
        yield ReproductionCommand(
            kind="render",
            title=f"Draw the views {', '.join(own)}, whose inlined frames need ipuenv",
            folder=_RUN_FOLDER,
            script="\n".join([*_out(run, variant), _wrapped(words)]),
        )


def _out(run: RunManifest, variant: VariantManifest) -> list[str]:
    # What is made by hand goes to a folder of the person's own: a published run never changes.
    return [
        f'out="${{TMPDIR:-/tmp}}/ipuenv-$(id -un)"/{quoted(run.run_id)}/{quoted(variant.id)}',
        'mkdir -p "$out" &&',
    ]


def _record(run: RunManifest, variant: VariantManifest, recording: Recording) -> str:
    build, program = variant.build, variant.program
    lines = _out(run, variant)
    executable = variant.executable.path if variant.executable is not None else program.argv[0]
    if build.command is not None:
        words = [quoted(word) for word in build.command.argv if not word.startswith("--message-format")]
        folder = build.command.cwd if build.command.cwd != program.cwd else None
        *block, end = _subshell(build.command, run.sdk, [_paired(words)], folder)
        lines += [*block, f"{end} &&"]
        executable = build.artifact or executable
    lock = variant.device.lock if variant.device.holder == "ipuenv" else None
    perf = [
        *(["flock", quoted(lock)] if lock else []),
        *("perf", "record", "-N", f"-F {recording.frequency_hz}", f"--call-graph {quoted(recording.call_graph)}"),
        *([f"-e {quoted(recording.event_asked)}"] if recording.event_asked else []),
        *([f"-m {recording.mmap_pages}"] if recording.mmap_pages else []),
        '-o "$out"/perf.data --',
    ]
    called = [quoted(executable), *_paired([_placed(word, variant.run_dir) for word in program.argv[1:]])]
    groups = [perf, called, ['> "$out"/run.log 2>&1']]
    return "\n".join([*lines, *_subshell(program, run.sdk, groups, None, variant.run_dir)])


def _subshell(
    command: Command, sdk: Sdk | None, groups: Sequence[Sequence[str]], folder: str | None, run_dir: str = ""
) -> list[str]:
    """The command in its environment, in parentheses so that nothing of it stays in the person's shell."""
    inner = [f"cd {quoted(folder)} || exit"] if folder is not None else []
    if command.sdk_environment and sdk is not None:
        inner += [f"unset {_SDK_MARK}", *(f"source {quoted(script)}" for script in sdk.scripts)]
    inner += _wrapped(*_environment(command.environment, run_dir), *groups).split("\n")
    return ["(", *(f"  {line}" for line in inner), ")"]


def _environment(changes: EnvironmentChanges, run_dir: str) -> list[list[str]]:
    given = dict(sorted({**changes.added, **changes.changed}.items()))
    removed = set(changes.removed)
    if "RUSTFLAGS" in given:
        removed.add("CARGO_ENCODED_RUSTFLAGS")  # it beats RUSTFLAGS, and the person's shell may have it
    words = [f"-u {quoted(name)}" for name in sorted(removed)]
    words += [f"{quoted(name)}={_placed(value, run_dir)}" for name, value in given.items()]
    return [["env", *words]] if words else []


def _placed(text: str, run_dir: str) -> str:
    """``text`` as one bash word, with the variant's folder turned into the one made by hand."""
    if not run_dir or run_dir not in text:
        return quoted(text)
    pieces = re.split(rf"(?<![\w.-]){re.escape(run_dir)}(?![\w.-])", text)
    return '"$out"'.join(quoted(piece) if piece else "" for piece in pieces)


def _package_check(variant_id: str, file: str, sha256: str) -> list[list[str]]:
    by_hand, stored = f'"$out"/{quoted(file)}', quoted(f"{variant_id}/{file}")
    return [["printf", "'%s  %s\\n'"], [sha256, by_hand], [sha256, stored], ["| sha256sum -c -"]]


def _flamegraph(variant: VariantManifest, recording_file: str) -> list[str]:
    svg = variant.svg
    return [
        *("flamegraph", f"--perfdata {quoted(f'{variant.id}/{recording_file}')}", "--no-inline"),
        *(["--deterministic"] if svg.deterministic else []),
        *(f"--image-width {svg.image_width}", f"--min-width {svg.min_width:g}"),
        *([f"--notes {quoted(variant.notes)}"] if variant.notes else []),
        f'-o "$out"/{quoted(variant.views[_FUNCTIONS].file)}',
    ]


def _paired(words: Sequence[str]) -> list[str]:
    """Words of which an option and its value are one, so that no line ends between them."""
    paired: list[str] = []
    for word in words:
        last = paired[-1] if paired else ""
        if last.startswith("-") and " " not in last and "=" not in last and not word.startswith("-"):
            paired[-1] = f"{last} {word}"
        else:
            paired.append(word)
    return paired


def _wrapped(*groups: Sequence[str]) -> str:
    """Groups of words, each on lines of its own, all but the first line indented."""
    lines: list[str] = []
    for group in groups:
        lines.append("")
        for word in group:
            if lines[-1] and len(lines[-1]) + len(word) >= _LINE:
                lines.append("")
            lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n  ".join(lines)
