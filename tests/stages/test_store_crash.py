"""The published tree after races, kills and full disks: what was published is whole, what was not is gone or known."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ipuenv.ground.errors import FailedError, MissingError
from ipuenv.stages import store
from tests.stages.store_worker import COLLECTION, STARTED_AT, publish_one

WORKERS = 8
PROGRAMS_OWN = ("model.ipuexe", "run.log", "perf.data")
REPOSITORY = Path(__file__).parents[2]


@contextmanager
def start(*arguments: object, wrapper: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    argv = [*wrapper, sys.executable, "-m", "tests.stages.store_worker", *map(str, arguments)]
    with subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def next_line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    line = worker.stdout.readline().rstrip("\n")
    assert line, f"the worker ended with {worker.wait()}"
    return line


def check_whole(collection: store.Collection) -> list[str]:
    """Every published run is whole, and ``latest`` leads to one; the ids."""
    runs = store.list_runs(collection)
    assert {run.id: store.verify_run(run.path) for run in runs} == {run.id: () for run in runs}
    latest = collection.folder / "latest"
    assert latest.exists() == latest.is_symlink()
    return [run.id for run in runs]


# -- races ------------------------------------------------------------------------------------------------------------


def test_runs_published_at_once_get_names_of_their_own(tmp_path: Path) -> None:
    root, go = tmp_path / "artifacts", tmp_path / "go"
    with ExitStack() as stack:
        workers = [stack.enter_context(start("once", root, go)) for _ in range(WORKERS)]
        assert [next_line(worker) for worker in workers] == ["ready"] * WORKERS
        go.touch()
        names = [next_line(worker) for worker in workers]
        assert [worker.wait() for worker in workers] == [0] * WORKERS
    base = "20261130T101502Z-3f2a91c-race"
    assert sorted(names) == [base, *(f"{base}-{number}" for number in range(2, WORKERS + 1))]
    collection = store.open_collection(root, COLLECTION)
    assert check_whole(collection) == [*(f"{base}-{number}" for number in range(WORKERS, 1, -1)), base]
    assert str((collection.folder / "latest").readlink()) == f"{base}-{WORKERS}"
    assert (collection.folder / "README.md").read_text() == f"{WORKERS} {WORKERS} {base}-{WORKERS}\n"
    assert len({(collection.folder / name / "16threads/program").stat().st_ino for name in names}) == 1
    hidden = sorted(path.name for path in collection.folder.glob(".*"))
    assert hidden == [".lock"]
    assert list((root / ".blobs" / "sha256").glob(".*")) == []


# -- kills ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_writer_leaves_whole_runs_and_a_leftover_that_is_known(tmp_path: Path, seed: int) -> None:
    root = tmp_path / "artifacts"
    collection = store.open_collection(root, COLLECTION)
    with start("loop", root) as worker:
        assert next_line(worker) == "ready"
        told = [next_line(worker) for _ in range(3)]
        assert store.sweep_leftovers(collection) == ()
        told.append(next_line(worker))
        time.sleep(random.Random(seed).uniform(0, 0.3))
        worker.send_signal(signal.SIGKILL)
        told += worker.communicate()[0].split()
        assert worker.returncode == -signal.SIGKILL
    # The last run may have been published without having been told.
    runs = check_whole(collection)
    assert set(told) <= set(runs)
    assert len(runs) - len(told) in (0, 1)
    left = [path.name[1 : -len(".partial")] for path in collection.folder.glob(".*.partial")]
    assert list(store.sweep_leftovers(collection)) == left
    assert list(collection.folder.glob(".*.partial")) == []
    after = publish_one(root, label="after")
    assert after.path.name in check_whole(collection)


# -- full disks -------------------------------------------------------------------------------------------------------


def in_own_mounts() -> tuple[str, ...]:
    """A wrapper that gives a process mounts of its own; without root it needs user namespaces."""
    wrapper = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--mount")
    probe = subprocess.run([*wrapper, "true"], check=False, capture_output=True, text=True)
    assert probe.returncode == 0, (
        f"this test mounts small disks and cannot: {probe.stderr}; deselect it: -k 'not real_disk'"
    )
    return wrapper


def test_a_full_real_disk_publishes_all_or_nothing(tmp_path: Path) -> None:
    with start("full-disk", tmp_path, wrapper=in_own_mounts()) as worker:
        out, _ = worker.communicate()
        assert worker.returncode == 0
    outcomes: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    for outcome in outcomes:
        assert outcome["problems"] == [], outcome
        assert outcome["leftovers"] == [], outcome
        assert outcome["runs"] == (0 if outcome["error"] else 1), outcome
        assert outcome["error"] in (None, "FailedError"), outcome
    told = {outcome["what"].split(" while ")[1] for outcome in outcomes if outcome["error"]}
    assert {"storing 'program'", "storing 'model.ipuexe'", "publishing '20261130T101502Z-3f2a91c'"} <= told
    assert all("IPUENV_ARTIFACTS" in outcome["hint"] for outcome in outcomes if outcome["error"])
    assert outcomes[-1]["error"] is None


def test_a_read_only_real_disk_can_be_read_and_says_so_when_written(tmp_path: Path) -> None:
    with start("read-only", tmp_path, wrapper=in_own_mounts()) as worker:
        outcomes: dict[str, dict[str, str | None]] = json.loads(next_line(worker))
        assert worker.wait() == 0
    for action in ("stage", "stage where nothing is yet", "store", "sweep", "page"):
        assert outcomes[action]["error"] == "MissingError", action
        assert "Read-only file system" in (outcomes[action]["what"] or "")
        assert "IPUENV_ARTIFACTS" in (outcomes[action]["hint"] or "")
    for action in ("known blob", "verify", "resolve"):
        assert outcomes[action] == {"error": None}, action


class Disk:
    """Lets the nth thing that needs room on the disk fail, and all after it unless it fails ``once``."""

    def __init__(self, number: int, fault: int, *, once: bool) -> None:
        self.remaining = number
        self.fault = fault
        self.once = once
        self.failed = False

    def use(self, path: object) -> None:
        self.remaining -= 1
        if self.remaining == 0 or (self.remaining < 0 and not self.once):
            self.failed = True
            raise OSError(self.fault, os.strerror(self.fault), path if isinstance(path, str) else None)


@contextmanager
def failing(disk: Disk) -> Iterator[None]:
    """Every call by which the store takes room on the disk asks ``disk`` first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", disk.use)  # really syncing some thousand times takes a minute
        for name in ("mkdir", "link", "symlink", "rename", "replace", "fchmod", "chmod"):
            patch.setattr(os, name, asking(disk, getattr(os, name)))
        opened, described = io.open, os.open

        def open_file(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            if set(mode) & set("wxa+") and not isinstance(file, int) and Path(file).name not in PROGRAMS_OWN:
                disk.use(str(file))
            return opened(file, mode, *rest, **named)

        def open_descriptor(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            if flags & os.O_CREAT:
                disk.use(str(path))
            return described(path, flags, *rest, **named)

        patch.setattr(io, "open", open_file)
        patch.setattr(os, "open", open_descriptor)
        yield


def asking(disk: Disk, real: Any) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        disk.use(str(arguments[0]))
        return real(*arguments, **named)

    return call


@pytest.mark.parametrize(
    ("fault", "once"), [(errno.ENOSPC, False), (errno.ENOSPC, True), (errno.EROFS, False), (errno.EIO, True)]
)
def test_whichever_call_fails_the_tree_is_as_before_or_has_the_whole_run(
    tmp_path: Path, fault: int, once: bool
) -> None:
    root = tmp_path / "artifacts"
    collection = store.open_collection(root, COLLECTION)
    earlier = publish_one(root).path.name
    errors: list[FailedError | MissingError] = []
    for number in itertools.count(1):
        shutil.rmtree(root / ".blobs", ignore_errors=True)
        disk = Disk(number, fault, once=once)
        try:
            with failing(disk):
                published = publish_one(root, label="second", statuses={"16threads": "pass", "8threads": "pass"})
        except (FailedError, MissingError) as error:
            errors.append(error)
            assert check_whole(collection) == [earlier]
            assert str((collection.folder / "latest").readlink()) == earlier
        else:
            assert check_whole(collection) == ["20261130T101502Z-3f2a91c-second", earlier]
            shutil.rmtree(published.path)
            (collection.folder / "latest").unlink()
            (collection.folder / "latest").symlink_to(earlier)
        assert list(collection.folder.glob(".*.partial")) == []
        if not disk.failed:
            break
    assert len(errors) > 30
    assert all(error.what and error.expected and error.hint for error in errors)
    if fault == errno.ENOSPC:
        assert {error.what.split("'")[0] for error in errors} == {"no space left for "}


def test_a_kept_run_survives_a_full_disk(tmp_path: Path) -> None:
    root = tmp_path / "artifacts"
    collection = store.open_collection(root, COLLECTION)

    def keep_then_fill(staging: store.Staging) -> None:
        staging.keep_for_resume()
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(FailedError, match="no space left"):
        publish_one(root, before=keep_then_fill)
    assert store.resumable_runs(collection) == (store.new_run_id(STARTED_AT, revision="3f2a91c"),)
