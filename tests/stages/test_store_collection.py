"""What a collection shows of its runs: lists, ``latest``, pins, its page."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from ipuenv.stages import store
from tests.stages.store_worker import COLLECTION, STARTED_AT, publish_one

LATER = STARTED_AT + timedelta(hours=1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def collection(root: Path) -> store.Collection:
    return store.open_collection(root, COLLECTION)


# -- latest -----------------------------------------------------------------------------------------------------------


def latest(collection: store.Collection) -> str:
    return str((collection.folder / "latest").readlink())


def test_latest_is_the_newest_complete_run_with_a_passing_variant(root: Path, collection: store.Collection) -> None:
    assert store.latest_run(collection) is None
    publish_one(root, statuses={"16threads": "failed"})
    assert not (collection.folder / "latest").exists()
    first = publish_one(root, started_at=STARTED_AT + timedelta(minutes=1), statuses={"a": "failed", "b": "pass"})
    assert latest(collection) == first.path.name
    second = publish_one(root, started_at=STARTED_AT + timedelta(minutes=2))
    assert latest(collection) == second.path.name
    publish_one(root, started_at=STARTED_AT + timedelta(minutes=3), statuses={"a": "pass", "b": "interrupted"})
    publish_one(root, started_at=STARTED_AT + timedelta(seconds=30), label="began-earlier")
    assert latest(collection) == second.path.name
    found = [store.latest_run(collection, back) for back in range(4)]
    assert [run.id if run else None for run in found] == [
        second.path.name,
        first.path.name,
        "20261130T101532Z-3f2a91c-began-earlier",
        None,
    ]


def test_latest_survives_the_removal_of_its_run(root: Path, collection: store.Collection) -> None:
    first = publish_one(root)
    second = publish_one(root, started_at=LATER)
    subprocess.run(["rm", "-r", second.path], check=True)
    found = store.latest_run(collection)
    assert found is not None
    assert found.path == first.path
    third = publish_one(root, started_at=STARTED_AT - timedelta(days=1))
    assert latest(collection) == first.path.name != third.path.name


def test_a_run_is_published_even_if_latest_cannot_move(root: Path, collection: store.Collection) -> None:
    publish_one(root)
    (collection.folder / "latest").unlink()
    (collection.folder / "latest").mkdir()
    published = publish_one(root, started_at=LATER)
    assert published.notes == (f"'{published.path.name}' is published, but 'latest' was not moved: Is a directory",)
    assert store.verify_run(published.path) == ()


@pytest.mark.parametrize("target", ["/etc", "..", ".", "../flamegraph", "20261130T101502Z-aaaaaaa", ".lock"])
def test_a_pin_leads_to_a_run_beside_it_or_nowhere(root: Path, collection: store.Collection, target: str) -> None:
    published = publish_one(root)
    (collection.folder / "baseline").symlink_to(target)
    assert store.read_pin(collection, "baseline") is None
    (collection.folder / "baseline").unlink()
    (collection.folder / "baseline").symlink_to(published.path.name)
    pinned = store.read_pin(collection, "baseline")
    assert pinned is not None
    assert pinned.path == published.path
    assert set(store.list_pins(collection)) == {"baseline", "latest"}


# -- lists and the collection's page ----------------------------------------------------------------------------------


def test_ten_thousand_runs_are_listed_without_reading_one(
    collection: store.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.folder.mkdir(parents=True)
    for number in range(10_000):
        moment = STARTED_AT + timedelta(seconds=number * 7919 % 10_007)
        (collection.folder / store.new_run_id(moment, revision="3f2a91c")).mkdir()
    (collection.folder / "20261130T101502Z-aaaaaaa").symlink_to("/etc")
    (collection.folder / "20261130T101502Z-bbbbbbb").touch()
    (collection.folder / "somebody's folder").mkdir()
    monkeypatch.setattr(Path, "open", None)
    monkeypatch.setattr(Path, "stat", None)
    ids = [run.id for run in store.list_runs(collection)]
    assert len(ids) == 10_000
    assert ids == sorted(ids, reverse=True)


def test_collections_are_found_whatever_they_are_called(root: Path) -> None:
    assert store.list_collections(root) == []
    for name in ("b", "a/deep one/er", "a/other"):
        (root / name / "20261130T101502Z-nogit").mkdir(parents=True)
    (root / ".blobs" / "x" / "20261130T101502Z-nogit").mkdir(parents=True)
    (root / "empty").mkdir()
    assert [found.name for found in store.list_collections(root)] == ["a/deep one/er", "a/other", "b"]


def test_the_collections_page_shows_the_newest_runs_and_what_cannot_be_read(
    root: Path, collection: store.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = [publish_one(root, started_at=STARTED_AT + timedelta(minutes=n)) for n in range(4)]
    broken = published[2].path / "manifest.json"
    broken.chmod(0o644)
    broken.write_text('{"schema": 99}')
    monkeypatch.setattr("ipuenv.stages.store.publishing.RECENT_RUNS", 3)

    def page(recent: object, total: int) -> str:
        assert isinstance(recent, list)
        assert [entry.run.id for entry in recent] == [run.path.name for run in published[:0:-1]]
        assert [entry.manifest is None for entry in recent] == [False, True, False]
        assert "newer ipuenv (schema 99)" in recent[1].problem
        return f"{total} runs"

    path = store.update_collection_page(collection, page)
    assert path.read_text() == "4 runs"
    assert [found.name for found in collection.folder.glob(".*")] == [".lock"]
