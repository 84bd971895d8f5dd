"""What earlier runs say of how long things take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ipuenv.ground.errors import IpuenvError
from ipuenv.stages import store

if TYPE_CHECKING:
    from ipuenv.stages.store import Collection
    from ipuenv.verbs.planning import Plan

RUNS_SEARCHED = 10
"""How many of the newest runs are searched for one of the same variant."""


def expected_durations(collection: Collection, plan: Plan) -> Mapping[str, float]:
    """Seconds that each step took in the newest run of the same variant; empty where there is none."""
    for run in store.list_runs(collection)[:RUNS_SEARCHED]:
        try:
            manifest = store.read_manifest(run.path)
        except IpuenvError:
            continue
        if any(variant.id == plan.variant.id for variant in manifest.variants):
            return manifest.stage_durations_s
    return {}
