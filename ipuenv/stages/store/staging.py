"""Where a run is written before it is published: ``.<run id>.partial/``, whose ``lock`` its writer holds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from ipuenv.ground.errors import UsageError
from ipuenv.stages.store import durable
from ipuenv.stages.store.layout import COLLECTION_LOCK, Collection, is_run_id, new_run_id

LOCK = "lock"
RESUMABLE = "resumable"
_SUFFIX = ".partial"
_TIES = 10_000


class Staging:
    """A run that is being written. It is this process's as long as the lock is held."""

    def __init__(self, collection: Collection, run_id: str, lock: int) -> None:
        self.collection = collection
        self.run_id = run_id
        self.path = _path(collection, run_id)
        self.published: Path | None = None
        self._lock = lock

    def variant_folder(self, variant_id: str) -> Path:
        """The variant's folder, made when missing.

        Raises:
            FailedError: the disk is full or broken.
        """
        folder = self.path / variant_id
        with durable.explained(f"making the folder of '{variant_id}'", self.collection.root):
            folder.mkdir(exist_ok=True)
        return folder

    def keep_for_resume(self) -> None:
        """From now on the folder stays when the run does not come to its end, for ``--resume``."""
        with durable.explained("keeping an unfinished run", self.collection.root):
            durable.write_file(self.path / RESUMABLE, b"")
            durable.sync_folder(self.path)

    @property
    def kept(self) -> bool:
        return (self.path / RESUMABLE).exists()

    def close(self) -> None:
        """Remove the folder unless it was published or is kept, and let the lock go."""
        try:
            if self.published is None and not self.kept:
                # What cannot be removed now is a leftover that the next sweep takes.
                with contextlib.suppress(OSError):
                    durable.remove_tree(self.path)
        finally:
            os.close(self._lock)


@contextlib.contextmanager
def open_staging(
    collection: Collection,
    *,
    started_at: datetime,
    revision: str | None,
    dirty: bool = False,
    label: str | None = None,
) -> Iterator[Staging]:
    """A new run's folder for a block. However the block ends, what was not published is gone, unless it is kept.

    Raises:
        FailedError: the disk is full or broken.
        MissingError: the artifacts root may not be written.
        UsageError: the label is not one.
    """
    wanted = new_run_id(started_at, revision=revision, dirty=dirty, label=label)
    with durable.explained("starting a run", collection.root):
        durable.make_folders(collection.folder)
        with locked(collection):
            staging = _take(collection, wanted)
    with _owned(staging):
        yield staging


@contextlib.contextmanager
def resume_staging(collection: Collection, run_id: str) -> Iterator[Staging]:
    """The folder of a run that was kept for resuming, for a block.

    Raises:
        UsageError: there is none of that id, or another process is writing it.
    """
    if not is_run_id(run_id) or run_id not in resumable_runs(collection):
        raise UsageError(
            f"no unfinished run '{run_id}' in '{collection.name}'",
            expected="one that was interrupted"
            + "".join(f"; there is {found}" for found in resumable_runs(collection)),
            hint="start afresh, without --resume",
        )
    with durable.explained("resuming a run", collection.root), locked(collection):
        lock = os.open(_path(collection, run_id) / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        if not durable.try_lock(lock):
            os.close(lock)
            raise UsageError(
                f"the run '{run_id}' is still being written by another process",
                expected="one that was interrupted",
                hint="wait until that process has ended",
            )
    staging = Staging(collection, run_id, lock)
    with _owned(staging):
        yield staging


@contextlib.contextmanager
def _owned(staging: Staging) -> Iterator[None]:
    """Close the staging after a block, in which whoever writes may find the disk full."""
    root = staging.collection.root
    with contextlib.closing(staging):
        try:
            yield
        except OSError as error:
            if error.errno not in durable.NO_SPACE:
                raise
            with durable.explained(f"writing '{staging.run_id}'", root):
                raise


def resumable_runs(collection: Collection) -> tuple[str, ...]:
    """The ids of the unfinished runs that are kept, newest first; some may be in use."""
    kept = (run_id for run_id in _staged(collection) if (_path(collection, run_id) / RESUMABLE).exists())
    return tuple(sorted(kept, reverse=True))


def sweep_leftovers(collection: Collection, *, resumable: bool = False) -> tuple[str, ...]:
    """Remove what crashed writers left, and name it; unfinished runs that are kept only when asked.

    Raises:
        MissingError: the artifacts root may not be written.
    """
    if not collection.folder.is_dir():
        return ()
    swept: list[str] = []
    with durable.explained("removing leftovers", collection.root), locked(collection):
        for run_id in _staged(collection):
            path = _path(collection, run_id)
            if (resumable or not (path / RESUMABLE).exists()) and _is_abandoned(path):
                # One that belongs to somebody else must not keep us from our own work.
                with contextlib.suppress(OSError):
                    durable.remove_tree(path)
                    swept.append(run_id)
    return tuple(swept)


@contextlib.contextmanager
def locked(collection: Collection) -> Iterator[None]:
    """Alone in the collection for a block: ids are taken, runs renamed and links moved by one process at a time."""
    with durable.locked(collection.folder / COLLECTION_LOCK):
        yield


def _path(collection: Collection, run_id: str) -> Path:
    return collection.folder / f".{run_id}{_SUFFIX}"


def _staged(collection: Collection) -> list[str]:
    try:
        names = [entry.name for entry in os.scandir(collection.folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    ids = (name[1 : -len(_SUFFIX)] for name in names if name.startswith(".") and name.endswith(_SUFFIX))
    return sorted(run_id for run_id in ids if is_run_id(run_id))


def _take(collection: Collection, wanted: str) -> Staging:
    for number in range(1, _TIES):
        run_id = wanted if number == 1 else f"{wanted}-{number}"
        path = _path(collection, run_id)
        if os.path.lexists(collection.folder / run_id):
            continue
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return Staging(collection, run_id, _lock_new(path))
    raise UsageError(f"all of the names '{wanted}-N' are taken", expected="fewer runs in one second")


def _lock_new(path: Path) -> int:
    lock = -1
    try:
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        durable.try_lock(lock)
        os.write(lock, f"{os.getpid()} {os.uname().nodename}\n".encode())
    except BaseException:
        if lock >= 0:
            os.close(lock)
        with contextlib.suppress(OSError):
            durable.remove_tree(path)
        raise
    return lock


def _is_abandoned(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    try:
        lock = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True  # its writer died between taking the folder and locking it, or while renaming it
    except OSError:
        return False
    try:
        return durable.try_lock(lock)
    finally:
        os.close(lock)
