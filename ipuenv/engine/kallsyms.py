"""Kernel symbols from a saved ``/proc/kallsyms``: text lines ``address type name [module]``."""

from __future__ import annotations

from dataclasses import dataclass

from ipuenv.engine.elf import Symbol, SymbolTable

_CODE = frozenset("tTwWuU")
_PAGE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSymbols:
    """Functions of the kernel and its modules by address, and the address of ``_text`` that proves the boot."""

    table: SymbolTable
    modules: dict[int, str]
    text_start: int

    def module_of(self, symbol: Symbol) -> str:
        """The module a symbol belongs to; ``[kernel.kallsyms]`` for the kernel proper, as perf names it."""
        return self.modules.get(symbol.start, "[kernel.kallsyms]")


def read_kallsyms(text: str) -> KernelSymbols | None:
    """Read kernel symbols; None where the addresses are hidden (``kptr_restrict``)."""
    starts: dict[int, list[str]] = {}
    modules: dict[int, str] = {}
    text_start = 0
    for line in text.splitlines():
        parts = line.split()
        if len(parts) < 3 or parts[1] not in _CODE:
            continue
        address = int(parts[0], 16)
        starts.setdefault(address, []).append(parts[2])
        if len(parts) > 3:
            modules[address] = parts[3]
        if parts[2] in ("_text", "_stext") and not text_start:
            text_start = address
    if not any(starts):
        return None
    return KernelSymbols(table=SymbolTable.of(_symbols(starts, modules)), modules=modules, text_start=text_start)


def _symbols(starts: dict[int, list[str]], modules: dict[int, str]) -> list[Symbol]:
    """Each symbol reaches to the next; the last of the kernel does not reach into the modules' far addresses."""
    ordered = sorted(starts)
    found: list[Symbol] = []
    for index, start in enumerate(ordered):
        following = ordered[index + 1] if index + 1 < len(ordered) else start + _PAGE
        if modules.get(start) != modules.get(following):
            following = min(following, (start + 2 * _PAGE) // _PAGE * _PAGE)
        names = starts[start]
        found.append(Symbol(start, following, names[-1], tuple(names)))  # perf's fix-ups leave only the last a size
    return found
