"""The way of one run, as a list of stages. Each takes what the one before it made; a stage says what it does."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ipuenv.stages import environment, provenance, store
from ipuenv.verbs import facts, history, identity, variant_stages
from ipuenv.verbs.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ipuenv.ground.console import Console
    from ipuenv.stages.manifest import RunManifest
    from ipuenv.stages.store import Published, Recent
    from ipuenv.verbs.planning import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The writers of the generated pages, which the front hands down."""

    run: Callable[[RunManifest], str]
    collection: Callable[[Sequence[Recent], int], str]


def flamegraph(plan: Plan, console: Console, pages: Pages) -> Published:
    """Record one variant, draw it, store it.

    Raises:
        IpuenvError: a stage failed; nothing was published.
    """
    started_at = datetime.now(UTC)
    collection = store.open_collection(plan.roots.artifacts, plan.profile.artifacts)
    store.sweep_leftovers(collection)
    steps = Steps(console, history.expected_durations(collection, plan))

    variant_stages.check_perf(plan)
    sdk = variant_stages.capture_sdk(plan, steps)
    built = variant_stages.build_program(plan, sdk, steps)
    revision = provenance.revision(plan.roots.workspace, os.environ)
    executable = variant_stages.store_executable(plan, built, steps)
    with store.open_staging(
        collection,
        started_at=started_at,
        revision=revision.commit if revision is not None else None,
        dirty=revision is not None and revision.is_dirty,
        label=plan.label,
    ) as staging:
        ran = variant_stages.record_program(plan, sdk, executable, staging, steps)
        read = variant_stages.read_recording(plan, ran, executable, steps)
        pictures = variant_stages.draw_pictures(plan, read, ran.folder, steps)
        variant_stages.keep_stacks(plan, read, staging, started_at, steps)
        output = variant_stages.keep_files(plan, executable, ran)
        evidence = facts.Evidence(
            plan=plan,
            started_at=started_at,
            revision=revision,
            sdk=sdk,
            sdk_version=environment.popc_version(sdk, base=os.environ) if sdk is not None else "",
            built=built,
            executable=executable,
            ran=ran,
            output=output,
            identities=identity.compare(plan, collection, revision, executable, output),
            read=read,
            pictures=pictures,
            durations_s=steps.durations_s,
        )
        with steps.step("publish", "publishing") as step:
            published = store.publish(staging, facts.run_manifest(evidence, staging), page=pages.run)
            step.note = published.path.name
    store.update_collection_page(collection, pages.collection)
    return published
