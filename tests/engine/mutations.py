"""Recordings that are damaged on purpose, and the whole way that has to survive them: read, fold, draw, render."""

from __future__ import annotations

import random
import signal
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ipuenv.engine import flamegraph, perfdata, recording, views
from ipuenv.ground.errors import UsageError
from tests.engine.swapped import swap

RECORDINGS = Path(__file__).parent.parent / "recordings"
CASE_LIMIT_S = 20.0
LIES = (0, 1, 2, 7, 8, 9, 0xFF, 0xFFF8, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 8)
WIDTHS = {2: "<H", 4: "<I", 8: "<Q"}


def bases() -> dict[str, bytes]:
    """The recordings to damage: every stored one, and one of the other byte order."""
    found = {path.name: path.read_bytes() for path in sorted(RECORDINGS.glob("*.perf.data"))}
    return {**found, "big-endian": swap(found["two-events.perf.data"])}


def mutated(data: bytes, seed: int) -> bytes:
    """The recording with one to four things wrong; equal seeds damage equally."""
    chance = random.Random(seed)
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        chance.choice((flip, flip, lie, lie, lie_in_header, move, cut))(damaged, chance)
    return bytes(damaged)


def flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 1, 8, 64))):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def lie(data: bytearray, chance: random.Random, end: int | None = None) -> None:
    """A number that cannot be true, or is nearly so."""
    width = chance.choice(tuple(WIDTHS))
    at = chance.randrange(0, max((end or len(data)) - 8, 1), chance.choice((2, 4, 8)))
    if at + width > len(data):
        return
    (before,) = struct.unpack_from(WIDTHS[width], data, at)
    number = chance.choice((chance.choice(LIES), before + chance.choice((-8, -1, 1, 8)), chance.getrandbits(64)))
    struct.pack_into(WIDTHS[width], data, at, number % (1 << 8 * width))


def lie_in_header(data: bytearray, chance: random.Random) -> None:
    lie(data, chance, end=512)


def move(data: bytearray, chance: random.Random) -> None:
    """A stretch that is missing, there twice, or somewhere else."""
    begin = chance.randrange(0, max(len(data), 1), 8)
    stretch = data[begin : begin + chance.choice((8, 24, 200, 1000))]
    if chance.random() < 0.5:
        del data[begin : begin + len(stretch)]
    if chance.random() < 0.6:
        at = chance.randrange(0, len(data) + 1)
        data[at:at] = stretch


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data) + 1) :]


class TookTooLongError(Exception):
    """The way took longer than any recording of this size may."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def end(_signal: int, _frame: FrameType | None) -> None:
        raise TookTooLongError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def travel(path: Path, kallsyms: Path) -> str:
    """Go the whole way; what came of it. Anything but a picture or an error for people is raised."""
    try:
        with limited(CASE_LIMIT_S):
            found = recording.read(path, kallsyms=kallsyms, cache=kallsyms.parent / "symbols")
            for view in (views.FULL, views.FUNCTIONS):
                tree = views.draw(found.stacks, view)
                assert tree.total == len(found.data.samples)
                flamegraph.render(tree)
    except UsageError as error:
        check_beats(error)
        return "refused"
    return "partial" if found.data.is_partial else "whole"


def check_beats(error: UsageError) -> None:
    """An error says what failed, what was expected and what to do next."""
    if not (error.what and error.expected and error.hint):
        raise AssertionError(error.what) from error


def truncations(data: bytes, sizes: Iterable[int]) -> Iterator[tuple[int, perfdata.PerfData]]:
    """The recording cut off at some sizes, as far as it can be read."""
    for size in sizes:
        try:
            yield size, perfdata.read(data[:size])
        except UsageError as error:
            check_beats(error)
