"""ELF files: where a file offset lies in memory, what the file is called by its build-id, which symbols it has.

The distinction that matters is *file offset* against *vaddr*: perf records where in the file an address came from, while
symbols and DWARF speak of virtual addresses. They differ by segment (LLD lays them apart by 0x1000 and more), so the
way from one to the other leads through the PT_LOAD that holds the offset.
"""

from __future__ import annotations

import io
import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection
from elftools.elf.segments import NoteSegment

if TYPE_CHECKING:
    from elftools.elf.sections import Section

_NT_GNU_BUILD_ID = 3
_STT_NOTYPE, _STT_FUNC, _STT_GNU_IFUNC = 0, 2, 10
_STB_LOCAL, _STB_GLOBAL, _STB_WEAK = 0, 1, 2
_SHN_UNDEF, _SHN_ABS = 0, 0xFFF1
_STV_INTERNAL, _STV_HIDDEN = 1, 2
_LAST_SYMBOL_SIZE = 4096


Content = bytes | mmap.mmap
"""A file's bytes. A mapped file is read where it lies: executables with debug information are large."""


class ElfProblemError(Exception):
    """A file is no ELF file or a damaged one. Callers name the file and go on without its symbols."""


class Segment(NamedTuple):
    """A PT_LOAD: ``size`` bytes of the file from ``file_offset`` stand in memory from ``vaddr`` on."""

    file_offset: int
    vaddr: int
    size: int
    is_executable: bool


class Symbol(NamedTuple):
    """A function: ``start`` <= vaddr < ``end``. ``aliases`` are all names that begin at the same place."""

    start: int
    end: int
    name: str
    aliases: tuple[str, ...]


class _Candidate(NamedTuple):
    start: int
    size: int
    name: str
    binding: int


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """Functions by vaddr."""

    symbols: tuple[Symbol, ...]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, symbols: Iterable[Symbol]) -> SymbolTable:
        ordered = tuple(sorted(symbols, key=lambda symbol: symbol.start))
        return cls(ordered, tuple(symbol.start for symbol in ordered))

    def at(self, vaddr: int) -> Symbol | None:
        """The function that holds a vaddr."""
        index = bisect_right(self.starts, vaddr) - 1
        if index >= 0 and vaddr < self.symbols[index].end:
            return self.symbols[index]
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """What the engine needs of a file."""

    build_id: str
    segments: tuple[Segment, ...]
    symbols: SymbolTable
    symbol_source: str
    debug_link: str
    has_debug_info: bool

    def vaddr(self, file_offset: int) -> int | None:
        """The virtual address of a byte of the file; executable segments first, since pages can be in two."""
        for segment in self.segments:
            if segment.file_offset <= file_offset < segment.file_offset + segment.size:
                return file_offset - segment.file_offset + segment.vaddr
        return None


def read_build_id(data: Content) -> str:
    """The build-id note in hexadecimal, empty if there is none.

    Raises:
        ElfProblemError: not an ELF file.
    """
    with _opened(data) as elf:
        return _build_id(elf)


def read_elf(data: Content) -> Elf:
    """Read segments and symbols.

    Raises:
        ElfProblemError: not an ELF file, or damaged.
    """
    with _opened(data) as elf:
        symbols, source = _symbols(elf)
        debug = elf.get_section_by_name(".debug_info") or elf.get_section_by_name(".zdebug_info")
        return Elf(
            build_id=_build_id(elf),
            segments=_segments(elf),
            symbols=symbols,
            symbol_source=source,
            debug_link=_debug_link(elf),
            has_debug_info=debug is not None and debug["sh_type"] != "SHT_NOBITS",
        )


class _opened:  # noqa: N801 - reads as a verb where it is used
    """An ELFFile over bytes; whatever a damaged file makes pyelftools raise becomes one error."""

    def __init__(self, data: Content) -> None:
        self.data = data

    def __enter__(self) -> ELFFile:
        try:
            # pyelftools reads and seeks, which a mapped file can do as well as an open one
            return ELFFile(cast("IO[bytes]", self.data) if isinstance(self.data, mmap.mmap) else io.BytesIO(self.data))
        except Exception as error:
            raise ElfProblemError(str(error) or type(error).__name__) from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        problems = (ELFError, ValueError, KeyError, IndexError, TypeError, AttributeError, struct.error, OverflowError)
        if isinstance(error, problems):
            raise ElfProblemError(str(error) or type(error).__name__) from error


