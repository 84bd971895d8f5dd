"""What perf itself says of a recording: the outside truth that the engine is held against."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipuenv.engine.recording import Recording

_HEAD = re.compile(r"\s*(?P<comm>.*?)\s+(?P<tid>-?\d+)\s+(?:\d+\.\d+:\s+)?(?P<event>\S+):(?P<ip>\s.*\S)?\s*$")
_FRAME = re.compile(r"\s*([0-9a-f]+) (.*?)(?:\+0x([0-9a-f]+))? \((.*)\)$")


@dataclass(frozen=True, slots=True)
class PerfFrame:
    symbol: str
    offset: int | None
    dso: str


@dataclass(frozen=True, slots=True)
class PerfSample:
    comm: str
    tid: int
    event: str
    frames: tuple[PerfFrame, ...]  # leaf first


def perf_samples(perf_data: Path, *options: str, has_time: bool = True) -> list[PerfSample]:
    """All samples with call chains as ``perf script`` prints them, without inlined frames and demangling."""
    fields = f"comm,tid,{'time,' if has_time else ''}event,ip,sym,symoff,dso"
    command = ["perf", "script", "-i", str(perf_data), "--no-inline", "--no-demangle", "-F", fields, *options]
    printed = subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8", "surrogateescape")
    found: list[PerfSample] = []
    for block in printed.split("\n\n"):
        head, frames = None, list[PerfFrame]()
        for line in filter(str.strip, block.split("\n")):
            is_head = _HEAD.match(line)
            if is_head is not None:
                head = None if is_head["ip"] else is_head  # without a call chain the address is on the same line
                continue
            frame = _FRAME.match(line)
            assert frame is not None, line
            offset = int(frame[3], 16) if frame[3] is not None else None
            frames.append(PerfFrame(frame[2], offset, frame[4]))
        if head is not None:
            found.append(PerfSample(head["comm"], int(head["tid"]), head["event"], tuple(frames)))
    return found


def aliases_of(path: str) -> dict[str, frozenset[str]]:
    """Names that share a start address in a file, by each of them, as ``nm`` lists them."""
    groups: dict[str, set[str]] = {}
    for option in ((), ("-D",)):
        listed = subprocess.run(["nm", *option, path], check=False, capture_output=True, text=True).stdout
        for line in listed.splitlines():
            parts = line.split()
            if len(parts) == 3:
                groups.setdefault(parts[0], set()).add(parts[2])
    return {name: frozenset(group) for group in groups.values() for name in group}


def compare_functions(recording: Recording, theirs: list[PerfSample]) -> Counter[str]:
    """Compare our functions with perf's, sample by sample and frame by frame.

    Counts frames that are the ``same``, that differ because we look one byte ``before`` a return address (perf's symbol
    then begins exactly at it), and that are an ``alias``: another name of the same address; and samples that are ``named
    later``, by a name that their thread took after them. Anything else is an error.
    """
    stacks = recording.stacks
    frames, locations = stacks.table.frames, stacks.table.locations
    assert len(theirs) == stacks.total > 0
    counts: Counter[str] = Counter()
    aliases: dict[str, dict[str, frozenset[str]]] = {}
    for sample, node, tid in zip(theirs, stacks.nodes.tolist(), stacks.tids.tolist(), strict=True):
        path = [frames[locations[key].frames[0]] for key in stacks.tree.path(node)]
        assert tid == sample.tid
        if path[0].name != sample.comm:  # perf does not look ahead to the name of a thread whose beginning it lost
            assert sample.comm == f":{tid}", (path[0].name, sample.comm)
            counts["named later"] += 1
        ours = path[:0:-1]
        assert len(ours) == len(sample.frames), (ours, sample.frames)
        for our, their in zip(ours, sample.frames, strict=True):
            if (our.symbol or "[unknown]") == their.symbol:
                counts["same"] += 1
            elif their.offset == 0:
                counts["before"] += 1
            else:
                if our.dso not in aliases:
                    aliases[our.dso] = aliases_of(our.dso)
                assert their.symbol in aliases[our.dso].get(our.symbol, ()), (our, their)
                counts["alias"] += 1
    return counts
