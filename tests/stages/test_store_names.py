"""What a name stands for, and that no name leads out of the tree."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ipuenv.ground.errors import UsageError
from ipuenv.stages import store
from tests.stages.store_worker import COLLECTION, STARTED_AT, publish_one


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifacts root with one collection of five runs, the newest failed, one a tie, one of label ``batch-4``."""
    root = tmp_path_factory.mktemp("tree") / "artifacts"
    minute = timedelta(minutes=1)
    publish_one(root, started_at=STARTED_AT, label="before")
    publish_one(root, started_at=STARTED_AT + minute, label="batch-4")
    publish_one(root, started_at=STARTED_AT + 2 * minute, label="batch")
    publish_one(root, started_at=STARTED_AT + 2 * minute, label="batch")
    publish_one(root, started_at=STARTED_AT + 3 * minute, label="broken", statuses={"16threads": "failed"})
    (root / COLLECTION / "baseline").symlink_to("20261130T101502Z-3f2a91c-before")
    return root


BEFORE = "20261130T101502Z-3f2a91c-before"
BATCH_4 = "20261130T101602Z-3f2a91c-batch-4"
BATCH = "20261130T101702Z-3f2a91c-batch"
BROKEN = "20261130T101802Z-3f2a91c-broken"


def resolve(tree: Path, name: str, collection: str | None = COLLECTION) -> store.Named:
    return store.resolve(name, root=tree, collection=collection, folder=tree.parent)


@pytest.mark.parametrize(
    ("name", "run"),
    [
        (BEFORE, BEFORE),
        (BATCH, BATCH),
        (f"{BATCH}-2", f"{BATCH}-2"),
        ("20261130T101502Z", BEFORE),
        ("20261130T1018", BROKEN),
        ("before", BEFORE),
        ("batch-4", BATCH_4),
        ("baseline", BEFORE),
        ("latest", f"{BATCH}-2"),
        ("latest~0", f"{BATCH}-2"),
        ("latest~1", BATCH),
        ("latest~2", BATCH_4),
        ("latest~3", BEFORE),
        (f"{COLLECTION}:latest", f"{BATCH}-2"),
    ],
)
def test_a_run_has_many_names(tree: Path, name: str, run: str) -> None:
    path = tree / COLLECTION / run
    assert resolve(tree, name) == store.Named(path=path, run=path)


@pytest.mark.parametrize(
    ("below", "variant", "file"),
    [
        ("16threads", "16threads", None),
        ("16threads/perf.data", "16threads", "perf.data"),
        ("README.md", None, "README.md"),
    ],
)
def test_a_variant_and_a_file_are_named_below_the_run(
    tree: Path, below: str, variant: str | None, file: str | None
) -> None:
    run = tree / COLLECTION / BEFORE
    assert resolve(tree, f"baseline/{below}") == store.Named(path=run / below, run=run, variant=variant, file=file)


