"""From staging to a published run: every file hashed and sealed, manifests last, one rename."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ipuenv.ground.errors import IpuenvError, UsageError
from ipuenv.stages.store import durable, pins
from ipuenv.stages.store.layout import MANIFEST, README, Collection, StoredRun, list_runs
from ipuenv.stages.store.staging import LOCK, RESUMABLE, Staging, locked

if TYPE_CHECKING:
    from ipuenv.stages.manifest import FileEntry, RunManifest, VariantManifest

RECENT_RUNS = 50
"""How many runs the collection's page shows at most."""


_OWN = (RESUMABLE, LOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A run in its place. ``left_out`` names links, sockets and the like; ``notes`` what went wrong afterwards."""

    path: Path
    manifest: RunManifest
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """A run for the collection's page; ``problem`` says why there is no manifest."""

    run: StoredRun
    manifest: RunManifest | None
    problem: str = ""


def save_variant(staging: Staging, variant: VariantManifest) -> None:
    """Keep a finished variant's manifest in staging, so that a resumed run need not run it again.

    Raises:
        FailedError: the disk is full or broken.
    """
    from ipuenv.stages import manifest

    folder = staging.variant_folder(variant.id)
    with durable.explained(f"saving '{variant.id}'", staging.collection.root):
        durable.write_file(folder / MANIFEST, manifest.dump(variant))
        durable.sync_folder(folder)


def saved_variants(staging: Staging) -> tuple[VariantManifest, ...]:
    """The variants that :func:`save_variant` kept, by id; what cannot be read has to be run again."""
    from ipuenv.stages import manifest

    found: list[VariantManifest] = []
    for path in sorted(staging.path.glob(f"*/{MANIFEST}")):
        try:
            variant = manifest.load_variant(path.read_bytes(), origin=str(path))
        except (UsageError, OSError):
            continue
        if variant.id == path.parent.name and variant.run_id == staging.run_id:
            found.append(variant)
    return tuple(found)


def publish(staging: Staging, run: RunManifest, *, page: Callable[[RunManifest], str]) -> Published:
    """Publish a run: file tables into its manifests, ``page`` into its README.md, and the folder to its place.

    Raises:
        FailedError: the disk is full or broken; nothing was published.
        MissingError: the artifacts root may not be written; nothing was published.
    """
    if run.run_id != staging.run_id or any(variant.run_id != staging.run_id for variant in run.variants):
        raise ValueError(f"the manifest of '{run.run_id}' cannot be that of '{staging.run_id}'")
    with durable.explained(f"publishing '{staging.run_id}'", staging.collection.root):
        left_out = _prepare(staging.path)
        complete = _write_manifests(staging.path, run, page)
        for folder in durable.walk_folders(staging.path):
            durable.sync_folder(folder)
        notes = _move(staging)
    target = staging.collection.folder / staging.run_id
    return Published(path=target, manifest=complete, left_out=left_out, notes=notes)


def _prepare(root: Path) -> tuple[str, ...]:
    """Remove what is no file, folder or readable name, so that a run can be copied and hashed anywhere; name it."""
    left_out: list[str] = []
    for folder in durable.walk_folders(root):
        durable.permit(folder, 0o700)
        with os.scandir(folder) as entries:
            for entry in list(entries):
                is_folder = entry.is_dir(follow_symlinks=False)
                if (is_folder or entry.is_file(follow_symlinks=False)) and entry.name.isprintable():
                    durable.permit(Path(entry), 0o700 if is_folder else 0o400)
                    continue
                left_out.append(os.fsencode(os.path.relpath(entry, root)).decode("utf-8", "backslashreplace"))
                durable.remove_tree(Path(entry)) if is_folder else Path(entry).unlink()
    return tuple(sorted(left_out))


def _write_manifests(root: Path, run: RunManifest, page: Callable[[RunManifest], str]) -> RunManifest:
    from ipuenv.stages import manifest

    variants: list[VariantManifest] = []
    for planned in run.variants:
        folder = root / planned.id
        folder.mkdir(exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        variant = planned.model_copy(update={"files": _sealed(folder, _files(folder))})
        durable.write_file(folder / MANIFEST, manifest.dump(variant))
        variants.append(variant)
    for name in (MANIFEST, README):
        (root / name).unlink(missing_ok=True)
    described = {root / variant.id for variant in variants}
    loose = [path for path in _files(root, without=described) if path not in {root / name for name in _OWN}]
    loose += [root / variant.id / MANIFEST for variant in variants]
    complete = run.model_copy(update={"variants": tuple(variants), "files": _sealed(root, loose)})
    durable.write_file(root / README, page(complete).encode("utf-8", "backslashreplace"))
    complete = complete.model_copy(update={"files": _sorted([*complete.files, *_sealed(root, [root / README])])})
    durable.write_file(root / MANIFEST, manifest.dump(complete))
    durable.seal_file(root / MANIFEST)
    return complete


def _files(root: Path, *, without: AbstractSet[Path] = frozenset()) -> list[Path]:
    found: list[Path] = []
    for folder in durable.walk_folders(root):
        if not any(folder == left or left in folder.parents for left in without):
            with os.scandir(folder) as entries:
                found += (Path(entry) for entry in entries if entry.is_file(follow_symlinks=False))
    return found


def _sealed(root: Path, paths: Sequence[Path]) -> tuple[FileEntry, ...]:
    from ipuenv.stages.manifest import FileEntry

    entries: list[FileEntry] = []
    for path in paths:
        durable.seal_file(path)
        sha256, size_bytes = durable.hash_file(path)
        entries.append(FileEntry(path=str(path.relative_to(root)), size_bytes=size_bytes, sha256=sha256))
    return _sorted(entries)


def _sorted(entries: Sequence[FileEntry]) -> tuple[FileEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.path))


def _move(staging: Staging) -> tuple[str, ...]:
    """Rename staging to its place and move ``latest``. From the rename on nothing can take the run back."""
    target = staging.collection.folder / staging.run_id
    notes: list[str] = []
    with locked(staging.collection):
        for name in _OWN:
            (staging.path / name).unlink(missing_ok=True)
        staging.path.rename(target)
        staging.published = target
        try:
            durable.sync_folder(staging.collection.folder)
            pins.move_latest(staging.collection)
        except OSError as error:
            notes.append(f"'{staging.run_id}' is published, but 'latest' was not moved: {error.strerror}")
    return tuple(notes)


def update_collection_page(collection: Collection, page: Callable[[Sequence[Recent], int], str]) -> Path:
    """Write the collection's README.md anew from its newest runs; ``page`` gets them and the number of all runs.

    Raises:
        FailedError: the disk is full or broken.
        MissingError: the artifacts root may not be written.
    """
    target = collection.folder / README
    with durable.explained("writing the collection's page", collection.root), locked(collection):
        runs = list_runs(collection)
        text = page([_recent(run) for run in runs[:RECENT_RUNS]], len(runs))
        durable.write_file(target, text.encode("utf-8", "backslashreplace"))
    return target


def _recent(run: StoredRun) -> Recent:
    try:
        return Recent(run=run, manifest=read_manifest(run.path))
    except IpuenvError as error:
        return Recent(run=run, manifest=None, problem=error.what)


def read_manifest(path: Path) -> RunManifest:
    """The manifest of the run in that folder.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    from ipuenv.stages import manifest

    file = path / MANIFEST
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"'{file}' cannot be read: {error.strerror}",
            expected="the manifest of a published run",
            hint="look what the folder holds, or name another run",
        ) from error
    return manifest.load(data, origin=str(file))


def verify_run(path: Path) -> tuple[str, ...]:
    """Compare a published run with its manifest; every difference in words, none for a whole run.

    Raises:
        UsageError: the manifest is missing or cannot be read.
    """
    expected = dict(_entries(read_manifest(path)))
    found = {
        str(Path(entry).relative_to(path))
        for folder in durable.walk_folders(path)
        for entry in os.scandir(folder)
        if not entry.is_dir(follow_symlinks=False)
    } - {MANIFEST}
    problems = [f"'{name}' is missing" for name in sorted(expected.keys() - found)]
    problems += [f"'{name}' is not in the manifest" for name in sorted(found - expected.keys())]
    problems += [text for name in sorted(found & expected.keys()) for text in _changed(path / name, expected[name])]
    return tuple(problems)


def _changed(file: Path, entry: FileEntry) -> Iterator[str]:
    if not stat.S_ISREG(file.lstat().st_mode):
        yield f"'{entry.path}' is no longer a plain file"
        return
    try:
        sha256, size_bytes = durable.hash_file(file)
    except OSError as error:
        yield f"'{entry.path}' cannot be read: {error.strerror}"
        return
    if size_bytes != entry.size_bytes:
        yield f"'{entry.path}' has {size_bytes} bytes instead of {entry.size_bytes}"
    elif sha256 != entry.sha256:
        yield f"'{entry.path}' has the SHA-256 {sha256} instead of {entry.sha256}"


def _entries(run: RunManifest) -> Iterator[tuple[str, FileEntry]]:
    for entry in run.files:
        yield entry.path, entry
    for variant in run.variants:
        for entry in variant.files:
            path = f"{variant.id}/{entry.path}"
            yield path, entry.model_copy(update={"path": path})
