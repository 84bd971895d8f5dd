"""The Invoke tasks: names, options and help texts. Each calls one verb and lets one place speak of errors.

Nothing heavy is imported here: ``--list`` and ``--help`` import this module and must answer at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from invoke.collection import Collection
from invoke.tasks import task

from ipuenv.front.adapter import command

if TYPE_CHECKING:
    from ipuenv.ground.console import Console

_SETTINGS = {
    "profile": "Profile: a name in profiles/, or the path of a .toml file.",
    "workspace": "Cargo workspace to build and run in. Default: the bundled one.",
    "sdk": "Poplar SDK: its folder or its enable script; none for a program that needs none.",
    "artifacts": "Folder of all results. Default: artifacts/ of the project.",
    "device-lock": "Lock file of the device; beats the profile's.",
}


@task(
    help={
        "variant": "Variant id, such as 16threads-batch4. Default: every axis at its default.",
        "label": "A word of yours in the run's name.",
        "lock-timeout": "Seconds to wait for the device where ipuenv takes its lock. Default: for ever.",
        "dry-run": "Only print the environment and the commands.",
        "json": "Print the answer as JSON, alone on stdout.",
        **_SETTINGS,
    }
)
@command
def flamegraph(
    console: Console,
    profile: str | None = None,
    variant: str | None = None,
    label: str | None = None,
    workspace: str | None = None,
    sdk: str | None = None,
    artifacts: str | None = None,
    device_lock: str | None = None,
    lock_timeout: str | None = None,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Record one variant, draw its flame graphs, store the run."""
    from ipuenv.front import recording

    options = {
        "profile": profile,
        "workspace": workspace,
        "sdk": sdk,
        "artifacts": artifacts,
        "device-lock": device_lock,
    }
    if dry_run:
        return recording.print_plan(options, variant=variant, label=label, console=console, as_json=json)
    return recording.flamegraph(
        options, variant=variant, label=label, console=console, as_json=json, lock_timeout=lock_timeout
    )


@task(
    positional=["source"],
    iterable=["view", "thread"],
    help={
        "source": "A run ([COLLECTION:]RUN[/VARIANT]), a perf.data, a pprof (.pb.gz), or a file of folded stacks.",
        "view": "View to draw, repeatable. Default: all of them.",
        "format": "svg or folded, one file for each view; pprof or speedscope, one file with all frames.",
        "thread": "Only stacks of this thread, by name or id; repeatable.",
        "time": "Only samples from A..B, in seconds from the first; needs a perf.data. Either end may be left out.",
        "output": "Folder for the files. Default: the current one.",
        "json": "Print the written files as JSON, alone on stdout.",
        "profile": _SETTINGS["profile"],
        "artifacts": _SETTINGS["artifacts"],
    },
)
@command
def render(
    console: Console,
    source: str,
    view: list[str],
    thread: list[str],
    format: str = "svg",  # noqa: A002 - the option's name
    output: str = ".",
    time: str | None = None,
    profile: str | None = None,
    artifacts: str | None = None,
    json: bool = False,
) -> int:
    """Draw again from a run, a perf.data, a pprof or folded stacks."""
    from ipuenv.front import rendering

    options = {"profile": profile, "artifacts": artifacts}
    return rendering.render(
        options,
        source,
        views=view,
        form=format,
        folder=output,
        threads=thread,
        time=time,
        console=console,
        as_json=json,
    )


@task(help={"json": "Print the settings as JSON, alone on stdout.", **_SETTINGS})
@command
def config(
    console: Console,
    profile: str | None = None,
    workspace: str | None = None,
    sdk: str | None = None,
    artifacts: str | None = None,
    device_lock: str | None = None,
    json: bool = False,
) -> int:
    """Show the settings in force and who set them."""
    from ipuenv.front import configuration

    options = {
        "profile": profile,
        "workspace": workspace,
        "sdk": sdk,
        "artifacts": artifacts,
        "device-lock": device_lock,
    }
    return configuration.show(options, console=console, as_json=json)


namespace = Collection(flamegraph, render, config)
