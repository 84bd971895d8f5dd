"""Shared files are stored once, checked when used again, and never seen half-written."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipuenv.ground.errors import FailedError, UsageError
from ipuenv.stages import store
from ipuenv.stages.store import durable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "built"
    path.write_bytes(os.urandom(3_000_000))
    return path


def temporaries(root: Path) -> list[Path]:
    return list((root / ".blobs" / "sha256").glob(".*"))


def test_a_blob_lies_under_its_hash(root: Path, source: Path) -> None:
    blob = store.store_blob(root, source, "program", executable=True)
    digest = subprocess.run(["sha256sum", source], check=True, capture_output=True, text=True).stdout.split()[0]
    assert blob.sha256 == digest
    assert blob.path == root / ".blobs/sha256" / digest[:2] / digest / "program"
    assert blob.size_bytes == 3_000_000
    assert blob.path.read_bytes() == source.read_bytes()
    assert stat.S_IMODE(blob.path.stat().st_mode) == 0o555
    assert temporaries(root) == []


def test_a_stream_is_stored_as_a_file_is(root: Path, source: Path) -> None:
    with source.open("rb") as stream:
        blob = store.store_blob(root, stream, "kallsyms.zst")
    assert blob == store.store_blob(root, source, "kallsyms.zst")
    assert stat.S_IMODE(blob.path.stat().st_mode) == 0o444
    empty = store.store_blob(root, io.BytesIO(), "empty")
    assert (empty.sha256, empty.size_bytes) == (hashlib.sha256().hexdigest(), 0)


def test_a_stored_file_is_not_written_again(root: Path, source: Path) -> None:
    first = store.store_blob(root, source, "program")
    before = first.path.stat()
    assert store.store_blob(root, source, "program") == first
    after = first.path.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)
    store.store_blob(root, source, "program", executable=True)
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o555


@pytest.mark.parametrize("as_stream", [False, True])
@pytest.mark.parametrize("damage", ["bytes", "size", "link"])
def test_a_damaged_blob_is_replaced_and_told(root: Path, source: Path, damage: str, as_stream: bool) -> None:
    blob = store.store_blob(root, source, "program")
    linked = root / "linked"
    store.link_blob(root, blob, linked)
    blob.path.chmod(0o644)
    data = bytearray(source.read_bytes())
    data[1_000_000] ^= 1
    if damage == "link":
        blob.path.rename(root / "elsewhere")
        blob.path.symlink_to(root / "elsewhere")
    else:
        blob.path.write_bytes(data if damage == "bytes" else data[:-1])
    again = store.store_blob(root, io.BytesIO(source.read_bytes()) if as_stream else source, "program")
    assert "was damaged" in again.note
    assert again.sha256[:12] in again.note
    assert not again.path.is_symlink()
    assert again.path.read_bytes() == source.read_bytes()
    assert linked.stat().st_ino != again.path.stat().st_ino
    assert store.store_blob(root, source, "program").note == ""


def test_a_hard_link_joins_run_and_blob(root: Path, source: Path) -> None:
    blob = store.store_blob(root, source, "program", executable=True)
    store.link_blob(root, blob, root / "program")
    assert (root / "program").stat().st_ino == blob.path.stat().st_ino
    with pytest.raises(UsageError, match="is in the way"):
        store.link_blob(root, blob, root / "program")


@pytest.mark.parametrize("fault", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_where_nothing_can_be_linked_it_is_copied(
    root: Path, source: Path, fault: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_: object) -> None:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(os, "link", no_link)
    blob = store.store_blob(root, source, "program", executable=True)
    store.link_blob(root, blob, root / "program")
    assert (root / "program").read_bytes() == source.read_bytes()
    assert stat.S_IMODE((root / "program").stat().st_mode) == 0o555
    assert (root / "program").stat().st_ino != blob.path.stat().st_ino
    assert temporaries(root) == []


def test_a_full_disk_is_not_mistaken_for_one_without_links(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = store.store_blob(root, source, "program")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(FailedError, match="no space left"):
        store.link_blob(root, blob, root / "program")
    assert not (root / "program").exists()


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../../x", "a\nb", "a\0b", "x" * 201])
def test_a_name_that_is_none_is_refused(root: Path, source: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a stored file"):
        store.store_blob(root, source, name)
    assert not root.exists()


@settings(deadline=None)
@given(data=st.binary(max_size=100), name=st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9._ -]{0,20}\Z"))
def test_any_bytes_come_back(tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str) -> None:
    root = tmp_path_factory.getbasetemp() / "any-bytes"
    blob = store.store_blob(root, io.BytesIO(data), name)
    assert blob.path.read_bytes() == data
    assert blob.sha256 == hashlib.sha256(data).hexdigest()
    assert blob.note == ""


def test_a_missing_source_is_told(root: Path, tmp_path: Path) -> None:
    with pytest.raises(FailedError, match="storing 'program' failed: No such file") as caught:
        store.store_blob(root, tmp_path / "not built", "program")
    assert "not built" in caught.value.what


def test_a_failing_source_leaves_nothing(root: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, _: int | None = None, /) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(FailedError, match="Input/output error"):
        store.store_blob(root, Broken(), "program")
    assert temporaries(root) == []


def test_readers_never_see_a_part(root: Path, source: Path) -> None:
    """Writers of one blob race; whoever looks at its place meanwhile finds nothing or all of it."""
    data = source.read_bytes()
    place = store.store_blob(root, source, "program").path
    shutil.rmtree(root / ".blobs")
    sizes: set[int] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            if place.exists():
                sizes.add(place.stat().st_size)

    blobs: list[store.Blob] = []
    watcher = threading.Thread(target=watch)
    writers = [
        threading.Thread(target=lambda: blobs.append(store.store_blob(root, io.BytesIO(data), "program")))
        for _ in range(8)
    ]
    watcher.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    watcher.join()
    assert len(set(blobs)) == 1
    assert len(blobs) == 8
    assert sizes == {len(data)}
    assert temporaries(root) == []


def test_what_crashed_writers_left_is_swept_and_what_living_ones_write_is_not(root: Path, source: Path) -> None:
    store.store_blob(root, source, "program")
    folder = root / ".blobs" / "sha256"
    old, fresh, held = folder / ".incoming-old", folder / ".incoming-fresh", folder / ".incoming-held"
    for path in (old, fresh, held):
        path.write_bytes(b"part")
    for path in (old, held):
        os.utime(path, (1_000_000, 1_000_000))
    with held.open("rb") as file:
        assert durable.try_lock(file.fileno())
        assert store.sweep_incoming(root) == (".incoming-old",)
    assert fresh.exists()
    assert held.exists()
    assert store.sweep_incoming(root, age_s=0) == (".incoming-fresh", ".incoming-held")
    assert store.sweep_incoming(root / "nowhere") == ()
