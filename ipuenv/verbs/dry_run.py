"""What a run would do: the SDK's scripts, the variables, the commands - as a shell script, and as data."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ipuenv.stages import build, perf, provenance, store
from ipuenv.verbs import exports, pictures, planning
from ipuenv.verbs.variant_stages import PERF_DATA, RUN_LOG, choose_sdk

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ipuenv.verbs.planning import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The commands of a run that has not happened. Paths are absolute; ``removed`` names variables that are unset."""

    run_folder: Path
    sdk_scripts: tuple[Path, ...]
    workspace: Path
    build_argv: tuple[str, ...]
    build_variables: Mapping[str, str]
    build_removed: tuple[str, ...]
    build_has_sdk: bool
    record_argv: tuple[str, ...]
    program_variables: Mapping[str, str]
    program_removed: tuple[str, ...]
    log: Path
    files: tuple[Path, ...]

    def data(self) -> dict[str, JsonValue]:
        """The same for a script."""
        return {
            "run": os.fspath(self.run_folder),
            "workspace": os.fspath(self.workspace),
            "sdk-scripts": [os.fspath(script) for script in self.sdk_scripts],
            "build": {
                "argv": list(self.build_argv),
                "variables": dict(self.build_variables),
                "removed": list(self.build_removed),
                "sdk-environment": self.build_has_sdk,
            },
            "record": {
                "argv": list(self.record_argv),
                "variables": dict(self.program_variables),
                "removed": list(self.program_removed),
                "log": os.fspath(self.log),
            },
            "files": [os.fspath(path) for path in self.files],
        }

    def script(self) -> Iterator[str]:
        """Lines of bash that do by hand what ipuenv would do, up to the recording."""
        yield f"cd {shlex.quote(os.fspath(self.workspace))}"
        yield f"mkdir -p {shlex.quote(os.fspath(self.log.parent))}"
        sourced = ["unset POPLAR_SDK_ENABLED"] if self.sdk_scripts else []
        sourced += [f"source {shlex.quote(os.fspath(script))}" for script in self.sdk_scripts]
        yield from sourced if self.build_has_sdk else ()
        yield from _command(self.build_argv, self.build_variables, self.build_removed)
        yield from () if self.build_has_sdk else sourced
        argv = (*self.record_argv, f"> {shlex.quote(os.fspath(self.log))} 2>&1")
        yield from _command(argv, self.program_variables, self.program_removed, shell_tail=1)


def plan_commands(plan: Plan) -> DryRun:
    """What :func:`ipuenv.verbs.pipeline.flamegraph` would run.

    Raises:
        MissingError: there is no SDK.
        UsageError: there are several, or the label is none.
    """
    roots = plan.roots
    scripts: tuple[Path, ...] = ()
    if roots.needs_sdk:
        scripts = choose_sdk(roots).scripts
    revision = provenance.revision(roots.workspace, os.environ)
    run_id = store.new_run_id(
        datetime.now(UTC),
        revision=revision.commit if revision is not None else None,
        dirty=revision is not None and revision.is_dirty,
        label=plan.label,
    )
    collection = store.open_collection(roots.artifacts, plan.profile.artifacts).folder
    run_folder = collection / run_id
    # where the program really writes: what is left there by hand is swept by the next run, never taken for a run
    folder = collection / f".{run_id}.partial" / plan.variant.id
    program = planning.program(plan, folder)
    request = plan.build_request
    built = build.plan(request, os.environ)
    executable = request.target_dir / plan.row.profile_dir / request.bin
    drawn = [
        folder / pictures.file_name(plan.name, view, pictures.SVG) for view in pictures.views_of(plan.profile).values()
    ]
    record = perf.equivalent_argv((os.fspath(executable), *program.args), plan.record_options)
    return DryRun(
        run_folder=run_folder,
        sdk_scripts=scripts,
        workspace=roots.workspace,
        build_argv=tuple(word for word in built.argv if word != build.MESSAGE_FORMAT),
        build_variables=built.variables,
        build_removed=built.removed,
        build_has_sdk=plan.row.sdk_environment,
        record_argv=tuple(os.fspath(folder / PERF_DATA) if word == PERF_DATA else word for word in record),
        program_variables=program.variables,
        program_removed=program.removed,
        log=folder / RUN_LOG,
        files=(*drawn, folder / exports.file_name(plan.name, exports.PPROF), folder / PERF_DATA, folder / RUN_LOG),
    )


def _command(
    argv: tuple[str, ...], variables: Mapping[str, str], removed: tuple[str, ...], *, shell_tail: int = 0
) -> Iterator[str]:
    """A command with its variables, one to a line; the last ``shell_tail`` words are shell text already."""
    yield "env \\"
    for name in removed:
        yield f"  -u {name} \\"
    for name, value in variables.items():
        yield f"  {name}={shlex.quote(value)} \\"
    words = [shlex.quote(word) for word in argv[: len(argv) - shell_tail]] + list(argv[len(argv) - shell_tail :])
    yield "  " + " ".join(words)
