"""Colours of frames: inferno's deterministic palettes, and one that tells the kinds of frames apart."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from random import Random
from struct import Struct

from ipuenv.engine.stacks import FrameKind


class Palette(StrEnum):
    """``hot`` and ``rust`` are inferno's; ``kind`` gives each :class:`FrameKind` a hue of its own."""

    HOT = "hot"
    RUST = "rust"
    KIND = "kind"


Channel = tuple[int, int, int]
"""Lowest value of a colour channel, its span, and which of a name's three hashes moves it."""

Ramp = tuple[Channel, Channel, Channel]
"""Red, green and blue."""

_HOT: Ramp = ((205, 50, 2), (0, 230, 0), (0, 55, 1))
_AQUA: Ramp = ((50, 60, 0), (165, 55, 0), (165, 55, 0))
_ORANGE: Ramp = ((190, 65, 0), (90, 65, 0), (0, 0, 0))
_YELLOW: Ramp = ((175, 55, 0), (175, 55, 0), (50, 20, 0))
_KINDS: dict[FrameKind, Ramp] = {
    FrameKind.COMM: ((186, 18, 0), (176, 18, 0), (214, 18, 0)),
    FrameKind.NATIVE: ((226, 26, 0), (118, 50, 1), (62, 30, 2)),
    FrameKind.INLINED: ((240, 14, 0), (196, 36, 1), (112, 40, 2)),
    FrameKind.KERNEL: ((104, 36, 0), (158, 36, 1), (206, 34, 2)),
    FrameKind.JIT: ((126, 40, 0), (190, 34, 1), (112, 36, 2)),
    FrameKind.UNKNOWN: ((176, 16, 0), (176, 16, 0), (172, 16, 0)),
    FrameKind.ELIDED: ((212, 14, 0), (212, 14, 0), (208, 14, 0)),
}

_ROOT = ""
_FIXED = {"--": "rgb(160,160,160)", "-": "rgb(200,200,200)"}
_RUST_LIBRARIES = ("core::", "std::", "alloc::", "<core::", "<std::", "<alloc::")
_RUST_FUTURE = "<core::future::from_generator::GenFuture<T>"

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_U64 = 2**64 - 1
_U64_F64 = float(_U64)
_F32 = Struct("<f")

Fill = Callable[[str, FrameKind], str]
"""From a frame's text, suffix included, and its kind to an SVG colour."""


def fills(palette: Palette, *, deterministic: bool) -> Fill:
    """The function that colours frames: by name, or, as inferno does by default, each frame anew.

    Even then equal trees give equal pictures: the generator always starts from the same seed.
    """
    if deterministic:
        return lambda text, kind: _FIXED.get(text) or _rgb(_ramp(palette, text, kind), _hashes(text))
    draw = Random(0).random  # noqa: S311 - colours, not secrets
    return lambda text, kind: _FIXED.get(text) or _rgb(_ramp(palette, text, kind), (draw(), draw(), draw()))


def _ramp(palette: Palette, text: str, kind: FrameKind) -> Ramp:
    if palette is Palette.HOT:
        return _HOT
    if palette is Palette.KIND:
        return _KINDS[FrameKind.ELIDED if text == _ROOT else kind]
    return _rust_ramp(text)


def _rust_ramp(text: str) -> Ramp:
    """Standard library, other paths, everything else (inferno 0.12, ``color/palettes.rs``)."""
    before, tick, after = text.partition("`")
    name = after if tick else before
    if name.startswith(_RUST_LIBRARIES) and not name.startswith(_RUST_FUTURE):
        return _ORANGE
    return _AQUA if "::" in name else _YELLOW


def _hashes(text: str) -> tuple[float, float, float]:
    """Three numbers in 0..1: the text's 64-bit FNV-1a hash, twice multiplied on (inferno 0.12, ``color/mod.rs``)."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _FNV_PRIME & _U64
    second = value * _FNV_PRIME & _U64
    third = second * _FNV_PRIME & _U64
    return _f32(float(value) / _U64_F64), _f32(float(second) / _U64_F64), _f32(float(third) / _U64_F64)


def _rgb(ramp: Ramp, hashes: tuple[float, float, float]) -> str:
    red, green, blue = (low + int(_f32(span * hashes[which])) for low, span, which in ramp)
    return f"rgb({red},{green},{blue})"


def _f32(number: float) -> float:
    """Rounded to single precision, in which inferno computes."""
    result: float = _F32.unpack(_F32.pack(number))[0]
    return result
