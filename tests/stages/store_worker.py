"""What the tests of the store run in other processes, to be raced, killed, or given a disk of its own.

python -m tests.stages.store_worker once ROOT START       publish one run as soon as the file START exists; print its id
python -m tests.stages.store_worker loop ROOT             publish runs until killed; print each id
python -m tests.stages.store_worker full-disk FOLDER      publish onto disks of several sizes; print an outcome for each
python -m tests.stages.store_worker read-only FOLDER      try everything on a disk that cannot be written; print the outcomes
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from ipuenv.ground.errors import IpuenvError
from ipuenv.stages import manifest, store

STORED = Path(__file__).parent / "manifest-1.json"
COLLECTION = "compiler-perf/flamegraph"
STARTED_AT = datetime(2026, 11, 30, 10, 15, 2, tzinfo=UTC)
PACKAGE = b"package\n" * 5000
SMALLEST_KIB, LARGEST_KIB, STEP_KIB = 8, 160, 4


def facts(run_id: str, statuses: dict[str, str] | None = None, **changes: object) -> manifest.RunManifest:
    """A manifest for that run with these variants."""
    stored = manifest.load(STORED.read_bytes())
    variants = tuple(
        stored.variants[0].model_copy(update={"run_id": run_id, "id": variant_id, "status": status})
        for variant_id, status in (statuses or {"16threads": "pass"}).items()
    )
    planned = tuple(variant.id for variant in variants)
    return stored.model_copy(
        update={"run_id": run_id, "label": None, "variants": variants, "planned": planned, **changes}
    )


def publish_one(
    root: Path,
    *,
    label: str | None = None,
    started_at: datetime = STARTED_AT,
    statuses: dict[str, str] | None = None,
    before: Callable[[store.Staging], None] = lambda _: None,
) -> store.Published:
    """A whole run: an executable and a package stored and linked, a log, perf.data, then published."""
    collection = store.open_collection(root, COLLECTION)
    with store.open_staging(collection, started_at=started_at, revision="3f2a91c4e5", label=label) as staging:
        for variant_id in statuses or ["16threads"]:
            folder = staging.variant_folder(variant_id)
            executable = store.store_blob(root, STORED, "program", executable=True)
            store.link_blob(root, executable, folder / "program")
            (folder / "model.ipuexe").write_bytes(PACKAGE)
            package = store.store_blob(root, folder / "model.ipuexe", "model.ipuexe")
            (folder / "model.ipuexe").unlink()
            store.link_blob(root, package, folder / "model.ipuexe")
            (folder / "run.log").write_text(f"{staging.run_id}\n")
            (folder / "perf.data").write_bytes(staging.run_id.encode() * 1000)
        before(staging)
        run = facts(staging.run_id, statuses, label=label)
        return store.publish(staging, run, page=lambda complete: f"# {complete.run_id}\n")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def once(root: Path, start: Path) -> None:
    say("ready")
    while not start.exists():
        time.sleep(0.001)
    published = publish_one(root, label="race")
    store.update_collection_page(
        store.open_collection(root, COLLECTION), lambda recent, total: f"{total} {len(recent)} {recent[0].run.id}\n"
    )
    say(published.path.name)


def loop(root: Path) -> None:
    say("ready")
    while True:
        say(publish_one(root, started_at=datetime.now(UTC)).path.name)


def full_disk(folder: Path) -> None:
    for size_kib in range(SMALLEST_KIB, LARGEST_KIB, STEP_KIB):
        disk = folder / f"disk{size_kib}"
        mount(disk, f"size={size_kib}k")
        outcome = tried(functools.partial(publish_one, disk))
        collection = store.open_collection(disk, COLLECTION)
        runs = store.list_runs(collection)
        outcome |= {
            "size_kib": size_kib,
            "runs": len(runs),
            "problems": [problem for run in runs for problem in store.verify_run(run.path)],
            "leftovers": sorted(path.name for path in collection.folder.glob(".*.partial*")),
        }
        say(json.dumps(outcome))


def read_only(folder: Path) -> None:
    disk = folder / "disk"
    mount(disk, "size=4m")
    published = publish_one(disk)
    fresh = folder / "fresh"
    mount(fresh, "size=4m,ro")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    collection = store.open_collection(disk, COLLECTION)
    outcomes = {
        "stage": tried(lambda: publish_one(disk)),
        "stage where nothing is yet": tried(lambda: publish_one(fresh)),
        "store": tried(lambda: store.store_blob(disk, Path(__file__), "other")),
        "sweep": tried(lambda: store.sweep_leftovers(collection)),
        "page": tried(lambda: store.update_collection_page(collection, lambda _, total: f"{total}")),
        "known blob": tried(lambda: store.store_blob(disk, STORED, "program", executable=True)),
        "verify": tried(lambda: store.verify_run(published.path)),
        "resolve": tried(lambda: store.resolve("latest/16threads/perf.data", root=disk, folder=folder)),
    }
    say(json.dumps(outcomes))


def mount(folder: Path, options: str) -> None:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)


def tried(action: Callable[[], object]) -> dict[str, object]:
    try:
        action()
    except IpuenvError as error:
        return {"error": type(error).__name__, "what": error.what, "expected": error.expected, "hint": error.hint}
    return {"error": None}


def main(name: str, *arguments: str) -> None:
    actions: dict[str, Callable[..., None]] = {
        "once": once,
        "loop": loop,
        "full-disk": full_disk,
        "read-only": read_only,
    }
    actions[name](*map(Path, arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
