"""The tree's names: collections, run ids, labels; and what is there, without reading a manifest."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ipuenv.ground.errors import UsageError

MANIFEST = "manifest.json"
README = "README.md"
LATEST = "latest"
BASELINE = "baseline"
COLLECTION_LOCK = ".lock"
LABEL_LENGTH = 64
"""The most characters a label may have; a run id then fits a file name with room to spare."""

_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_LABEL = re.compile(_NAME)
_PART = re.compile(r"[^/:\\.\x00-\x1f\x7f][^/:\\\x00-\x1f\x7f]*")
_RUN_ID = re.compile(
    rf"(?P<stamp>\d{{8}}T\d{{6}}Z)-(?P<revision>[0-9a-f]{{7}}|nogit)(?P<dirty>-dirty)?(?:-(?P<tail>{_NAME}))?"
)
_TIE = re.compile(r"(?:(?P<label>.*)-)?\d+")
_REVISION_LENGTH = 7
_RESERVED_LABELS = frozenset({LATEST, BASELINE, "dirty"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """The folder of all runs of a profile: ``name`` below the artifacts ``root``."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.root / self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A published run. ``tail`` is what its id ends in: a label, the number of a tie, both, or nothing."""

    collection: Collection
    id: str
    revision: str | None
    dirty: bool
    tail: str

    @property
    def path(self) -> Path:
        return self.collection.folder / self.id

    def may_have_label(self, label: str) -> bool:
        """Whether the id allows this label: the tail itself, or the tail without a tie's number."""
        tie = _TIE.fullmatch(self.tail)
        return bool(label) and label in (self.tail, tie["label"] if tie else None)


def open_collection(root: Path, name: str) -> Collection:
    """The collection of that name, made or not yet.

    Raises:
        UsageError: the name would leave the root, or could be taken for something else.
    """
    if not all(_PART.fullmatch(part) and not is_run_id(part) for part in name.split("/")):
        raise UsageError(
            f"'{name}' cannot be a collection",
            expected="folders below the artifacts folder that neither begin with '.' nor hold ':' or '\\'",
            hint='set artifacts = "compiler-perf/flamegraph" or the like in the profile',
        )
    return Collection(root=root, name=name)


def checked_label(text: str) -> str:
    """A label as it may stand in a run id.

    Raises:
        UsageError: other characters, too long, or a word that means something else there.
    """
    if not _LABEL.fullmatch(text) or len(text) > LABEL_LENGTH:
        raise UsageError(
            f"'{text}' cannot be a label",
            expected=f"1 to {LABEL_LENGTH} letters, digits, '.', '_' and '-', not beginning with '.' or '-'",
            hint=f"try: --label {_suggested_label(text)}",
        )
    if text in _RESERVED_LABELS or text.startswith("dirty-"):
        raise UsageError(
            f"'{text}' cannot be a label: it already means something in a run's name",
            expected=f"another word than {', '.join(sorted(_RESERVED_LABELS))}",
            hint=f"try: --label my-{text}",
        )
    return text


def _suggested_label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:LABEL_LENGTH] or "my-label"


def new_run_id(started_at: datetime, *, revision: str | None, dirty: bool = False, label: str | None = None) -> str:
    """The id a run that started then would like to have; ``revision`` None stands for no git.

    Raises:
        UsageError: the label is not one.
    """
    parts = [
        started_at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ"),
        revision[:_REVISION_LENGTH] if revision else "nogit",
        *(["dirty"] if dirty else []),
        *([checked_label(label)] if label is not None else []),
    ]
    return "-".join(parts)


def is_run_id(name: str) -> bool:
    """Whether a folder of this name is a run."""
    return _RUN_ID.fullmatch(name) is not None


def stored_run(collection: Collection, run_id: str) -> StoredRun:
    """The run of that id, which must be one; whether it exists is not looked at."""
    match = _RUN_ID.fullmatch(run_id)
    if match is None:
        raise ValueError(f"not a run id: {run_id!r}")
    return StoredRun(
        collection=collection,
        id=run_id,
        revision=None if match["revision"] == "nogit" else match["revision"],
        dirty=match["dirty"] is not None,
        tail=match["tail"] or "",
    )


def list_runs(collection: Collection) -> list[StoredRun]:
    """The published runs, newest first. One pass over the folder, however many there are."""
    try:
        with os.scandir(collection.folder) as entries:
            names = [entry.name for entry in entries if is_run_id(entry.name) and entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [stored_run(collection, name) for name in sorted(names, key=_by_time, reverse=True)]


def _by_time(name: str) -> list[str | int]:
    # Numbers count as numbers, so that the tenth run of a second comes after the second.
    return [int(part) if index % 2 else part for index, part in enumerate(re.split(r"(\d+)", name))]


def list_collections(root: Path) -> list[Collection]:
    """The collections below the root that hold a run, by name."""
    found: list[Collection] = []
    pending = [""]
    while pending:
        name = pending.pop()
        names: list[str] = []
        with contextlib.suppress(OSError), os.scandir(root / name) as entries:
            names = [entry.name for entry in entries if entry.is_dir() and _PART.fullmatch(entry.name)]
        if name and any(map(is_run_id, names)):
            found.append(Collection(root=root, name=name))
        elif name.count("/") < _COLLECTION_DEPTH:
            pending += [f"{name}/{below}" if name else below for below in names]
    return sorted(found, key=lambda collection: collection.name)


_COLLECTION_DEPTH = 5
