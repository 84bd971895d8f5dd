"""Files that survive a crash: synced writes, atomic links, locks, hashes, and disk errors put into words."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shlex
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from ipuenv.ground.errors import FailedError, MissingError, UsageError

LOCK_WAIT_S = 60.0
"""How long to wait for another process that is publishing into the same collection."""

_LOCK_POLL_S = 0.02
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_PERMITTED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_WRITE_BITS = 0o222


@contextlib.contextmanager
def explained(doing: str, root: Path) -> Iterator[None]:
    """Put an :class:`OSError` of the block into words; ``doing`` is what was going on, ``root`` the artifacts root.

    Raises:
        FailedError: the disk is full or broken.
        MissingError: the root may not be written.
        UsageError: a file stands where a folder is needed.
    """
    try:
        yield
    except OSError as error:
        where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(root)
        if error.errno in NO_SPACE:
            raise FailedError(
                f"no space left for '{where}' while {doing}",
                expected="room for the run's files; nothing was published",
                hint="delete runs that are not needed any more, or set IPUENV_ARTIFACTS to a folder on a larger disk",
            ) from error
        if error.errno in _NOT_PERMITTED:
            raise MissingError(
                f"'{where}' may not be written while {doing}: {error.strerror}",
                expected="an artifacts folder that you may write to",
                hint="set IPUENV_ARTIFACTS to one, for example: export IPUENV_ARTIFACTS=$HOME/ipuenv-artifacts",
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            raise UsageError(
                f"'{where}' is in the way while {doing}: {error.strerror}",
                expected="a folder, or nothing, at that path",
                hint="move that file away, or set IPUENV_ARTIFACTS to another folder",
            ) from error
        raise FailedError(
            f"{doing} failed: {error.strerror or error} ('{where}')",
            expected="a working disk below the artifacts root",
            hint=f"look at the disk: df -h {shlex.quote(str(root))}; dmesg | tail",
        ) from error


def hash_file(path: Path) -> tuple[str, int]:
    """A file's SHA-256 and its size in bytes."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return digest.hexdigest(), file.tell()


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems sync no folders
            raise
    finally:
        os.close(descriptor)


def make_folders(path: Path) -> None:
    """Make a folder and its parents; each new name is durable."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        try:
            folder.mkdir()
        except FileExistsError:
            if not folder.is_dir():
                raise
        else:
            sync_folder(folder.parent)


def seal_file(path: Path) -> None:
    """Make a file's bytes durable and take its write permissions away."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & _WRITE_BITS:
            os.fchmod(descriptor, mode & ~_WRITE_BITS)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Replace a file by ``data`` at one stroke; a link at ``path`` is replaced, never followed."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_link(path: Path, target: str) -> None:
    """Point the symbolic link ``path`` at ``target`` at one stroke."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        temporary.symlink_to(target)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it with its mode where the file system links nothing (or not that far)."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in NO_SPACE or isinstance(error, FileExistsError | FileNotFoundError):
            raise
        shutil.copy(source, target)


def remove_tree(path: Path) -> None:
    """Remove a folder with all it holds; folders that their maker closed to himself are opened first."""
    for folder in walk_folders(path):
        permit(folder, 0o700)
    shutil.rmtree(path)


def permit(path: Path, bits: int) -> None:
    """Give the owner permissions that a file or folder of his own lacks."""
    mode = stat.S_IMODE(path.lstat().st_mode)
    if mode & bits != bits:
        path.chmod(mode | bits)


def walk_folders(path: Path) -> Iterator[Path]:
    """``path`` and the folders below it, parents first, links never followed; each is read only after it was given."""
    pending = [path]
    while pending:
        folder = pending.pop()
        yield folder
        with os.scandir(folder) as entries:
            pending += sorted(Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False))


def try_lock(descriptor: int) -> bool:
    """Take the exclusive flock of an open file if nobody has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path, *, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Hold the lock file ``path`` for a block; it is made when missing and stays.

    Raises:
        FailedError: another process has held it for ``wait_s``.
    """
    descriptor = _open_lock(path)
    try:
        deadline = time.monotonic() + wait_s
        while not try_lock(descriptor):
            if time.monotonic() > deadline:
                raise FailedError(
                    f"'{path}' has been locked by another process for {wait_s:.0f} s",
                    expected="a collection that another ipuenv leaves within moments",
                    hint=f"see who has it: fuser -v {shlex.quote(str(path))}",
                )
            time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except PermissionError as error:
        # A colleague's lock file in a shared tree can be locked without being written.
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise error from None
