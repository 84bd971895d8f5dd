"""Stacks as speedscope's own JSON: a profile for each thread, inlined frames among the others, in time order.

Format: https://www.speedscope.app/file-format-schema.json (``src/lib/file-format-spec.ts`` of jlfwong/speedscope). Times
are weights, one after the other, as CPU time or samples; gaps in which a thread did not run are not in it. Written as it
is made, since whole files reach the size where browsers and Python alike stop liking strings.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TextIO

import numpy as np

from ipuenv.engine.folded import printable
from ipuenv.engine.folding import UNKNOWN_ID
from ipuenv.engine.pprof import cpu_ns
from ipuenv.engine.stacks import ROOT, FrameKind, Paths

if TYPE_CHECKING:
    import numpy.typing as npt

    from ipuenv.engine.folding import StackTree

    Ints = npt.NDArray[np.int64]

SUFFIX = ".speedscope.json"
"""How files of this format end."""

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

_BATCH = 4096


class _Thread(NamedTuple):
    """A profile: its name, and for each stretch of one stack its node and weight."""

    name: str
    nodes: list[int]
    weights: list[int]


def write_speedscope(stacks: StackTree, out: TextIO, *, name: str, exporter: str) -> None:
    """Write stacks to a text file, which should be UTF-8. ``name`` is the document's, ``exporter`` who wrote it.

    The busiest thread comes first and is the one that is shown. Weights are nanoseconds of CPU time where the event tells,
    else samples.
    """
    out.writelines(_batched(_text(stacks, name, exporter)))


def _batched(parts: Iterable[str]) -> Iterator[str]:
    """Parts joined to pieces that are worth a write each."""
    pending: list[str] = []
    for part in parts:
        pending.append(part)
        if len(pending) >= _BATCH:
            yield "".join(pending)
            pending.clear()
    yield "".join(pending)


def _text(stacks: StackTree, name: str, exporter: str) -> Iterator[str]:
    frames, numbers = _frames(stacks)
    time = cpu_ns(stacks.rows, stacks.sampling)
    unit = "none" if time is None else "nanoseconds"
    yield f'{{"$schema":{_json(SCHEMA)},"name":{_json(name)},"exporter":{_json(exporter)},"activeProfileIndex":0,\n'
    yield '"shared":{"frames":[\n'
    yield from _separated(frames)
    yield ']},\n"profiles":[\n'
    paths = Paths(stacks.tree, numbers)
    for index, thread in enumerate(_threads(stacks, stacks.rows.samples if time is None else time)):
        yield ",\n" if index else ""
        yield f'{{"type":"sampled","name":{_json(thread.name)},"unit":"{unit}",'
        yield f'"startValue":0,"endValue":{sum(thread.weights)},\n"samples":[\n'
        yield from _separated(f"[{''.join(paths.to(node))[:-1]}]" for node in thread.nodes)
        yield '],\n"weights":['
        yield from _separated(map(str, thread.weights), ",")
        yield "]}"
    yield "\n]}\n"


def _separated(parts: Iterable[str], separator: str = ",\n") -> Iterator[str]:
    for index, part in enumerate(parts):
        yield separator + part if index else part


def _frames(stacks: StackTree) -> tuple[list[str], list[str]]:
    """The shared frames as JSON, and for each location their numbers with a comma behind each.

    Frames of one name are one frame, inlined or not, so that speedscope adds up what pictures show as one; their source
    file is told where it is the same for all. Names of threads are no frames.
    """
    table = stacks.table
    files: dict[str, set[str]] = defaultdict(set)
    names = [None if frame.kind is FrameKind.COMM else printable(frame.name) for frame in table.frames]
    for name, frame in zip(names, table.frames, strict=True):
        if name is not None:
            files[name].add(frame.file)
    ids = {name: index for index, name in enumerate(files)}
    shown = ["" if name is None else f"{ids[name]}," for name in names]
    described = [_json({"name": name, **_file(found)}) for name, found in files.items()]
    return described, ["".join(shown[frame] for frame in location.frames) for location in table.locations]


def _file(files: set[str]) -> dict[str, str]:
    only = next(iter(files)) if len(files) == 1 else ""
    return {"file": printable(only)} if only else {}


def _threads(stacks: StackTree, weights: Ints) -> Iterator[_Thread]:
    """The threads, busiest first; each name of one that changed it is a thread. Repeated stacks are one stretch."""
    rows, comms = stacks.rows, stacks.comms
    tops = np.array([top if top in comms else ROOT for top in stacks.tree.tops()], np.int64)[rows.nodes]
    order = np.lexsort((np.arange(len(tops)), rows.tids, tops))
    changes = (tops[order][1:] != tops[order][:-1]) | (rows.tids[order][1:] != rows.tids[order][:-1])
    pieces = [piece for piece in np.split(order, np.flatnonzero(changes) + 1) if len(piece)]
    for piece in sorted(pieces, key=lambda piece: -int(weights[piece].sum())):
        nodes = rows.nodes[piece]
        starts = np.flatnonzero(np.concatenate(([True], nodes[1:] != nodes[:-1])))
        comm, tid = comms.get(int(tops[piece[0]]), "all stacks"), int(rows.tids[piece[0]])
        name = comm if tid == UNKNOWN_ID else f"{comm} (tid {tid})"
        yield _Thread(printable(name), nodes[starts].tolist(), np.add.reduceat(weights[piece], starts).tolist())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
