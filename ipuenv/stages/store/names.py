"""How a run is named: ``[COLLECTION:]RUN[/VARIANT[/FILE]]``, or a path that exists."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ipuenv.ground.errors import UsageError
from ipuenv.stages.store import pins
from ipuenv.stages.store.layout import (
    BASELINE,
    LATEST,
    MANIFEST,
    Collection,
    StoredRun,
    is_run_id,
    list_collections,
    list_runs,
    open_collection,
)

_LATEST_BACK = re.compile(r"latest~(\d{1,6})")
_PART = re.compile(r"[^/\x00-\x1f\x7f]+")
_SHOWN = 8
_LIST_HINT = "name one by its id, the beginning of it, its label, 'latest' or 'latest~1'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a name stands for.

    ``run`` is the run's folder, None for a path outside the tree; ``file`` lies below the variant's folder, or below
    the run's when there is no variant.
    """

    path: Path
    run: Path | None = None
    variant: str | None = None
    file: str | None = None


def resolve(name: str, *, root: Path, collection: str | None = None, folder: Path | None = None) -> Named:
    """Find what ``name`` stands for.

    ``collection`` is used where the name has none; relative paths start at ``folder``, by default the current one.

    Raises:
        UsageError: nothing has that name, or several things have.
    """
    path = (folder or Path.cwd()) / name
    if name and os.path.exists(path):  # noqa: PTH110  (Path.exists raises for a name that is too long)
        return _described(path)
    head, colon, rest = name.partition(":")
    run_name, *below = (rest if colon else head).split("/")
    if not run_name or not all(_PART.fullmatch(part) and part not in (".", "..") for part in below):
        raise UsageError(
            f"'{name}' names no run and no existing path", expected="[COLLECTION:]RUN[/VARIANT[/FILE]]", hint=_LIST_HINT
        )
    run = find_run(_collection(root, head if colon else collection), run_name)
    return _inside(run, below)


def find_run(collection: Collection, name: str) -> StoredRun:
    """The run of that id, unique prefix, label, pin, or ``latest``, ``latest~2``.

    Raises:
        UsageError: none or several.
    """
    runs = list_runs(collection)
    exact = next((run for run in runs if run.id == name), None) or _by_link(collection, name)
    if exact is not None:
        return exact
    matches = [run for run in runs if name and (run.id.startswith(name) or _has_label(run, name))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(
            f"'{name}' may be any of {len(matches)} runs of '{collection.name}'",
            expected=f"one of {_listed([run.id for run in matches])}",
            hint="give more of the id",
        )
    raise _no_run(collection, name, runs)


def _by_link(collection: Collection, name: str) -> StoredRun | None:
    back = _LATEST_BACK.fullmatch(name)
    if name != LATEST and back is None:
        return pins.list_pins(collection).get(name)
    return pins.latest_run(collection, int(back[1]) if back else 0)


def _has_label(run: StoredRun, label: str) -> bool:
    if not run.may_have_label(label):
        return False
    if not re.search(r"(?:^|-)\d+$", run.tail):
        return True
    # Only the manifest knows whether the number belongs to the label or tells two runs of one second apart.
    try:
        return bool(json.loads((run.path / MANIFEST).read_bytes())["label"] == label)
    except (OSError, ValueError, LookupError, TypeError):
        return run.tail == label


def _no_run(collection: Collection, name: str, runs: Sequence[StoredRun]) -> UsageError:
    if not runs:
        return UsageError(
            f"'{collection.name}' holds no run yet, so none is '{name}'",
            expected=f"a run below '{collection.folder}'",
            hint="make one: ipuenv flamegraph",
        )
    if name == BASELINE:
        return UsageError(
            f"no baseline is set in '{collection.name}'",
            expected="a pin on the run that others are compared to",
            hint=f"set it: ln -sfn {runs[0].id} '{collection.folder}/{BASELINE}'",
        )
    if name == LATEST or _LATEST_BACK.fullmatch(name):
        return UsageError(
            f"'{collection.name}' has no '{name}': not that many complete runs with a passing variant",
            expected=f"one of {_listed([run.id for run in runs])}",
            hint=_LIST_HINT,
        )
    known = [*pins.list_pins(collection), *{run.tail for run in runs if run.tail}, *(run.id for run in runs)]
    return UsageError(
        f"no run of '{collection.name}' is '{name}'",
        expected=f"an id or its beginning, a label, a pin or '{LATEST}'{_nearest(name, known)}",
        hint=_LIST_HINT,
    )


def _collection(root: Path, name: str | None) -> Collection:
    if name is not None:
        collection = open_collection(root, name)
        if collection.folder.is_dir():
            return collection
    known = [found.name for found in list_collections(root)]
    if name is None and len(known) == 1:
        return open_collection(root, known[0])
    if not known:
        raise UsageError(
            f"there is no run below '{root}' yet", expected="a collection of runs", hint="make one: ipuenv flamegraph"
        )
    if name is None:
        raise UsageError(
            f"there are {len(known)} collections below '{root}'",
            expected=f"one of {_listed(known)}",
            hint=f"say which: {known[0]}:{LATEST}",
        )
    raise UsageError(
        f"there is no collection '{name}' below '{root}'",
        expected=f"one of {_listed(known)}{_nearest(name, known)}",
        hint=_LIST_HINT,
    )


def _inside(run: StoredRun, below: Sequence[str]) -> Named:
    if not below:
        return Named(path=run.path, run=run.path)
    at = run.path
    for part in below:
        if not os.path.lexists(at / part) or not _is_within(at / part, run.path):
            known = sorted(entry.name for entry in os.scandir(at)) if at.is_dir() else []
            raise UsageError(
                f"'{at.relative_to(run.path.parent)}' holds no '{part}'",
                expected=f"one of {_listed(known)}{_nearest(part, known)}" if known else "a folder",
            )
        at /= part
    return _placed(run.path, below, at)


def _placed(run: Path, below: Sequence[str], path: Path) -> Named:
    if len(below) == 1 and not path.is_dir():
        return Named(path=path, run=run, file=below[0])
    return Named(path=path, run=run, variant=below[0], file="/".join(below[1:]) or None)


def _described(path: Path) -> Named:
    """An existing path, and the run it belongs to."""
    real = Path(os.path.realpath(path))
    for run in (real, *real.parents):
        if is_run_id(run.name) and (run / MANIFEST).is_file():
            below = real.relative_to(run).parts
            return _placed(run, below, real) if below else Named(path=run, run=run)
    return Named(path=path)


def _is_within(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f". Did you mean '{close[0]}'?" if close else ""