def _segments(elf: ELFFile) -> tuple[Segment, ...]:
    found = [
        Segment(part["p_offset"], part["p_vaddr"], part["p_filesz"], bool(part["p_flags"] & 1))
        for part in elf.iter_segments("PT_LOAD")
    ]
    return tuple(sorted(found, key=lambda segment: not segment.is_executable))


def _build_id(elf: ELFFile) -> str:
    for section in elf.iter_sections():
        if isinstance(section, NoteSection) and section["sh_type"] != "SHT_NOBITS":
            for note in section.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return str(note["n_desc"])
    for segment in elf.iter_segments("PT_NOTE"):
        if not isinstance(segment, NoteSegment):
            continue
        for note in segment.iter_notes():
            if note["n_type"] == "NT_GNU_BUILD_ID":
                return str(note["n_desc"])
    return ""


def _debug_link(elf: ELFFile) -> str:
    section = elf.get_section_by_name(".gnu_debuglink")
    return section.data().split(b"\0", 1)[0].decode("utf-8", "surrogateescape") if section is not None else ""


def _symbols(elf: ELFFile) -> tuple[SymbolTable, str]:
    """Symbols of ``.symtab``, or of ``.dynsym`` where that is all there is, as perf takes them."""
    for name in (".symtab", ".dynsym"):
        section = elf.get_section_by_name(name)
        if section is None or section["sh_type"] == "SHT_NOBITS":
            continue
        strings = elf.get_section(section["sh_link"]).data()
        candidates = _candidates(section, strings, elf)
        if candidates:
            return SymbolTable.of(_merge(candidates)), name
    return SymbolTable.of(()), ""


def _candidates(section: Section, strings: bytes, elf: ELFFile) -> list[_Candidate]:
    order = "<" if elf.little_endian else ">"
    wide = elf.elfclass == 64
    entry = struct.Struct(order + ("IBBHQQ" if wide else "IIIBBH"))
    data = section.data()
    found: list[_Candidate] = []
    for row in entry.iter_unpack(data[: len(data) // entry.size * entry.size]):
        name_at, info, other, index, value, size = row if wide else (row[0], row[3], row[4], row[5], row[1], row[2])
        kind = info & 15
        if index == _SHN_UNDEF or not name_at:
            continue
        is_function = kind in (_STT_FUNC, _STT_GNU_IFUNC)
        is_label = kind == _STT_NOTYPE and index != _SHN_ABS and other & 3 not in (_STV_INTERNAL, _STV_HIDDEN)
        if is_function or is_label:
            name = strings[name_at : strings.find(b"\0", name_at)].decode("utf-8", "surrogateescape")
            found.append(_Candidate(value, size, name, info >> 4))
    return found


def _merge(candidates: Sequence[_Candidate]) -> Iterator[Symbol]:
    """One symbol for each start, chosen as perf chooses; those without size reach to the next (perf's fix-up)."""
    by_start: dict[int, list[_Candidate]] = {}
    for candidate in candidates:
        by_start.setdefault(candidate.start, []).append(candidate)
    starts = sorted(by_start)
    for index, start in enumerate(starts):
        same = by_start[start]
        best = same[0]
        for other in same[1:]:
            best = _better(best, other)
        following = starts[index + 1] if index + 1 < len(starts) else (start | _LAST_SYMBOL_SIZE - 1) + 4097
        yield Symbol(start, start + best.size if best.size else following, best.name, tuple(c.name for c in same))


def _better(a: _Candidate, b: _Candidate) -> _Candidate:
    """Perf's choice between two names of one address: ``choose_best_symbol`` in ``tools/perf/util/symbol.c``."""
    preferences = (
        (bool(a.size), bool(b.size)),
        (a.binding != _STB_WEAK, b.binding != _STB_WEAK),
        (a.binding == _STB_GLOBAL, b.binding == _STB_GLOBAL),
        (-_underscores(a.name), -_underscores(b.name)),
        (len(a.name), len(b.name)),
    )
    for ours, theirs in preferences:
        if ours != theirs:
            return a if ours > theirs else b
    return a


def _underscores(name: str) -> int:
    return len(name) - len(name.lstrip("_"))
