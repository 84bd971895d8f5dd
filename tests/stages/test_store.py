"""Runs are published whole or not at all, whatever happens, and never change afterwards."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ipuenv.ground.errors import FailedError, MissingError, UsageError
from ipuenv.stages import store
from ipuenv.stages.store import durable
from tests.stages.store_worker import COLLECTION, STARTED_AT, facts, publish_one

if TYPE_CHECKING:
    from ipuenv.stages.manifest import RunManifest

LATER = STARTED_AT + timedelta(hours=1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def collection(root: Path) -> store.Collection:
    return store.open_collection(root, COLLECTION)


def visible(collection: store.Collection) -> list[str]:
    return sorted(path.name for path in collection.folder.iterdir() if path.name != ".lock")


# -- ids and labels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("revision", "dirty", "label", "run_id"),
    [
        ("3f2a91c4e5", False, None, "20261130T101502Z-3f2a91c"),
        ("3f2a91c4e5", True, None, "20261130T101502Z-3f2a91c-dirty"),
        (None, False, "indexed", "20261130T101502Z-nogit-indexed"),
        ("3f2a91c4e5", True, "batch-4", "20261130T101502Z-3f2a91c-dirty-batch-4"),
    ],
)
def test_run_ids(root: Path, revision: str | None, dirty: bool, label: str | None, run_id: str) -> None:
    assert store.new_run_id(STARTED_AT, revision=revision, dirty=dirty, label=label) == run_id
    run = store.stored_run(store.open_collection(root, COLLECTION), run_id)
    assert (run.revision, run.dirty, run.tail) == (revision[:7] if revision else None, dirty, label or "")


@pytest.mark.parametrize(
    "label",
    [
        "",
        ".",
        "..",
        "-x",
        "a/b",
        "../x",
        "a b",
        "a\nb",
        "ü",
        "a~1",
        "a:b",
        "x" * 65,
        "latest",
        "baseline",
        "dirty",
        "dirty-x",
    ],
)
def test_a_label_that_could_be_something_else_is_refused_with_a_better_one(label: str) -> None:
    with pytest.raises(UsageError, match="cannot be a label") as caught:
        store.checked_label(label)
    suggested = caught.value.hint.removeprefix("try: --label ")
    assert store.checked_label(suggested) == suggested


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/etc", "a//b", "a/../b", ".blobs", "a/.b", "a:b", "20261130T101502Z-nogit"]
)
def test_a_collection_stays_below_the_root(root: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a collection"):
        store.open_collection(root, name)


def test_a_tie_is_told_apart_by_a_number(root: Path) -> None:
    names = [publish_one(root, label="x").path.name for _ in range(11)]
    assert names == [f"20261130T101502Z-3f2a91c-x{suffix}" for suffix in ["", *(f"-{n}" for n in range(2, 12))]]
    newest_first = [run.id for run in store.list_runs(store.open_collection(root, COLLECTION))]
    assert newest_first == names[::-1]


def test_an_id_that_is_being_written_is_taken(collection: store.Collection) -> None:
    with (
        store.open_staging(collection, started_at=STARTED_AT, revision=None) as first,
        store.open_staging(collection, started_at=STARTED_AT, revision=None) as second,
    ):
        assert second.run_id == f"{first.run_id}-2"
    assert visible(collection) == []


# -- a published run --------------------------------------------------------------------------------------------------


def test_every_file_is_in_the_manifest_with_its_hash(root: Path) -> None:
    published = publish_one(root, statuses={"16threads": "pass", "4threads": "failed"})
    listed = {entry.path: entry for entry in published.manifest.files}
    for variant in published.manifest.variants:
        listed |= {f"{variant.id}/{entry.path}": entry for entry in variant.files}
    files = {str(path.relative_to(published.path)) for path in published.path.rglob("*") if path.is_file()}
    assert files == {*listed, "manifest.json"}
    assert "16threads/manifest.json" in listed
    assert "README.md" in listed
    sums = "".join(f"{entry.sha256}  {path}\n" for path, entry in listed.items())
    checked = subprocess.run(
        ["sha256sum", "--strict", "-c", "-"],
        cwd=published.path,
        input=sums,
        text=True,
        capture_output=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert all((published.path / path).stat().st_size == entry.size_bytes for path, entry in listed.items())
    assert store.read_manifest(published.path) == published.manifest


def test_a_run_holds_nothing_of_its_making_and_can_only_be_read_or_removed(
    root: Path, collection: store.Collection
) -> None:
    published = publish_one(root)
    assert visible(collection) == [published.path.name, "latest"]
    assert sorted(path.name for path in published.path.iterdir()) == ["16threads", "README.md", "manifest.json"]
    for path in published.path.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o222 == (0o200 if path.is_dir() else 0), path
    assert (published.path / "16threads/program").stat().st_mode & 0o111
    subprocess.run(["rm", "-r", published.path], check=True, stdin=subprocess.DEVNULL)


def test_equal_files_of_runs_are_stored_once(root: Path) -> None:
    inodes = {
        publish_one(root).path.joinpath("16threads", name).stat().st_ino for _ in range(3) for name in ["program"]
    }
    assert len(inodes) == 1


def test_the_page_is_drawn_from_the_finished_manifest(root: Path, collection: store.Collection) -> None:
    seen: list[RunManifest] = []

    def page(run: RunManifest) -> str:
        seen.append(run)
        return "# caf\u00e9 \udce9\n"

    with store.open_staging(collection, started_at=STARTED_AT, revision=None) as staging:
        (staging.variant_folder("16threads") / "run.log").write_text("x")
        published = store.publish(staging, facts(staging.run_id), page=page)
    assert [entry.path for entry in seen[0].variants[0].files] == ["run.log"]
    assert (published.path / "README.md").read_text(encoding="utf-8") == "# café \\udce9\n"
    assert store.verify_run(published.path) == ()


def test_what_is_no_file_is_left_out_and_named(
    root: Path, collection: store.Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not for the run")
    with store.open_staging(collection, started_at=STARTED_AT, revision=None) as staging:
        folder = staging.variant_folder("16threads")
        (folder / "manifest.json").symlink_to(secret)
        (folder / "folder").symlink_to(tmp_path)
        (folder / "inner").mkdir(mode=0o000)
        (folder / "unreadable").touch(mode=0o200)
        os.mkfifo(folder / "fifo")
        (folder / "new\nline").mkdir()
        (folder / "new\nline" / "file").touch()
        (folder / b"\xff".decode("utf-8", "surrogateescape")).touch()
        (staging.path / "README.md").symlink_to(secret)
        monkeypatch.chdir(folder)  # a socket's path has to be short
        with socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.bind("s")
        published = store.publish(staging, facts(staging.run_id), page=lambda _: "page")
    names = ["folder", "fifo", "manifest.json", "new\nline", "s", "\\xff"]
    assert sorted(published.left_out) == sorted(["README.md", *(f"16threads/{name}" for name in names)])
    assert secret.read_text() == "not for the run"
    assert store.verify_run(published.path) == ()
    assert not any(path.is_symlink() for path in published.path.rglob("*"))


def test_a_manifest_of_another_run_is_a_mistake_of_ours(collection: store.Collection) -> None:
    with (
        store.open_staging(collection, started_at=STARTED_AT, revision=None) as staging,
        pytest.raises(ValueError, match="cannot be that of"),
    ):
        store.publish(staging, facts("20261130T101502Z-3f2a91c"), page=lambda _: "")
    assert visible(collection) == []


def test_all_is_durable_before_the_rename_and_the_rename_before_latest(
    root: Path, collection: store.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    rename, fsync = Path.rename, os.fsync

    def noting_rename(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            steps.append("rename")
        return rename(self, target)

    def noting_fsync(descriptor: int) -> None:
        steps.append(f"{os.fstat(descriptor).st_ino}")
        fsync(descriptor)

    monkeypatch.setattr(Path, "rename", noting_rename)
    monkeypatch.setattr(os, "fsync", noting_fsync)
    published = publish_one(root)
    at = steps.index("rename")
    for path in [published.path, *published.path.rglob("*")]:
        assert str(path.stat().st_ino) in steps[:at], path
    assert str(collection.folder.stat().st_ino) in steps[at:]
    assert str(root.stat().st_ino) in steps[:at]


# -- verify -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda run: (run / "16threads/run.log").write_text("X" * 25), "'16threads/run.log' has the SHA-256 "),
        (lambda run: (run / "16threads/run.log").write_text("short"), "'16threads/run.log' has 5 bytes instead of 25"),
        (lambda run: (run / "16threads/perf.data").unlink(), "'16threads/perf.data' is missing"),
        (lambda run: (run / "16threads/new").touch(), "'16threads/new' is not in the manifest"),
        (lambda run: (run / "new").symlink_to("/etc"), "'new' is not in the manifest"),
        (lambda run: (run / "README.md").rename(run / "LIESMICH"), "'README.md' is missing"),
        (lambda run: replace_by_link(run / "16threads/run.log"), "'16threads/run.log' is no longer a plain file"),
        (
            lambda run: (run / "16threads/manifest.json").write_text("{}"),
            "'16threads/manifest.json' has 2 bytes instead",
        ),
    ],
)
def test_verify_tells_what_changed(root: Path, change: Callable[[Path], object], told: str) -> None:
    published = publish_one(root)
    assert store.verify_run(published.path) == ()
    for path in published.path.rglob("*"):
        path.chmod(0o755)
    change(published.path)
    problems = store.verify_run(published.path)
    assert problems
    assert problems[0].startswith(told)


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("perf.data")


def test_a_run_without_a_manifest_cannot_be_verified(root: Path) -> None:
    published = publish_one(root)
    (published.path / "manifest.json").unlink()
    with pytest.raises(UsageError, match=r"manifest\.json' cannot be read: No such file"):
        store.verify_run(published.path)


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, FailedError])
def test_a_failure_removes_what_was_staged(collection: store.Collection, error: type[BaseException]) -> None:
    def attempt() -> None:
        with store.open_staging(collection, started_at=STARTED_AT, revision=None) as staging:
            folder = staging.variant_folder("16threads")
            (folder / "closed").mkdir()
            (folder / "closed" / "file").touch(mode=0o400)
            (folder / "closed").chmod(0o000)
            raise error("the program failed")

    with pytest.raises(error):
        attempt()
    assert visible(collection) == []


def test_a_run_that_was_not_published_is_gone(collection: store.Collection) -> None:
    with store.open_staging(collection, started_at=STARTED_AT, revision=None) as staging:
        staging.variant_folder("16threads")
    assert visible(collection) == []


def test_an_interrupted_matrix_is_resumed_with_what_it_has(root: Path, collection: store.Collection) -> None:
    def attempt() -> None:
        with store.open_staging(collection, started_at=STARTED_AT, revision=None) as staging:
            staging.keep_for_resume()
            store.save_variant(staging, facts(staging.run_id).variants[0])
            (staging.variant_folder("8threads") / "manifest.json").write_text("{")
            with (
                pytest.raises(UsageError, match="still being written"),
                store.resume_staging(collection, staging.run_id),
            ):
                pass
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt()
    (run_id,) = store.resumable_runs(collection)
    assert store.list_runs(collection) == []
    assert store.sweep_leftovers(collection) == ()
    with store.resume_staging(collection, run_id) as resumed:
        saved = store.saved_variants(resumed)
        assert [variant.id for variant in saved] == ["16threads"]
        run = facts(resumed.run_id).model_copy(update={"variants": saved})
        published = store.publish(resumed, run, page=lambda _: "")
    assert store.resumable_runs(collection) == ()
    assert store.verify_run(published.path) == ()
    assert sorted(path.name for path in published.path.iterdir()) == [
        "16threads",
        "8threads",
        "README.md",
        "manifest.json",
    ]


def test_an_unfinished_run_can_be_given_up(collection: store.Collection) -> None:
    with store.open_staging(collection, started_at=STARTED_AT, revision=None) as staging:
        staging.keep_for_resume()
        assert store.sweep_leftovers(collection, resumable=True) == ()
    assert store.sweep_leftovers(collection, resumable=True) == (staging.run_id,)
    with pytest.raises(UsageError, match="no unfinished run"), store.resume_staging(collection, staging.run_id):
        pass
    with pytest.raises(UsageError, match="no unfinished run"), store.resume_staging(collection, "../../x"):
        pass


def test_leftovers_are_those_that_nobody_has_locked(root: Path, collection: store.Collection, tmp_path: Path) -> None:
    publish_one(root)
    for name in (".20261130T000000Z-nogit.partial", ".20261130T000001Z-nogit.partial"):
        (collection.folder / name).mkdir()
    (collection.folder / ".20261130T000000Z-nogit.partial" / "lock").touch()
    (collection.folder / ".notes.partial").mkdir()
    (tmp_path / "mine").mkdir()
    (collection.folder / ".20261130T000002Z-nogit.partial").symlink_to(tmp_path / "mine")
    with store.open_staging(collection, started_at=LATER, revision=None):
        assert store.sweep_leftovers(collection) == ("20261130T000000Z-nogit", "20261130T000001Z-nogit")
        assert store.sweep_leftovers(collection) == ()
    assert (tmp_path / "mine").is_dir()
    assert (collection.folder / ".notes.partial").is_dir()
    assert len(store.list_runs(collection)) == 1


def test_ids_are_taken_and_runs_and_leftovers_moved_by_one_process_at_a_time(
    root: Path, collection: store.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a sweep could take a folder between its making and its locking, or between unlocking and renaming."""
    seen: list[str] = []

    def noting(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(self: Path, *rest: object, **named: object) -> object:
            if self.name.endswith(".partial") or self.name == "lock":
                with (collection.folder / ".lock").open() as lock:
                    assert not durable.try_lock(lock.fileno()), name
                seen.append(name)
            return real(self, *rest, **named)

        return call

    for name in ("mkdir", "rename", "unlink"):
        monkeypatch.setattr(Path, name, noting(name, getattr(Path, name)))
    monkeypatch.setattr(durable, "remove_tree", noting("remove", durable.remove_tree))
    publish_one(root)
    assert seen == ["mkdir", "unlink", "rename"]
    os.mkdir(collection.folder / ".20261130T000000Z-nogit.partial")  # noqa: PTH102  (Path.mkdir is watched)
    store.sweep_leftovers(collection)
    assert seen[3:] == ["remove"]


def test_a_lock_that_is_never_freed_is_told(root: Path, collection: store.Collection) -> None:
    publish_one(root)
    lock = collection.folder / ".lock"
    with (
        durable.locked(lock),
        pytest.raises(FailedError, match="has been locked by another process") as caught,
        durable.locked(lock, wait_s=0.05),
    ):
        pass
    assert "fuser" in caught.value.hint


def test_a_file_in_the_way_is_named(root: Path) -> None:
    root.mkdir()
    (root / "compiler-perf").write_text("a file")
    with pytest.raises(UsageError, match="is in the way while starting a run") as caught:
        publish_one(root)
    assert "compiler-perf" in caught.value.what


def test_a_disk_that_fills_up_under_another_writer_is_told_too(collection: store.Collection) -> None:
    with (
        pytest.raises(FailedError, match="no space left for '/x/y' while writing"),
        store.open_staging(collection, started_at=STARTED_AT, revision=None),
    ):
        raise OSError(28, "No space left on device", "/x/y")
    with pytest.raises(IsADirectoryError), store.open_staging(collection, started_at=STARTED_AT, revision=None):
        raise OSError(21, "Is a directory", "/x/y")


def test_a_shared_tree_is_locked_by_those_who_may_not_write_the_lock(
    root: Path, collection: store.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_one(root)
    real = os.open

    def colleagues(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR and str(path).endswith("/.lock"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", colleagues)
    publish_one(root)
    assert len(store.list_runs(collection)) == 2
    (collection.folder / ".lock").unlink()
    with pytest.raises(MissingError, match=r"\.lock' may not be written"):
        publish_one(root)
