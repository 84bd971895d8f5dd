"""The collection's links: ``latest``, which the store moves, and the pins that people set, such as ``baseline``."""

from __future__ import annotations

import os

from ipuenv.ground.errors import UsageError
from ipuenv.stages.store import durable
from ipuenv.stages.store.layout import LATEST, MANIFEST, Collection, StoredRun, is_run_id, list_runs, stored_run

_LOOKED_AT = 200
"""How many of the newest runs ``latest`` may skip because they failed; many more are a matter of weeks."""


def read_pin(collection: Collection, name: str) -> StoredRun | None:
    """The run that a link of the collection points to; None for no link, or one to anything but a run beside it."""
    try:
        target = str((collection.folder / name).readlink())
    except OSError:
        return None
    run = stored_run(collection, target) if is_run_id(target) else None
    return run if run is not None and is_there(run) else None


def list_pins(collection: Collection) -> dict[str, StoredRun]:
    """All links to runs, by name."""
    try:
        names = sorted(entry.name for entry in os.scandir(collection.folder) if entry.is_symlink())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    found = {name: read_pin(collection, name) for name in names if not name.startswith(".")}
    return {name: run for name, run in found.items() if run is not None}


def is_there(run: StoredRun) -> bool:
    """Whether the run is published: a folder of its own, no link."""
    return run.path.is_dir() and not run.path.is_symlink()


def latest_run(collection: Collection, back: int = 0) -> StoredRun | None:
    """The newest complete run with a passing variant, or the one ``back`` such runs before it; None when there is none.

    Reads the manifests of the runs it has to look at, and none for ``latest`` itself.
    """
    latest = read_pin(collection, LATEST)
    if latest is not None and back == 0:
        return latest
    remaining = back
    for run in list_runs(collection):
        if is_eligible(run):
            if remaining == 0:
                return run
            remaining -= 1
    return None


def move_latest(collection: Collection) -> None:
    """Point ``latest`` at the newest complete run with a passing variant. The collection must be locked."""
    current = read_pin(collection, LATEST)
    for run in list_runs(collection)[:_LOOKED_AT]:
        if current is not None and run.id == current.id:
            return
        if is_eligible(run):
            durable.replace_link(collection.folder / LATEST, run.id)
            return


def is_eligible(run: StoredRun) -> bool:
    """Whether ``latest`` may point there: complete, a passing variant, a manifest that can be read."""
    from ipuenv.stages import manifest

    try:
        facts = manifest.load((run.path / MANIFEST).read_bytes())
    except (UsageError, OSError):
        return False
    return facts.complete and facts.passed
