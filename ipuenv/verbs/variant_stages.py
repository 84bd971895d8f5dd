"""The stages of one variant, each a step that takes what the one before it made."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ipuenv.engine import recording as engine_recording
from ipuenv.engine.flamegraph import SvgOptions
from ipuenv.ground import command
from ipuenv.ground.console import duration, size
from ipuenv.ground.errors import FailedError, InterruptedRunError
from ipuenv.ground.profile import Holder
from ipuenv.stages import build as build_stage
from ipuenv.stages import device as device_stage
from ipuenv.stages import environment, perf, program_log, provenance, sdk, store
from ipuenv.verbs import exports, pictures, planning
from ipuenv.verbs.where import symbol_cache

if TYPE_CHECKING:
    from datetime import datetime

    from ipuenv.engine.recording import Recording
    from ipuenv.ground.roots import Roots
    from ipuenv.stages.build import Built
    from ipuenv.stages.environment import SdkEnvironment
    from ipuenv.stages.execution import Execution
    from ipuenv.stages.program_log import ProgramLog
    from ipuenv.stages.sdk import SdkChoice
    from ipuenv.stages.store import Blob, Staging
    from ipuenv.verbs.pictures import Picture
    from ipuenv.verbs.planning import Plan, Program
    from ipuenv.verbs.steps import Steps

PERF_DATA = "perf.data"
RUN_LOG = "run.log"
KALLSYMS = "kallsyms.zst"

RunStatus = Literal["pass", "failed", "timeout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A program that ran under perf in ``folder``, and what it left there."""

    program: Program
    argv: tuple[str, ...]
    folder: Path
    recording: perf.Recording
    log: ProgramLog
    has_kallsyms: bool
    held_wait_s: float | None = None

    @property
    def lock_wait_s(self) -> float | None:
        """Seconds that were waited for the device's lock, by us or by the program; None where nobody asked for it."""
        return self.held_wait_s if self.held_wait_s is not None else self.log.lock_wait_s

    @property
    def execution(self) -> Execution:
        return self.recording.execution

    @property
    def status(self) -> RunStatus:
        if self.execution.timed_out:
            return "timeout"
        return "pass" if self.execution.exit_code == 0 and not self.lacks_output else "failed"

    @property
    def lacks_output(self) -> bool:
        """Whether the program was to write an output and did not."""
        return self.program.output is not None and not self.program.output.is_file()

    @property
    def status_reason(self) -> str:
        """Why the status is not ``pass``; empty where it is."""
        if self.execution.exit_code != 0 or self.execution.timed_out:
            return f"the program ended: {self.ending}"
        return f"the program did not write '{self.program.output}'" if self.lacks_output else ""

    @property
    def ending(self) -> str:
        """How the program ended, in words."""
        limit = ", by its time limit" if self.execution.timed_out else ""
        return command.ending(self.execution.exit_code) + limit


def choose_sdk(roots: Roots) -> SdkChoice:
    """The SDK that the settings name, else the one that is found around the workspace.

    Raises:
        MissingError: there is no SDK.
        UsageError: there are several.
    """
    if roots.sdk is not None:
        return sdk.locate(roots.sdk)
    return sdk.search(base=os.environ, workspace=roots.workspace)


def capture_sdk(plan: Plan, steps: Steps) -> SdkEnvironment | None:
    """Find the SDK and take the environment that its scripts make; None where the settings say that none is needed.

    Raises:
        MissingError: there is no SDK.
        UsageError: there are several.
        FailedError: its scripts fail.
    """
    roots = plan.roots
    if not roots.needs_sdk:
        return None
    with steps.step("environment", "SDK environment") as step:
        captured = environment.capture(choose_sdk(roots), base=os.environ)
        changes = len(captured.added) + len(captured.changed)
        step.note = f"{changes} variables from {captured.sdk.name}{' (stand-in)' if captured.is_stand_in else ''}"
    for note in captured.notes:
        steps.console.note(f"  {note}")
    return captured


def check_perf(plan: Plan) -> None:
    """Learn whether recording works here before minutes go into a build.

    Raises:
        MissingError: perf is missing or not permitted.
    """
    perf.check_permitted(provenance.tool_environment(os.environ), plan.record_options)


def build_environment(plan: Plan, captured: SdkEnvironment | None) -> Mapping[str, str]:
    """What cargo is given: the SDK's environment where the build's row says so."""
    return captured.apply(os.environ) if captured is not None and plan.row.sdk_environment else dict(os.environ)


def build_program(plan: Plan, captured: SdkEnvironment | None, steps: Steps) -> Built:
    """Have cargo build the program.

    Raises:
        MissingError, UsageError, FailedError: as :func:`ipuenv.stages.build.build`.
    """
    request = plan.build_request
    text = f"cargo build '{request.bin}' as '{plan.variant.build}'"
    with steps.step("build", text, live=False) as step:
        built = build_stage.build(request, env=build_environment(plan, captured), console=steps.console)
        step.note = "nothing to do" if built.fresh else ""
    if built.rustflags_replaced:
        steps.console.warn(f"the flags of build '{plan.variant.build}' replace {built.rustflags_replaced}")
    return built


def store_executable(plan: Plan, built: Built, steps: Steps) -> Blob:
    """Put the executable where no rebuild reaches it; it is run from there.

    Raises:
        FailedError: the disk is full.
        MissingError: the artifacts may not be written.
    """
    with steps.step("store", "executable stored by hash") as step:
        blob = store.store_blob(plan.roots.artifacts, built.executable, built.executable.name, executable=True)
        step.note = f"sha256 {blob.sha256[:12]}"
    return blob


