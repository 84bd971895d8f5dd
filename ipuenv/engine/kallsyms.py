"""Kernel symbols from a saved ``/proc/kallsyms``: text lines ``address type name [module]``."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from ipuenv.engine.elf import Symbol

KERNEL_DSO = "[kernel.kallsyms]"
"""What perf calls the kernel proper; modules are called by their own names in brackets."""

_CODE = re.compile(r"[0-9a-f]{16} [tTwWuU] \S")
_DIGITS = 16
_TEXT_START = ("_text", "_stext")
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class KernelSymbols:
    """Functions of the kernel and its modules.

    ``lines`` are those of kallsyms, by address; among equal addresses they keep the order of the file. A hundred thousand
    of them are read for the few that a recording needs, so a line is taken apart when it is asked for. ``text_start`` is
    the address of ``_text``, which proves the boot.
    """

    lines: list[str]
    text_start: int

    def at(self, address: int) -> Symbol | None:
        """The function that holds an address. Of several names of one start it is the last: only that has a size in perf."""
        index = self._index(address)
        if index < 0:
            return None
        start, name, _ = _parts(self.lines[index])
        end = self._end(index)
        return Symbol(start, end, name, (name,)) if address < end else None

    def module_at(self, address: int) -> str:
        """The module that holds an address, as perf names it."""
        index = self._index(address)
        return _parts(self.lines[index])[2] or KERNEL_DSO if index >= 0 else KERNEL_DSO

    def _index(self, address: int) -> int:
        return bisect_right(self.lines, f"{address:016x}", key=_address) - 1

    def _end(self, index: int) -> int:
        """Each symbol reaches to the next; the kernel's last does not reach into the modules' far addresses."""
        start, _, module = _parts(self.lines[index])
        page_end = (start + 2 * _PAGE) // _PAGE * _PAGE
        if index + 1 == len(self.lines):
            return page_end
        following, _, next_module = _parts(self.lines[index + 1])
        return following if module == next_module else min(following, page_end)


def read_kallsyms(text: str) -> KernelSymbols | None:
    """Read kernel symbols; None where the addresses are hidden (``kptr_restrict``)."""
    lines = [line for line in text.splitlines() if _CODE.match(line)]
    lines.sort(key=_address)
    if not lines or not int(_address(lines[-1]), _DIGITS):
        return None
    starts = (_parts(line) for line in lines if line.endswith(_TEXT_START))
    text_start = next((start for start, name, _ in starts if name in _TEXT_START), 0)
    return KernelSymbols(lines, text_start)


def _address(line: str) -> str:
    return line[:_DIGITS]


def _parts(line: str) -> tuple[int, str, str]:
    address, _, name, *module = line.split()
    return int(address, 16), name, module[0] if module else ""
