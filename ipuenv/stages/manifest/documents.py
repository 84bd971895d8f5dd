"""The two documents of a run: the run's manifest and that of each variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field

from ipuenv.stages.manifest.parts import (
    Build,
    Command,
    Device,
    Executable,
    Execution,
    Facts,
    Git,
    Host,
    HotFunction,
    Json,
    Output,
    Parallelism,
    Phase,
    Profile,
    Recording,
    ReproductionCommand,
    RunId,
    Sdk,
    Seconds,
    SortedFiles,
    Status,
    Svg,
    Text,
    Tools,
    View,
    Workspace,
)

# Format history
#   1  first format
SCHEMA: Final = 1


class VariantManifest(Facts):
    """One variant of a run. ``notes`` is the profile's text filled in, ``run_dir`` the folder the program was given."""

    schema_version: Literal[1] = Field(default=SCHEMA, alias="schema")
    run_id: RunId
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$", max_length=128)]
    axes: Mapping[Text, Json] = Field(default_factory=dict)
    notes: Text = ""
    status: Status
    status_reason: Text = ""
    run_dir: Text
    build: Build
    program: Command
    executable: Executable | None = None
    output: Output | None = None
    recording: Recording | None = None
    executions: tuple[Execution, ...] = ()
    phases: tuple[Phase, ...] = ()
    device: Device = Device()
    parallelism: Parallelism | None = None
    hot_functions: tuple[HotFunction, ...] = ()
    views: Mapping[Text, View] = Field(default_factory=dict)
    svg: Svg = Svg()
    commands: tuple[ReproductionCommand, ...] = ()
    stage_durations_s: Mapping[Text, Seconds] = Field(default_factory=dict)
    remarks: tuple[Text, ...] = ()
    files: SortedFiles = ()

    @property
    def recorded(self) -> Execution | None:
        """The execution that was recorded."""
        return next((execution for execution in self.executions if execution.kind == "recorded"), None)


class RunManifest(Facts):
    """A run. ``planned`` names every variant that was asked for; ``files`` are those outside the variants' folders."""

    schema_version: Literal[1] = Field(default=SCHEMA, alias="schema")
    run_id: RunId
    collection: Text
    label: Text | None = None
    sweep_id: Text | None = None
    started_at: AwareDatetime
    profile: Profile
    workspace: Workspace
    git: Git | None = None
    sdk: Sdk | None = None
    tools: Tools
    host: Host
    baseline_run: Text | None = None
    planned: tuple[Text, ...] = ()
    variants: tuple[VariantManifest, ...] = ()
    stage_durations_s: Mapping[Text, Seconds] = Field(default_factory=dict)
    remarks: tuple[Text, ...] = ()
    files: SortedFiles = ()

    @property
    def passed(self) -> bool:
        """Whether a variant passed."""
        return any(variant.status == "pass" for variant in self.variants)

    @property
    def complete(self) -> bool:
        """Whether every planned variant came to an end of its own."""
        ended = {variant.id for variant in self.variants if variant.status != "interrupted"}
        return ended >= {*self.planned, *(variant.id for variant in self.variants)}