def test_an_existing_path_wins(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").write_text("mine")
    assert store.resolve("latest", root=tree, folder=tmp_path) == store.Named(path=tmp_path / "latest")
    run = tree / COLLECTION / BEFORE
    for name in (str(run / "16threads/perf.data"), os.path.relpath(run / "16threads/perf.data", tmp_path)):
        named = store.resolve(name, root=tree, folder=tmp_path)
        assert (named.run, named.variant, named.file) == (run, "16threads", "perf.data")
    assert store.resolve("16threads", root=tree, folder=run).variant == "16threads"
    linked = store.resolve("baseline", root=tree, folder=run.parent)
    assert linked == store.Named(path=run, run=run)


def test_without_a_collection_the_only_one_is_meant(tree: Path, tmp_path: Path) -> None:
    assert resolve(tree, "before", None).run == tree / COLLECTION / BEFORE
    for name in ("one", "two"):
        (tmp_path / name / BEFORE).mkdir(parents=True)
    with pytest.raises(UsageError, match="there are 2 collections") as caught:
        resolve(tmp_path, "before", None)
    assert caught.value.expected == "one of one, two"
    assert resolve(tmp_path, "two:before", None).run == tmp_path / "two" / BEFORE


@pytest.mark.parametrize(
    ("name", "what", "expected"),
    [
        ("", "names no run", r"\[COLLECTION:\]RUN"),
        ("2026", "may be any of 5 runs", f"one of {BROKEN}, {BATCH}-2, {BATCH}, {BATCH_4}, {BEFORE}"),
        ("batch", "may be any of 2 runs", f"one of {BATCH}-2, {BATCH}$"),
        ("befor", "no run of 'compiler-perf/flamegraph' is 'befor'", "Did you mean 'before'"),
        ("batch-2", "no run of", "Did you mean"),
        ("lastest", "no run of", "Did you mean 'latest'"),
        ("latest~4", "has no 'latest~4'", "one of"),
        ("latest~-1", "no run of", ""),
        ("latest~99999999999", "no run of", ""),
        ("latest/17threads", f"'{BATCH}-2' holds no '17threads'", "Did you mean '16threads'"),
        ("latest/16threads/perf.dat", f"'{BATCH}-2/16threads' holds no 'perf.dat'", "Did you mean 'perf.data'"),
        ("latest/README.md/x", "holds no 'x'", "a folder"),
        ("latest/", "names no run", "RUN"),
        ("latest//16threads", "names no run", "RUN"),
        ("latest/..", "names no run", "RUN"),
        ("latest/16threads/../../..", "names no run", "RUN"),
        ("../../../../etc:passwd", "cannot be a collection", "below the artifacts"),
        ("compiler-perf/flamegrap:latest", "no collection", "Did you mean 'compiler-perf/flamegraph'"),
        ("a\0b", "no run of", ""),
        ("x" * 5000, "no run of", ""),
        (".lock", "no run of", ""),
    ],
)
def test_a_wrong_name_gets_the_nearest(tree: Path, tmp_path: Path, name: str, what: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        store.resolve(name, root=tree, collection=COLLECTION, folder=tmp_path)
    assert what in caught.value.what
    assert re.search(expected, caught.value.expected)
    assert caught.value.exit_code == 2


def test_an_empty_tree_says_how_to_begin(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no run below") as caught:
        resolve(tmp_path, "latest", None)
    assert caught.value.hint == "make one: ipuenv flamegraph"
    (tmp_path / COLLECTION).mkdir(parents=True)
    with pytest.raises(UsageError, match="holds no run yet") as caught:
        resolve(tmp_path, "latest")
    assert caught.value.hint == "make one: ipuenv flamegraph"
    (tmp_path / COLLECTION / BEFORE).mkdir()
    with pytest.raises(UsageError, match="no baseline is set") as caught:
        resolve(tmp_path, "baseline")
    assert caught.value.hint == f"set it: ln -sfn {BEFORE} '{tmp_path / COLLECTION}/baseline'"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../secret", "../../..", ".."])
def test_a_link_inside_a_run_leads_nowhere_outside(tmp_path: Path, target: str) -> None:
    root = tmp_path / "artifacts"
    published = publish_one(root)
    (tmp_path / "secret").touch()
    (published.path / "away").symlink_to(target)
    (published.path / "inside").symlink_to("16threads/perf.data")
    assert resolve(root, "latest/inside").file == "inside"
    for name in ("latest/away", "latest/away/secret", "latest/away/16threads"):
        with pytest.raises(UsageError, match="holds no 'away'"):
            resolve(root, name)


@pytest.mark.parametrize("name", [".", "..", "../flamegraph", "", ".lock", "/etc", "README.md"])
def test_only_ids_labels_and_pins_name_a_run(tree: Path, name: str) -> None:
    with pytest.raises(UsageError):
        store.find_run(store.open_collection(tree, COLLECTION), name)


names = st.lists(
    st.sampled_from(
        [
            ":",
            "/",
            ".",
            "..",
            "~",
            "-",
            "latest",
            "baseline",
            "before",
            "batch",
            "2026",
            BEFORE,
            COLLECTION,
            "16threads",
            "\0",
            "\n",
        ]
    )
    | st.text(max_size=3),
    max_size=8,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(name=names)
@example(name="latest/16threads/../../../../..")
@example(name=f"{COLLECTION}/../..:latest")
def test_no_name_leads_out_of_the_tree(tree: Path, name: str) -> None:
    nowhere = tree.parent / "an empty folder"
    nowhere.mkdir(exist_ok=True)
    try:
        named = store.resolve(name, root=tree, collection=COLLECTION, folder=nowhere)
    except UsageError:
        return
    if os.path.exists(nowhere / name):  # noqa: PTH110
        return
    assert named.run is not None
    assert named.run.parent == tree / COLLECTION
    assert store.is_run_id(named.run.name)
    assert named.path.resolve().is_relative_to(named.run)
    assert named.path.exists()
