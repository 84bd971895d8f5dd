"""Symbol caches on disk: what took seconds to make from DWARF is opened in milliseconds the next time.

A cache is keyed by the build-id, which changes with every byte of code, and by the format's version. It is written
beside its place and renamed there, so that two processes which make the same one do no harm.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symbolic.symcache import SymCache


@dataclass(frozen=True, slots=True)
class SymbolCache:
    """A folder of symbol caches; None keeps nothing."""

    folder: Path | None = None

    def open(self, file: Path, build_id: str) -> SymCache | None:
        """Functions and inlined frames of a file, by vaddr; None where it has no debug information."""
        place = self._place(build_id)
        cached = _opened(place) if place is not None else None
        if cached is not None:
            return cached
        made = _made(file)
        if made is not None and place is not None:
            # a full disk or a read-only home costs time, never a result
            with contextlib.suppress(OSError):
                _save(made, place)
        return made

    def _place(self, build_id: str) -> Path | None:
        from symbolic.symcache import SYMCACHE_LATEST_VERSION

        if self.folder is None or not build_id:
            return None
        return self.folder / f"{build_id}.v{SYMCACHE_LATEST_VERSION}.symcache"


def _opened(place: Path) -> SymCache | None:
    from symbolic.exceptions import SymbolicError
    from symbolic.symcache import SymCache

    try:
        return SymCache.open(os.fspath(place)) if place.stat().st_size else None
    except (OSError, SymbolicError):
        return None


def _made(file: Path) -> SymCache | None:
    from symbolic.debuginfo import Archive
    from symbolic.exceptions import SymbolicError

    try:
        with_debug = [found for found in Archive.open(os.fspath(file)).iter_objects() if "debug" in found.features]
        return with_debug[0].make_symcache() if with_debug else None
    except SymbolicError:
        return None


def _save(made: SymCache, place: Path) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            made.dump_into(file)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
