"""Addresses to locations: the function of an ELF symbol table, and the frames that the compiler inlined there.

The outermost frame always carries the symbol that the file has, so that the view without inlined frames is the view with
them, minus those frames. Inlined frames come from DWARF through Sentry's symbol caches, which answer in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ipuenv.engine.demangle import MANGLED, demangle
from ipuenv.engine.stacks import Frame, FrameKind, Location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symbolic.symcache import SymCache

    from ipuenv.engine.dso import DsoFiles, DsoFinder
    from ipuenv.engine.elf import Symbol
    from ipuenv.engine.kallsyms import KernelSymbols
    from ipuenv.engine.mappings import AddressSpace

KERNEL_DSO = "[kernel.kallsyms]"
KERNEL_BIT = 1 << 63
"""Set in every address of kernel context, clear in every other, so that one number says both."""

_LLVM_SUFFIX = ".llvm."


@dataclass(slots=True)
class Unknown:
    """Addresses of one DSO that got no name, and why."""

    reason: str
    addresses: int = 0


@dataclass(slots=True)
class LocationTable:
    """Interned frames and locations; ids are indexes."""

    frames: list[Frame] = field(default_factory=list)
    locations: list[Location] = field(default_factory=list)
    _frame_ids: dict[Frame, int] = field(default_factory=dict, repr=False)
    _location_ids: dict[Location, int] = field(default_factory=dict, repr=False)

    def frame(self, frame: Frame) -> int:
        """The frame's id."""
        found = self._frame_ids.get(frame)
        if found is None:
            found = self._frame_ids[frame] = len(self.frames)
            self.frames.append(frame)
        return found

    def location(self, frames: Sequence[Frame]) -> int:
        """The id of a location made of frames, outermost first."""
        location = Location(tuple(map(self.frame, frames)))
        found = self._location_ids.get(location)
        if found is None:
            found = self._location_ids[location] = len(self.locations)
            self.locations.append(location)
        return found


class Symbolizer:
    """Names addresses. Files are opened when the first address in them is asked for."""

    def __init__(self, finder: DsoFinder, kernel: KernelSymbols | None, kernel_reason: str = "") -> None:
        self.table = LocationTable()
        self.kernel = kernel
        self.kernel_reason = kernel_reason
        self.unknown_reasons: dict[str, str] = {}
        self.mismatches: dict[str, str] = {}
        self._finder = finder
        self._dsos: dict[tuple[str, str], _Dso] = {}

    def locate(self, address: int, space: AddressSpace | None) -> int:
        """The location id of an address in a process. Kernel addresses carry :data:`KERNEL_BIT`."""
        if address & KERNEL_BIT:
            return self._kernel_location(address)
        mapping = space.at(address) if space is not None else None
        if mapping is None:
            self.unknown_reasons.setdefault("[unknown]", "outside every mapping: the frame pointer chain broke")
            return self.table.location([Frame("[unknown]", FrameKind.UNKNOWN, "", "[unknown]")])
        return self.table.location(self.frames_at(mapping.path, mapping.build_id, mapping.file_offset(address)))

    def frames_at(self, path: str, build_id: str, file_offset: int) -> list[Frame]:
        """Frames at a byte of a file, outermost first; ``[dso]`` where nothing is known."""
        dso = self._dso(path, build_id)
        frames = dso.frames(file_offset)
        if not frames:
            self.unknown_reasons.setdefault(path, dso.files.reason or "no symbol covers the address")
            return [Frame(f"[{PurePosixPath(path).name or path}]", FrameKind.UNKNOWN, "", path)]
        return frames

    def _dso(self, path: str, build_id: str) -> _Dso:
        key = (path, build_id)
        dso = self._dsos.get(key)
        if dso is None:
            files = self._finder.find(path, build_id)
            dso = self._dsos[key] = _Dso(path, files)
            if files.elf is None and path.startswith("/"):
                self.mismatches[path] = files.reason
        return dso

    def _kernel_location(self, address: int) -> int:
        symbol = self.kernel.table.at(address) if self.kernel is not None else None
        if symbol is None or self.kernel is None:
            self.unknown_reasons.setdefault("[kernel]", self.kernel_reason or "no symbol covers the address")
            return self.table.location([Frame("[kernel]", FrameKind.KERNEL, "", KERNEL_DSO)])
        dso = self.kernel.module_of(symbol)
        return self.table.location([Frame(symbol.name, FrameKind.KERNEL, symbol.name, dso)])


class _Dso:
    """One file's symbols and inlined frames."""

    def __init__(self, path: str, files: DsoFiles) -> None:
        self.path = path
        self.files = files
        self._cache: SymCache | None = None
        self._cache_tried = False
        self.frames_of_vaddr = lru_cache(maxsize=None)(self._frames_of_vaddr)

    def frames(self, file_offset: int) -> list[Frame]:
        """Frames at a byte of the file, outermost first; empty if no symbol covers it."""
        vaddr = self.files.elf.vaddr(file_offset) if self.files.elf is not None else None
        return self.frames_of_vaddr(vaddr) if vaddr is not None else []

    def _frames_of_vaddr(self, vaddr: int) -> list[Frame]:
        symbols = self.files.symbols
        symbol = symbols.symbols.at(vaddr) if symbols is not None else None
        chain = self._chain(vaddr)
        if symbol is None and not chain:
            return []
        outermost = _outermost(symbol, chain[0] if chain else "")
        inlined = chain[1:]
        return [
            Frame(_name(outermost), FrameKind.NATIVE, outermost, self.path),
            *(Frame(_name(name), FrameKind.INLINED, name, self.path) for name in inlined),
        ]

    def _chain(self, vaddr: int) -> list[str]:
        """Functions at an address by DWARF, outermost first."""
        cache = self._symcache()
        if cache is None:
            return []
        return [found.symbol for found in reversed(cache.lookup(vaddr))]

    def _symcache(self) -> SymCache | None:
        if self._cache_tried:
            return self._cache
        self._cache_tried = True
        path = self.files.symbol_file
        if path is not None:
            self._cache = _make_symcache(path)
        return self._cache


def _make_symcache(path: Path) -> SymCache | None:
    from symbolic.debuginfo import Archive
    from symbolic.exceptions import SymbolicError

    try:
        with_debug = [found for found in Archive.open(str(path)).iter_objects() if "debug" in found.features]
        return with_debug[0].make_symcache() if with_debug else None
    except SymbolicError:
        return None


def _outermost(symbol: Symbol | None, by_dwarf: str) -> str:
    """The symbol's name as perf chooses it; where mangled names share its start, the one that DWARF describes.

    Unmangled aliases stay with perf's choice: people know ``malloc``, not ``__GI___libc_malloc``.
    """
    if symbol is None:
        return by_dwarf
    if by_dwarf.startswith(MANGLED) and by_dwarf != symbol.name:
        for alias in symbol.aliases:
            if alias == by_dwarf or alias.split(_LLVM_SUFFIX)[0] == by_dwarf:
                return alias
    return symbol.name


def _name(symbol: str) -> str:
    """What people read: demangled, without the version that libc appends to its names."""
    return demangle(symbol.split("@GLIBC", 1)[0].rstrip("@") if "@GLIBC" in symbol else symbol)
