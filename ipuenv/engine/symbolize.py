"""Addresses to locations: the function of an ELF symbol table, and the frames that the compiler inlined there.

The outermost frame always carries the symbol that the file has, so that the view without inlined frames is the view with
them, minus those frames. Inlined frames come from DWARF through Sentry's symbol caches, which answer in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from ipuenv.engine.demangle import MANGLED, demangle
from ipuenv.engine.kallsyms import KERNEL_DSO
from ipuenv.engine.stacks import Frame, FrameKind, Location
from ipuenv.engine.symbolcache import SymbolCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symbolic.symcache import SourceLocation, SymCache

    from ipuenv.engine.dso import DsoFiles, DsoFinder
    from ipuenv.engine.elf import Symbol
    from ipuenv.engine.kallsyms import KernelSymbols
    from ipuenv.engine.mappings import AddressSpace

KERNEL_UNKNOWN = "[kernel]"
"""What a kernel address is called that has no name."""

UNMAPPED = "[unknown]"
"""Name and DSO of an address outside every mapping."""

KERNEL_BIT = 1 << 63
"""Set in every address of kernel context, clear in every other, so that one number says both."""

_LLVM_SUFFIX = ".llvm."


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

    def location(self, frames: Sequence[Frame], lines: tuple[int, ...] = (), build_id: str = "") -> int:
        """The id of a location made of frames, outermost first, with their lines if they are known."""
        location = Location(tuple(map(self.frame, frames)), lines, build_id)
        found = self._location_ids.get(location)
        if found is None:
            found = self._location_ids[location] = len(self.locations)
            self.locations.append(location)
        return found


class Place(NamedTuple):
    """What is known of a byte of a file: frames, outermost first, and the line of each in its source file."""

    frames: tuple[Frame, ...] = ()
    lines: tuple[int, ...] = ()


class Symbolizer:
    """Names addresses. Files are opened when the first address in them is asked for."""

    def __init__(
        self,
        finder: DsoFinder,
        kernel: KernelSymbols | None,
        kernel_reason: str = "",
        kernel_build_id: str = "",
        cache: SymbolCache | None = None,
    ) -> None:
        self.table = LocationTable()
        self.kernel = kernel
        self.kernel_reason = kernel_reason
        self.kernel_build_id = kernel_build_id
        self.unknown_reasons: dict[str, str] = {}
        self.mismatches: dict[str, str] = {}
        self._finder = finder
        self._cache = cache or SymbolCache()
        self._dsos: dict[tuple[str, str], _Dso] = {}

    def locate(self, address: int, space: AddressSpace | None) -> int:
        """The location id of an address in a process. Kernel addresses carry :data:`KERNEL_BIT`."""
        if address & KERNEL_BIT:
            return self._kernel_location(address)
        mapping = space.at(address) if space is not None else None
        if mapping is None:
            self.unknown_reasons.setdefault(UNMAPPED, "outside every mapping: the frame pointer chain broke")
            return self.table.location([Frame(UNMAPPED, FrameKind.UNKNOWN, "", UNMAPPED)])
        place = self.place_at(mapping.path, mapping.build_id, mapping.file_offset(address))
        return self.table.location(place.frames, place.lines, self._dso(mapping.path, mapping.build_id).build_id)

    def place_at(self, path: str, build_id: str, file_offset: int) -> Place:
        """Frames and lines at a byte of a file; ``[dso]`` where nothing is known."""
        dso = self._dso(path, build_id)
        place = dso.place(file_offset)
        if not place.frames:
            self.unknown_reasons.setdefault(path, dso.files.reason or "no symbol covers the address")
            return Place((Frame(unknown_name(path), FrameKind.UNKNOWN, "", path),))
        return place

    def frames_at(self, path: str, build_id: str, file_offset: int) -> list[Frame]:
        """Frames at a byte of a file, outermost first; ``[dso]`` where nothing is known."""
        return list(self.place_at(path, build_id, file_offset).frames)

    def _dso(self, path: str, build_id: str) -> _Dso:
        key = (path, build_id)
        dso = self._dsos.get(key)
        if dso is None:
            files = self._finder.find(path, build_id)
            dso = self._dsos[key] = _Dso(path, build_id, files, self._cache)
            if files.elf is None and path.startswith("/"):
                self.mismatches[path] = files.reason
        return dso

    def _kernel_location(self, address: int) -> int:
        symbol = self.kernel.at(address) if self.kernel is not None else None
        if symbol is None or self.kernel is None:
            self.unknown_reasons.setdefault(KERNEL_UNKNOWN, self.kernel_reason or "no symbol covers the address")
            frame = Frame(KERNEL_UNKNOWN, FrameKind.KERNEL, "", KERNEL_DSO)
            return self.table.location([frame], build_id=self.kernel_build_id)
        dso = self.kernel.module_at(address)
        build_id = self.kernel_build_id if dso == KERNEL_DSO else ""
        return self.table.location([Frame(symbol.name, FrameKind.KERNEL, symbol.name, dso)], build_id=build_id)


class _Dso:
    """One file's symbols and inlined frames."""

    def __init__(self, path: str, build_id: str, files: DsoFiles, cache: SymbolCache) -> None:
        self.path = path
        self.build_id = build_id or (files.elf.build_id if files.elf is not None else "")
        self.files = files
        self._cache = cache
        self._symbols: SymCache | None = None
        self._symbols_tried = False
        self.place_of_vaddr = lru_cache(maxsize=None)(self._place_of_vaddr)

    def place(self, file_offset: int) -> Place:
        """Frames and lines at a byte of the file; none if no symbol covers it."""
        vaddr = self.files.elf.vaddr(file_offset) if self.files.elf is not None else None
        return self.place_of_vaddr(vaddr) if vaddr is not None else Place()

    def _place_of_vaddr(self, vaddr: int) -> Place:
        symbols = self.files.symbols
        symbol = symbols.symbols.at(vaddr) if symbols is not None else None
        chain = self._chain(vaddr)
        if symbol is None and not chain:
            return Place()
        outermost = _outermost(symbol, chain[0].symbol if chain else "")
        file = chain[0].full_path or "" if chain else ""
        frames = [Frame(_name(outermost), FrameKind.NATIVE, outermost, self.path, file)]
        for found in chain[1:]:
            name = found.symbol
            frames.append(Frame(_name(name), FrameKind.INLINED, name, self.path, found.full_path or ""))
        return Place(tuple(frames), tuple(found.line for found in chain))

    def _chain(self, vaddr: int) -> list[SourceLocation]:
        """Functions at an address by DWARF, outermost first, each with the line that is at work in it."""
        cache = self._symcache()
        return cache.lookup(vaddr)[::-1] if cache is not None else []

    def _symcache(self) -> SymCache | None:
        if not self._symbols_tried:
            self._symbols_tried = True
            file, symbols = self.files.symbol_file, self.files.symbols
            if file is not None and symbols is not None:
                self._symbols = self._cache.open(file, symbols.build_id)
        return self._symbols


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


def unknown_name(path: str) -> str:
    """What a frame is called when all that is known is the file that it lies in."""
    return f"[{PurePosixPath(path).name or path}]"


def _name(symbol: str) -> str:
    """What people read: demangled, without the version that libc appends to its names."""
    return demangle(symbol.split("@GLIBC", 1)[0].rstrip("@") if "@GLIBC" in symbol else symbol)
