"""Byte-identity: whether an output equals those of earlier runs of the same source, and the baseline's.

Two variants are compared where they agree in the axes that the output depends on; the number of threads and the build
must not change a byte. Earlier runs count only if they must agree: the same sweep, the same executable, or the same
source (revision and uncommitted changes).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipuenv.ground.errors import IpuenvError
from ipuenv.stages import manifest, store

if TYPE_CHECKING:
    from ipuenv.stages.provenance import Revision
    from ipuenv.stages.store import Blob, Collection
    from ipuenv.verbs.planning import Plan

RUNS_COMPARED = 20
"""How many of the newest runs are looked at for outputs of the same source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """What an output's hash was compared with. ``baseline_run`` is the pinned run's id, None where none is pinned."""

    others: manifest.Identity
    baseline: manifest.Identity
    baseline_run: str | None


def compare(
    plan: Plan, collection: Collection, revision: Revision | None, executable: Blob, output: Blob | None
) -> Identities:
    """Compare an output with those stored in the collection."""
    sha256 = output.sha256 if output is not None else None
    pinned = store.read_pin(collection, store.BASELINE)
    pinned_hashes = dict(_hashes(plan, _manifests([pinned]))) if pinned is not None else {}
    recent = itertools.islice(store.list_runs(collection), RUNS_COMPARED)
    same_source = (run for run in _manifests(recent) if _must_agree(run, plan, revision, executable))
    return Identities(
        others=manifest.Identity.judge(sha256, dict(_hashes(plan, same_source))),
        baseline=manifest.Identity.judge(sha256, pinned_hashes),
        baseline_run=pinned.id if pinned is not None else None,
    )


def _manifests(runs: Iterable[store.StoredRun]) -> Iterator[manifest.RunManifest]:
    for run in runs:
        try:
            yield store.read_manifest(run.path)
        except IpuenvError:  # a run that cannot be read has nothing to compare with; listing the runs says so
            continue


def _must_agree(run: manifest.RunManifest, plan: Plan, revision: Revision | None, executable: Blob) -> bool:
    if plan.sweep_id is not None and run.sweep_id == plan.sweep_id:
        return True
    if any(variant.executable and variant.executable.sha256 == executable.sha256 for variant in run.variants):
        return True
    if run.git is None or revision is None:
        return False
    return (run.git.revision, run.git.diff_sha256) == (revision.commit, revision.diff_sha256)


def _hashes(plan: Plan, runs: Iterator[manifest.RunManifest]) -> Iterator[tuple[str, str | None]]:
    """Outputs of variants that must have equal bytes, by ``run/variant``."""
    declared = plan.profile.output
    if declared is None:
        return
    wanted = {axis: dict(plan.variant.values)[axis] for axis in declared.depends_on}
    for run in runs:
        for variant in run.variants:
            if variant.output is not None and all(variant.axes.get(axis) == value for axis, value in wanted.items()):
                yield f"{run.run_id}/{variant.id}", variant.output.sha256
