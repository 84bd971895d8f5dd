"""Finding the files behind a mapping: the very file that was recorded, and the debug file that belongs to it.

A build-id decides. A file at the recorded path whose build-id differs was rebuilt since; it is named and never used.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ipuenv.engine.elf import Elf, ElfProblemError, read_build_id, read_elf

DEBUG_FOLDERS = (Path("/usr/lib/debug"),)
"""Where distributions put separate debug files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DsoFiles:
    """Files of one DSO. ``symbol_file`` is the best one for names and inlined frames; ``reason`` says why one is missing."""

    elf: Elf | None = None
    symbols: Elf | None = None
    symbol_file: Path | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DsoFinder:
    """Knows where to look. ``stored`` holds files kept with the recording, by build-id; they win over the path."""

    stored: Mapping[str, Path] = field(default_factory=dict)
    stored_by_path: Mapping[str, Path] = field(default_factory=dict)
    debug_folders: tuple[Path, ...] = DEBUG_FOLDERS

    def find(self, path: str, build_id: str) -> DsoFiles:
        """The files of a DSO. Never raises for what is missing or damaged: the reason says it."""
        if not path.startswith("/"):
            return DsoFiles(reason="no file stands behind it")
        problem = ""
        for candidate in self._candidates(path, build_id):
            try:
                elf = read_elf(_map(candidate))
            except (OSError, ElfProblemError) as error:
                problem = problem or _why(candidate, error)
                continue
            if build_id and elf.build_id != build_id:
                problem = f"the file there now has build-id {elf.build_id[:12] or 'none'}, recorded was {build_id[:12]}"
                continue
            return self._with_debug(candidate, elf)
        return DsoFiles(reason=problem or "its file is gone")

    def _candidates(self, path: str, build_id: str) -> Iterable[Path]:
        if build_id and build_id in self.stored:
            yield self.stored[build_id]
        if not build_id and path in self.stored_by_path:
            yield self.stored_by_path[path]
        yield Path(path)

    def _with_debug(self, path: Path, elf: Elf) -> DsoFiles:
        if elf.has_debug_info:
            return DsoFiles(elf=elf, symbols=elf, symbol_file=path)
        for candidate in self._debug_candidates(path, elf):
            try:
                debug = read_elf(_map(candidate))
            except (OSError, ElfProblemError):
                continue
            if debug.build_id == elf.build_id:
                return DsoFiles(elf=elf, symbols=debug if debug.symbol_source else elf, symbol_file=candidate)
        has_symbols = elf.symbol_source == ".symtab"
        return DsoFiles(elf=elf, symbols=elf, symbol_file=path, reason="" if has_symbols else "it is stripped")

    def _debug_candidates(self, path: Path, elf: Elf) -> Iterable[Path]:
        """Where a debug file may be: the GDB manual, "Debugging Information in Separate Files"."""
        if elf.build_id:
            for folder in self.debug_folders:
                yield folder / ".build-id" / elf.build_id[:2] / f"{elf.build_id[2:]}.debug"
        if elf.debug_link and "/" not in elf.debug_link:
            yield path.parent / elf.debug_link
            yield path.parent / ".debug" / elf.debug_link
            for folder in self.debug_folders:
                yield folder / str(path.parent).lstrip("/") / elf.debug_link


def stored_files(paths: Iterable[Path]) -> dict[str, Path]:
    """Files kept with a recording, by their build-id; those without one are left out."""
    found: dict[str, Path] = {}
    for path in paths:
        try:
            build_id = read_build_id(_map(path))
        except (OSError, ElfProblemError):
            continue
        if build_id:
            found[build_id] = path
    return found


def _map(path: Path) -> mmap.mmap:
    if path.exists() and not path.is_file():  # opening what a recording names must not wait for a pipe
        raise ElfProblemError("it is no regular file")
    with path.open("rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise ElfProblemError("it is empty") from error


def _why(path: Path, error: OSError | ElfProblemError) -> str:
    if isinstance(error, FileNotFoundError):
        return "its file is gone"
    return f"'{path.name}' cannot be read: {error.strerror if isinstance(error, OSError) else error}"
