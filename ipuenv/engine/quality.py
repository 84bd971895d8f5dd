"""How far a recording can be trusted: what was lost, what broke off, what has no name, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ipuenv.engine.stacks import ROOT, FrameKind

if TYPE_CHECKING:
    from ipuenv.engine.folding import StackTree
    from ipuenv.engine.perfdata import PerfData
    from ipuenv.engine.symbolize import Symbolizer

ENTRY_POINTS = frozenset(
    {
        *("_start", "main", "_dl_start", "_dl_start_user"),
        *("__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main"),
        *("start_thread", "thread_start", "clone", "__clone", "clone3", "__clone3", "__GI___clone3"),
    }
)
"""Functions at which a whole stack may begin, without their versions."""

SYSTEM_LIBRARIES = ("libc.", "libc-", "ld-linux", "libstdc++", "libm.", "libpthread", "libgcc_s")
"""Libraries that nobody rebuilds for a profile."""


class Grade(StrEnum):
    """How good a recording is."""

    GOOD = "good"
    USABLE = "usable"
    POOR = "poor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Beyond these a recording is no longer good, or poor: (usable, poor). Shares are of all samples, from 0 to 1."""

    lost: tuple[float, float] = (0.01, 0.10)
    truncated: tuple[float, float] = (0.05, 0.25)
    unknown: tuple[float, float] = (0.05, 0.25)
    few_samples: tuple[int, int] = (200, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownDso:
    """Frames of one file that have no name; ``frames`` counts each in every sample it stands in."""

    dso: str
    frames: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The facts, the grade they add up to, and a sentence for every one that lowers it."""

    samples: int
    lost: int
    truncated: int
    with_unknown: int
    unknown: tuple[UnknownDso, ...]
    mismatches: dict[str, str]
    is_partial: bool
    grade: Grade
    reasons: tuple[str, ...]


def assess(data: PerfData, stacks: StackTree, symbolizer: Symbolizer, thresholds: Thresholds | None = None) -> Quality:
    """Assess a folded recording."""
    limits = thresholds or Thresholds()
    broken_in, with_unknown = _broken(stacks)
    truncated = broken_in.total()
    grades: list[tuple[Grade, str]] = []
    whole = max(stacks.total + data.lost, 1)
    _judge(grades, data.lost / whole, limits.lost, "samples lost: lower the frequency, or record fewer threads at once")
    _judge(grades, truncated / max(stacks.total, 1), limits.truncated, _truncation(broken_in))
    unknown = _unknown(stacks, symbolizer)
    _judge(grades, with_unknown / max(stacks.total, 1), limits.unknown, _namelessness(unknown))
    usable, poor = limits.few_samples
    if stacks.total < usable:
        grade = Grade.POOR if stacks.total < poor else Grade.USABLE
        grades.append((grade, f"only {stacks.total} samples: record for longer or at a higher frequency"))
    if data.is_partial:
        grades.append((Grade.USABLE, "the recording is cut off: perf was ended before it had written all"))
    grades.extend((Grade.USABLE, remark) for remark in data.remarks)
    for path, reason in symbolizer.mismatches.items():
        grades.append((Grade.USABLE, f"'{path}' has no symbols: {reason}"))
    return Quality(
        samples=stacks.total,
        lost=data.lost,
        truncated=truncated,
        with_unknown=with_unknown,
        unknown=unknown,
        mismatches=dict(symbolizer.mismatches),
        is_partial=data.is_partial,
        grade=max((grade for grade, _ in grades), key=list(Grade).index, default=Grade.GOOD),
        reasons=tuple(reason for _, reason in grades),
    )


def _judge(grades: list[tuple[Grade, str]], share: float, limits: tuple[float, float], what: str) -> None:
    usable, poor = limits
    if share > usable:
        grades.append((Grade.POOR if share > poor else Grade.USABLE, f"{share:.1%} {what}"))


def _truncation(broken_in: Counter[str]) -> str:
    """What stacks that break off have in common: mostly one library that keeps no frame pointers."""
    dso = broken_in.most_common(1)[0][0] if broken_in else ""
    what = "stacks that do not reach their root"
    if PurePosixPath(dso).name.startswith(SYSTEM_LIBRARIES):
        return f"{what}, most of them in {PurePosixPath(dso).name}, which distributions build without frame pointers"
    if not dso.startswith("/"):
        return f"{what}: somewhere a function keeps no frame pointer"
    return f"{what}, most of them in {PurePosixPath(dso).name}: build it with '-C force-frame-pointers=yes'"


def _namelessness(unknown: Sequence[UnknownDso]) -> str:
    """What frames without a name have in common: mostly one file, and why that has none."""
    what = "samples with frames that have no name"
    if not unknown:
        return what
    if not unknown[0].dso.startswith("/"):
        return f"{what}, most of them {unknown[0].reason}"
    name = PurePosixPath(unknown[0].dso).name
    return f"{what}, most of them of {name}: {unknown[0].reason}; build with debug info, unstripped, and keep the file"


def _broken(stacks: StackTree) -> tuple[Counter[str], int]:
    """Samples that do not begin at an entry point, by the file they break off in, and samples with nameless frames."""
    frames, locations = stacks.table.frames, stacks.table.locations
    parents, keys = stacks.tree.parents, stacks.tree.keys
    begins_badly = bytearray(len(parents))
    has_unknown = bytearray(len(parents))
    breaks_in: list[str] = [""] * len(parents)
    broken: Counter[str] = Counter()
    with_unknown = 0
    for node in range(1, len(parents)):
        parent = parents[node]
        outermost = frames[locations[keys[node]].frames[0]]
        if parent != ROOT and parents[parent] == ROOT:  # the frame right below the comm
            is_kernel = outermost.kind is FrameKind.KERNEL
            begins_badly[node] = not is_kernel and outermost.symbol.split("@")[0] not in ENTRY_POINTS
            breaks_in[node] = outermost.dso
        else:
            begins_badly[node] = begins_badly[parent]
            breaks_in[node] = breaks_in[parent]
        has_unknown[node] = has_unknown[parent] or outermost.kind is FrameKind.UNKNOWN
        if begins_badly[node] and stacks.samples[node]:
            broken[breaks_in[node]] += stacks.samples[node]
        with_unknown += stacks.samples[node] if has_unknown[node] else 0
    return broken, with_unknown


def _unknown(stacks: StackTree, symbolizer: Symbolizer) -> tuple[UnknownDso, ...]:
    frames = stacks.table.frames
    counts: Counter[str] = Counter()
    for node, total in enumerate(stacks.tree.totals(stacks.samples)):
        if node == ROOT:
            continue
        for index in stacks.table.locations[stacks.tree.keys[node]].frames:
            frame = frames[index]
            if frame.kind is FrameKind.UNKNOWN or frame.name == "[kernel]":
                counts[frame.dso if frame.kind is FrameKind.UNKNOWN else "[kernel]"] += total
    return tuple(
        UnknownDso(dso=dso, frames=count, reason=symbolizer.unknown_reasons.get(dso, ""))
        for dso, count in counts.most_common()
    )
