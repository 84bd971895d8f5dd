"""Nox sessions: one per variant of the profile, tagged ``profile``, run in this process.

A recording is never started by ``session.run``: Nox gives a child 0.3 seconds after Ctrl-C, which is less than perf
needs to write its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import nox

from ipuenv.front import adapter
from ipuenv.ground.console import Console
from ipuenv.ground.errors import InterruptedRunError, IpuenvError
from ipuenv.ground.variants import variants
from ipuenv.verbs import planning, where

if TYPE_CHECKING:
    from ipuenv.ground.variants import Variant

PREFIX = "profile-"
TAG = "profile"

_NO_OPTIONS: Mapping[str, str | None] = {}


def register() -> None:
    """Make the sessions of the profile that ``IPUENV_PROFILE`` names, or the default one.

    A profile that is wrong is reported and gives no session, so that all others still work.
    """
    console = Console()
    try:
        _, profile, _ = planning.load(where.find_where(_NO_OPTIONS, console))
    except IpuenvError as error:
        console.error(error)
        return
    sweep_id = f"nox-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    for variant in variants(profile):
        _make(variant, sweep_id)


def _make(variant: Variant, sweep_id: str) -> None:
    def record(session: nox.Session) -> None:
        from ipuenv.front import recording

        console = Console()

        def body() -> int:
            return recording.flamegraph(
                _NO_OPTIONS, variant=variant.id, label=None, console=console, as_json=False, sweep_id=sweep_id
            )

        code = adapter.run(console, body)
        if code == InterruptedRunError.exit_code:
            raise KeyboardInterrupt  # Nox then ends with 130 and starts no further session
        if code:
            session.error(f"{variant.id} ended with {code}")

    record.__doc__ = f"Record, draw and store the variant {variant.id}."
    session = nox.session(name=f"{PREFIX}{variant.id}", venv_backend="none", default=False, tags=[TAG])
    session(record)
