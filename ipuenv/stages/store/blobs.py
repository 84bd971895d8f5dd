"""Files that many runs share, stored once under their hash: executables, packages, kernel symbols."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ipuenv.ground.errors import UsageError
from ipuenv.stages.store import durable

_FOLDER = Path(".blobs", "sha256")
_INCOMING = ".incoming-"
_CHUNK_BYTES = 1 << 20
_NAME_LENGTH = 200
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})

INCOMING_AGE_S = 3600.0
"""How old an unlocked incoming file must be to count as left by a crash; a living writer locks its own at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A stored file. ``note`` says when a damaged one of the same hash was replaced."""

    path: Path
    sha256: str
    size_bytes: int
    note: str = ""


def store_blob(root: Path, source: Path | BinaryIO, name: str, *, executable: bool = False) -> Blob:
    """Store a file, or what is left of a stream, below ``root``; what is there already is checked and used again.

    Raises:
        FailedError: the disk is full or broken.
        MissingError: the root may not be written.
        UsageError: the name is not one.
    """
    if not name or name.startswith(".") or "/" in name or not name.isprintable() or len(name) > _NAME_LENGTH:
        raise UsageError(f"'{name}' cannot be the name of a stored file", expected="a plain file name")
    with durable.explained(f"storing '{name}'", root):
        if isinstance(source, Path):
            known = _known(root, source, name, executable=executable)
            if known is not None:
                return known
            with source.open("rb") as stream:
                return _store(root, stream, name, executable=executable)
        return _store(root, source, name, executable=executable)


def link_blob(root: Path, blob: Blob, target: Path) -> None:
    """Give a blob a name inside a run: a hard link, or a copy where the file system has none.

    Raises:
        FailedError: the disk is full or broken.
    """
    with durable.explained(f"linking '{target.name}'", root):
        durable.link_or_copy(blob.path, target)


def sweep_incoming(root: Path, *, age_s: float = INCOMING_AGE_S) -> tuple[str, ...]:
    """Remove what crashed writers left of blobs, and name it."""
    swept: list[str] = []
    for path in sorted((root / _FOLDER).glob(f"{_INCOMING}*")):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if time.time() - os.fstat(file.fileno()).st_mtime >= age_s and durable.try_lock(file.fileno()):
                path.unlink()
                swept.append(path.name)
    return tuple(swept)


def _known(root: Path, source: Path, name: str, *, executable: bool) -> Blob | None:
    sha256, size_bytes = durable.hash_file(source)
    path = _place(root, sha256, name)
    if not _is_sound(path, sha256, size_bytes):
        return None
    if executable and not path.stat().st_mode & 0o111:
        path.chmod(0o555)
    return Blob(path=path, sha256=sha256, size_bytes=size_bytes)


def _store(root: Path, stream: BinaryIO, name: str, *, executable: bool) -> Blob:
    durable.make_folders(root / _FOLDER)
    with _incoming(root / _FOLDER) as (incoming, file):
        sha256, size_bytes = _copy(stream, file)
        os.fchmod(file.fileno(), 0o555 if executable else 0o444)
        os.fsync(file.fileno())
        path = _place(root, sha256, name)
        durable.make_folders(path.parent)
        note = _name_it(incoming, path, sha256, size_bytes)
        if executable and not path.stat().st_mode & 0o111:
            path.chmod(0o555)
        durable.sync_folder(path.parent)
    return Blob(path=path, sha256=sha256, size_bytes=size_bytes, note=note)


def _place(root: Path, sha256: str, name: str) -> Path:
    return root / _FOLDER / sha256[:2] / sha256 / name


@contextlib.contextmanager
def _incoming(folder: Path) -> Iterator[tuple[Path, BinaryIO]]:
    descriptor, text = tempfile.mkstemp(prefix=_INCOMING, dir=folder)
    path = Path(text)
    try:
        with os.fdopen(descriptor, "wb") as file:
            durable.try_lock(file.fileno())
            yield path, file
    finally:
        path.unlink(missing_ok=True)


def _copy(stream: BinaryIO, file: BinaryIO) -> tuple[str, int]:
    digest = hashlib.sha256()
    size_bytes = 0
    while chunk := stream.read(_CHUNK_BYTES):
        digest.update(chunk)
        file.write(chunk)
        size_bytes += len(chunk)
    file.flush()
    return digest.hexdigest(), size_bytes


def _name_it(incoming: Path, path: Path, sha256: str, size_bytes: int) -> str:
    """Give the incoming file its place, leaving a sound one that is there; the note tells of a damaged one."""
    try:
        os.link(incoming, path)
    except FileExistsError:
        if _is_sound(path, sha256, size_bytes):
            return ""
        incoming.rename(path)
        return f"the stored '{path.name}' was damaged (its bytes no longer gave {sha256[:12]}…) and has been replaced"
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        incoming.rename(path)
    return ""


def _is_sound(path: Path, sha256: str, size_bytes: int) -> bool:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_size == size_bytes
        and durable.hash_file(path) == (sha256, size_bytes)
    )
