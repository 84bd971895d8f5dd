"""``render``: draws again, and says which files it wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ipuenv.engine.cuts import parse_span
from ipuenv.ground.errors import IpuenvError
from ipuenv.verbs import planning, rendering, where

if TYPE_CHECKING:
    from ipuenv.ground.console import Console


def render(
    options: Mapping[str, str | None],
    source: str,
    *,
    views: Sequence[str],
    form: str,
    folder: str,
    threads: Sequence[str],
    time: str | None,
    console: Console,
    as_json: bool,
) -> int:
    """Draw views of a source; the exit code."""
    span = parse_span(time) if time is not None else None
    found = where.find_where(options, console)
    written = rendering.render(
        source,
        root=found.artifacts,
        collection=_collection(found, options),
        wanted=views,
        form=form,
        folder=Path(folder),
        console=console,
        threads=threads,
        span=span,
    )
    if as_json:
        console.json([os.fspath(path.absolute()) for path in written])
    else:
        for path in written:
            console.answer(os.fspath(path))
    return 0


def _collection(found: where.Where, options: Mapping[str, str | None]) -> str | None:
    """The collection of the profile in force. A profile that is broken must not keep anyone from drawing a file."""
    try:
        return planning.load(found)[1].artifacts
    except IpuenvError:
        if options.get("profile") is not None:
            raise
        return None