def record_program(
    plan: Plan, captured: SdkEnvironment | None, executable: Blob, staging: Staging, steps: Steps
) -> Ran:
    """Run the program under perf.

    Raises:
        MissingError: perf is missing or not permitted here.
        FailedError: perf failed, or the disk is full.
        BusyError: the device stayed busy.
        InterruptedRunError: someone pressed Ctrl-C.
    """
    folder = staging.variant_folder(plan.variant.id)
    planned = planning.program(plan, folder)
    if planning.passes_device_lock(plan.profile) and plan.device_lock is not None:
        plan.device_lock.parent.mkdir(parents=True, exist_ok=True)
    argv = (os.fspath(executable.path), *planned.args)
    options = plan.record_options
    with (
        _device(plan, steps) as held_wait_s,
        steps.step("record", f"recording {plan.variant.id} at {options.frequency} Hz") as step,
    ):
        recording = perf.record(
            argv,
            env=planned.environment(os.environ, captured),
            cwd=plan.roots.workspace,
            log=folder / RUN_LOG,
            perf_data=folder / PERF_DATA,
            perf_env=provenance.tool_environment(os.environ),
            options=options,
            timeout_s=plan.profile.run.timeout_s,
        )
        ran = Ran(
            program=planned,
            argv=argv,
            folder=folder,
            recording=recording,
            log=program_log.read_log(folder / RUN_LOG),
            has_kallsyms=perf.save_kallsyms(folder / KALLSYMS),
            held_wait_s=held_wait_s,
        )
        step.note = f"program {ran.ending} after {duration(recording.execution.wall_s)}"
    for line in recording.perf_log.splitlines():
        if line.lower().startswith("warning:"):
            steps.console.warn(f"perf: {line.partition(':')[2].strip()}")
    if recording.execution.interrupted:
        raise InterruptedRunError(
            "interrupted while the program was recorded: nothing was stored", hint="start it again"
        )
    return ran


@contextlib.contextmanager
def _device(plan: Plan, steps: Steps) -> Iterator[float | None]:
    """The device for a block, where the profile has ipuenv take it; the seconds that it was waited for, else None."""
    device, lock = plan.profile.device, plan.device_lock
    if device is None or lock is None or device.holder is not Holder.IPUENV:
        yield None
        return
    with contextlib.ExitStack() as stack:
        with steps.step("lock", "the device's lock"):
            waited_s = stack.enter_context(device_stage.held(lock, timeout_s=plan.lock_timeout_s))
        yield waited_s


def keep_files(plan: Plan, executable: Blob, ran: Ran) -> Blob | None:
    """Give the executable a name in the run, and store the output by its hash; the output, if there is one.

    Raises:
        FailedError: the disk is full.
    """
    root = plan.roots.artifacts
    store.link_blob(root, executable, ran.folder / executable.path.name)
    if ran.has_kallsyms:
        _share(root, ran.folder / KALLSYMS)
    output = ran.program.output
    return _share(root, output) if output is not None and output.is_file() else None


def _share(root: Path, path: Path) -> Blob:
    """Store a file as a blob and leave a link to it in its place."""
    blob = store.store_blob(root, path, path.name)
    path.unlink()
    store.link_blob(root, blob, path)
    return blob


def read_recording(plan: Plan, ran: Ran, executable: Blob, steps: Steps) -> Recording:
    """Read perf.data, name its addresses, fold its stacks.

    Raises:
        FailedError: there is no sample.
    """
    with steps.step("symbolize", "reading perf.data") as step:
        read = engine_recording.read(
            ran.recording.perf_data,
            stored=[executable.path],
            kallsyms=ran.folder / KALLSYMS,
            program_pid=ran.recording.pid,
            cache=symbol_cache(),
        )
        step.note = f"{read.quality.samples:,} samples"
    if not read.stacks.total:
        frequency = plan.profile.record.frequency
        raise FailedError(
            f"the program ended before perf took a sample ({ran.ending})",
            expected=f"at least {1000 / frequency:.0f} ms of CPU time: one sample at {frequency} Hz",
            hint="give the program more to do, or raise [record] frequency in the profile"
            if ran.execution.exit_code == 0
            else "mend what the program says of itself, then try again",
            tail=_last_lines(ran.folder / RUN_LOG),
        )
    return read


def draw_pictures(plan: Plan, read: Recording, folder: Path, steps: Steps) -> dict[str, Picture]:
    """Draw the profile's views."""
    svg = plan.profile.svg
    options = SvgOptions(
        title=plan.profile.title,
        notes=plan.notes,
        image_width=svg.image_width,
        min_width=svg.min_width,
        deterministic=svg.deterministic,
    )
    with steps.step("draw", "drawing") as step:
        chosen = list(pictures.views_of(plan.profile).values())
        drawn = pictures.draw(read.stacks, chosen, folder, stem=plan.name, svg=options)
        step.note = ", ".join(drawn)
    return drawn


def keep_stacks(plan: Plan, read: Recording, staging: Staging, started_at: datetime, steps: Steps) -> None:
    """Keep the symbolized stacks as pprof, from which every view can be drawn again without symbols."""
    path = staging.variant_folder(plan.variant.id) / exports.file_name(plan.name, exports.PPROF)
    about = exports.about_run(read.stacks, run_id=staging.run_id, variant_id=plan.variant.id, started_at=started_at)
    title, notes = plan.profile.title, plan.notes
    with steps.step("stacks", "keeping the stacks as pprof") as step:
        exports.export(read.stacks, path, form=exports.PPROF, title=title, notes=notes, about=about)
        step.note = size(path.stat().st_size)


def _last_lines(log: Path) -> list[str]:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return [program_log.strip_colour(line) for line in text.splitlines()]
