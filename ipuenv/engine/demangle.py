"""Names as people write them: Rust (legacy and v0) and C++; anything else stays as it is."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MANGLED = ("_Z", "_R", "__Z", "__R")
"""How mangled names begin: C++ and legacy Rust, Rust v0, each also with the underscore that some systems add."""


@cache
def _demangler() -> Callable[[str], str]:
    from multi_demangle import demangle_symbol

    def demangled(symbol: str) -> str:
        return str(demangle_symbol(symbol))

    return demangled


def demangle(symbol: str) -> str:
    """The readable name; the hash and the compiler's ``.llvm.N`` of a Rust symbol are cut.

    Only names with a mangling prefix are tried: a C function called ``foo`` must not be taken for another language.
    """
    if not symbol.startswith(MANGLED):
        return symbol
    try:
        return _demangler()(symbol)
    except ValueError:
        return symbol
