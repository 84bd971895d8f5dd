"""Stacks as pprof's ``profile.proto``: symbolized once, read by `go tool pprof`, speedscope and Pyroscope, and by us.

Format: ``proto/profile.proto`` of https://github.com/google/pprof. What stands where:

* a sample for each stack of each thread, with the labels ``comm`` (the root frame of our stacks), ``pid`` and ``tid``;
* its values: ``samples``, then ``cpu`` nanoseconds where the event is a clock or was recorded at a frequency, then what
  the event counted where that is not the same;
* a location for each of ours, without an address, since one stands for all addresses of equal frames and lines; its lines
  are the inlined chain, innermost first, the function itself last;
* a mapping for each DSO, with its build-id and without a range, which differs from process to process; the first is the
  one that most of the stacks stand in. Square brackets tell kernel, JIT and nameless frames: see :func:`kind_of_dso`.
  The symbol of an inlined frame without its function, which only folded text has, ends in ``_[i]`` as there.

Times of samples are not in it. Samples are written as they are made, so that memory does not grow with their number.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from ipuenv.engine.folded import SUFFIXES
from ipuenv.engine.folding import UNKNOWN_ID
from ipuenv.engine.kallsyms import KERNEL_DSO
from ipuenv.engine.stacks import ROOT, Frame, FrameKind, Location, Paths
from ipuenv.engine.symbolize import KERNEL_UNKNOWN, UNMAPPED, unknown_name
from ipuenv.engine.wire import bytes_field, number_field, packed_field, varint

if TYPE_CHECKING:
    import numpy.typing as npt

    from ipuenv.engine.folding import Rows, Sampling, StackTree

    Ints = npt.NDArray[np.int64]

SUFFIX = ".pb.gz"
"""How files of this format end."""

SAMPLES, CPU, COUNT, NANOSECONDS = "samples", "cpu", "count", "nanoseconds"
EVENTS = "events"
"""What the third value is called where several events were sampled."""

COMM_LABEL, PID_LABEL, TID_LABEL = "comm", "pid", "tid"

JIT_DSO = "[JIT]"
"""Where code stands that a program made while it ran, if its map file is not known."""

INLINED_SUFFIX = SUFFIXES[FrameKind.INLINED]

_JIT_MAP = re.compile(r"perf-\d+\.map")
_USER_PSEUDO_FILES = ("[vdso", "[vsyscall", "[vvar", "[heap", "[stack", "[anon", "[uprobes", UNMAPPED)
_SURROGATE = re.compile("[\ud800-\udfff]")
_COMPRESSION = 6
_CHUNK_BYTES = 1 << 20


class FieldOf:
    """Field numbers of the messages, by message."""

    PROFILE_TYPE, SAMPLE, MAPPING, LOCATION, FUNCTION, STRING = 1, 2, 3, 4, 5, 6
    TIME, DURATION, PERIOD_TYPE, PERIOD, COMMENT, DEFAULT_TYPE = 9, 10, 11, 12, 13, 14
    TYPE_NAME, TYPE_UNIT = 1, 2
    SAMPLE_LOCATIONS, SAMPLE_VALUES, SAMPLE_LABEL = 1, 2, 3
    LABEL_KEY, LABEL_TEXT, LABEL_NUMBER = 1, 2, 3
    MAPPING_ID, MAPPING_FILE, MAPPING_BUILD_ID = 1, 5, 6
    HAS_FUNCTIONS, HAS_FILES, HAS_LINES, HAS_INLINED = 7, 8, 9, 10
    LOCATION_ID, LOCATION_MAPPING, LOCATION_LINE = 1, 2, 4
    LINE_FUNCTION, LINE_NUMBER = 1, 2
    FUNCTION_ID, FUNCTION_NAME, FUNCTION_SYMBOL, FUNCTION_FILE = 1, 2, 3, 4


class ValueType(NamedTuple):
    """What a number counts, and its unit."""

    name: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a file says of its making: nanoseconds since the epoch, and of the run; 0 or empty where not known."""

    time_ns: int = 0
    duration_ns: int = 0
    comments: tuple[str, ...] = ()


@lru_cache(maxsize=1 << 12)
def kind_of_dso(path: str) -> FrameKind:
    """What kind of code a mapping holds, by its name: perf writes the kernel and its modules in square brackets."""
    if path == JIT_DSO or _JIT_MAP.fullmatch(PurePosixPath(path).name):
        return FrameKind.JIT
    if path.startswith("[") and not path.startswith(_USER_PSEUDO_FILES):
        return FrameKind.KERNEL
    return FrameKind.NATIVE


def nameless(dso: str) -> str:
    """What a frame is called of which only the mapping is known; it is known again by this name without a symbol."""
    if not dso:
        return UNMAPPED
    return KERNEL_UNKNOWN if kind_of_dso(dso) is FrameKind.KERNEL else unknown_name(dso)


def cpu_ns(rows: Rows, sampling: Sampling) -> Ints | None:
    """CPU time that each row stands for, in nanoseconds; None where the event does not tell."""
    if sampling.is_clock:
        return rows.periods.astype(np.int64)
    return rows.samples * sampling.interval_ns if sampling.interval_ns else None


def write_pprof(stacks: StackTree, out: BinaryIO, about: About | None = None) -> None:
    """Write stacks to a binary file, compressed; equal stacks give equal bytes.

    Where ``about`` has no duration, it is the time from the first sample to the last.
    """
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_COMPRESSION, fileobj=out, mtime=0) as packed:
        pending: list[bytes] = []
        size = 0
        for part in _Writer(stacks, about or About()).parts():
            pending.append(part)
            size += len(part)
            if size >= _CHUNK_BYTES:
                packed.write(b"".join(pending))
                pending, size = [], 0
        packed.write(b"".join(pending))


class _Strings:
    """The string table; 0 is the empty string. Lone surrogates, which stand for bytes that are no UTF-8, are replaced."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {"": 0}

    def __getitem__(self, text: str) -> int:
        found = self.texts.get(text)
        if found is None:
            text = _SURROGATE.sub("\ufffd", text)
            found = self.texts.setdefault(text, len(self.texts))
        return found


class _Mapping(NamedTuple):
    dso: str
    build_id: str


class _Writer:
    """Makes the parts of one file, in the order of the format's fields."""

    def __init__(self, stacks: StackTree, about: About) -> None:
        self._stacks = stacks
        self._about = about
        self._strings = _Strings()
        self._rows = _by_stack(stacks)
        self._cpu = cpu_ns(self._rows, stacks.sampling)
        self._event = _event(stacks.sampling)
        self._comm_of = stacks.comms
        self._frames_in = _frames_in(stacks, self._rows, self._comm_of)
        self._used = np.flatnonzero(self._frames_in >= 0).tolist()

    def parts(self) -> Iterator[bytes]:
        """The whole file, uncompressed, in pieces."""
        for kind in self._types():
            yield bytes_field(FieldOf.PROFILE_TYPE, self._type(kind))
        yield from self._samples()
        mappings = self._mappings()
        yield from self._mapping_parts(mappings)
        yield from self._location_parts(mappings)
        yield from self._facts()
        # last, since all others add to it; no reader minds the order of fields
        for text in self._strings.texts:
            yield bytes_field(FieldOf.STRING, text.encode())

    def _type(self, kind: ValueType) -> bytes:
        name, unit = self._strings[kind.name], self._strings[kind.unit]
        return number_field(FieldOf.TYPE_NAME, name) + number_field(FieldOf.TYPE_UNIT, unit)

    def _types(self) -> list[ValueType]:
        unit = COUNT if self._stacks.unit == SAMPLES else self._stacks.unit
        types = [ValueType(self._stacks.unit, unit)]
        if self._cpu is not None:
            types.append(ValueType(CPU, NANOSECONDS))
        return types if self._event in types else [*types, self._event]

    def _samples(self) -> Iterator[bytes]:
        ids = [b""] * len(self._stacks.table.locations)
        for index, location in enumerate(self._used):
            ids[location] = varint(index + 1)
        paths = Paths(self._stacks.tree, ids)
        labels = _Labels(self._strings)
        rows = self._rows
        columns = [rows.samples.tolist(), *([self._cpu.tolist()] if self._cpu is not None else [])]
        if len(columns) < len(self._types()):
            columns.append(rows.periods.tolist())
        threads = zip(rows.nodes.tolist(), rows.pids.tolist(), rows.tids.tolist(), strict=True)
        last, stack, comm = -1, b"", None
        for (node, pid, tid), values in zip(threads, zip(*columns, strict=True), strict=True):
            if node != last:  # threads of one stack stand beside each other
                stack = bytes_field(FieldOf.SAMPLE_LOCATIONS, b"".join(paths.to(node)[::-1]))
                last, comm = node, self._comm_of.get(paths.top)
            yield bytes_field(FieldOf.SAMPLE, stack + _packed_values(values) + labels.of(comm, pid, tid))

    def _mappings(self) -> dict[_Mapping, int]:
        """Ids of mappings: files before what is none, most frames first."""
        frames, locations = self._stacks.table.frames, self._stacks.table.locations
        frames_in: Counter[_Mapping] = Counter()
        for location in self._used:
            frames_in[_mapping(frames, locations[location])] += int(self._frames_in[location])
        ordered = sorted(frames_in, key=lambda found: (not found.dso.startswith("/"), -frames_in[found], found))
        return {mapping: index for index, mapping in enumerate((found for found in ordered if found.dso), 1)}

    def _mapping_parts(self, mappings: dict[_Mapping, int]) -> Iterator[bytes]:
        frames, locations = self._stacks.table.frames, self._stacks.table.locations
        of_mapping: dict[_Mapping, list[Location]] = defaultdict(list)
        for location in self._used:
            of_mapping[_mapping(frames, locations[location])].append(locations[location])
        for mapping, mapping_id in mappings.items():
            inside = of_mapping[mapping]
            all_frames = [frames[index] for location in inside for index in location.frames]
            has_files = any(frame.file for frame in all_frames)
            content = number_field(FieldOf.MAPPING_ID, mapping_id)
            content += number_field(FieldOf.MAPPING_FILE, self._strings[mapping.dso])
            content += number_field(FieldOf.MAPPING_BUILD_ID, self._strings[mapping.build_id])
            content += number_field(FieldOf.HAS_FUNCTIONS, any(frame.symbol for frame in all_frames))
            content += number_field(FieldOf.HAS_FILES, has_files)
            content += number_field(FieldOf.HAS_LINES, any(any(location.lines) for location in inside))
            content += number_field(FieldOf.HAS_INLINED, has_files or any(len(found.frames) > 1 for found in inside))
            yield bytes_field(FieldOf.MAPPING, content)

    def _location_parts(self, mappings: dict[_Mapping, int]) -> Iterator[bytes]:
        frames, locations = self._stacks.table.frames, self._stacks.table.locations
        functions: dict[tuple[str, str, str], int] = {}
        for index, location in enumerate(locations[used] for used in self._used):
            mapping_id = mappings.get(_mapping(frames, location), 0)
            content = number_field(FieldOf.LOCATION_ID, index + 1)
            content += number_field(FieldOf.LOCATION_MAPPING, mapping_id)
            lines = location.lines or (0,) * len(location.frames)
            for level in reversed(range(len(lines))):
                frame = frames[location.frames[level]]
                is_orphan = not level and frame.kind is FrameKind.INLINED
                symbol = frame.name + INLINED_SUFFIX if is_orphan else frame.symbol
                function = functions.setdefault((frame.name, symbol, frame.file), len(functions) + 1)
                text = number_field(FieldOf.LINE_FUNCTION, function) + number_field(FieldOf.LINE_NUMBER, lines[level])
                content += bytes_field(FieldOf.LOCATION_LINE, text)
            yield bytes_field(FieldOf.LOCATION, content)
        for (name, symbol, file), function in functions.items():
            content = number_field(FieldOf.FUNCTION_ID, function)
            content += number_field(FieldOf.FUNCTION_NAME, self._strings[name])
            content += number_field(FieldOf.FUNCTION_SYMBOL, self._strings[symbol])
            content += number_field(FieldOf.FUNCTION_FILE, self._strings[file])
            yield bytes_field(FieldOf.FUNCTION, content)

    def _facts(self) -> Iterator[bytes]:
        stacks, about = self._stacks, self._about
        total = sum(stacks.samples)
        period = sum(stacks.periods) // total if total else 0
        duration = about.duration_ns
        if not duration and stacks.is_timed:
            duration = int(stacks.times[-1] - stacks.times[0]) + (period if stacks.sampling.is_clock else 0)
        yield number_field(FieldOf.TIME, about.time_ns)
        yield number_field(FieldOf.DURATION, duration)
        yield bytes_field(FieldOf.PERIOD_TYPE, self._type(self._event))
        yield number_field(FieldOf.PERIOD, period)
        if about.comments:
            yield packed_field(FieldOf.COMMENT, [self._strings[comment] for comment in about.comments])
        yield number_field(FieldOf.DEFAULT_TYPE, self._strings[CPU if self._cpu is not None else self._stacks.unit])


class _Labels:
    """Labels of samples as bytes, made once for each thread."""

    def __init__(self, strings: _Strings) -> None:
        self._strings = strings
        self._made: dict[tuple[str | None, int, int], bytes] = {}

    def of(self, comm: str | None, pid: int, tid: int) -> bytes:
        made = self._made.get((comm, pid, tid))
        if made is None:
            made = self._made[comm, pid, tid] = b"".join(self._fields(comm, pid, tid))
        return made

    def _fields(self, comm: str | None, pid: int, tid: int) -> Iterator[bytes]:
        if comm is not None:
            text = number_field(FieldOf.LABEL_TEXT, self._strings[comm])
            yield bytes_field(FieldOf.SAMPLE_LABEL, self._key(COMM_LABEL) + text)
        for name, number in ((PID_LABEL, pid), (TID_LABEL, tid)):
            if number != UNKNOWN_ID:
                content = self._key(name) + number_field(FieldOf.LABEL_NUMBER, number)
                yield bytes_field(FieldOf.SAMPLE_LABEL, content)

    def _key(self, name: str) -> bytes:
        return number_field(FieldOf.LABEL_KEY, self._strings[name])


@lru_cache(maxsize=1 << 16)
def _packed_values(values: tuple[int, ...]) -> bytes:
    return packed_field(FieldOf.SAMPLE_VALUES, values)


def _event(sampling: Sampling) -> ValueType:
    """What a period counts."""
    if sampling.is_clock:
        return ValueType(CPU, NANOSECONDS)
    return ValueType(sampling.event or EVENTS, COUNT)


def _by_stack(stacks: StackTree) -> Rows:
    """One row for each stack of each thread, neighbours in the tree beside each other."""
    rows = stacks.rows
    ranks = np.array(stacks.tree.preorder(), np.int64)[rows.nodes]
    order = np.lexsort((rows.tids, rows.pids, ranks))
    begins = np.ones(len(order), bool)
    same = np.ones(max(len(order) - 1, 0), bool)
    for column in (ranks, rows.pids, rows.tids):
        same &= column[order][1:] == column[order][:-1]
    begins[1:] = ~same
    starts = np.flatnonzero(begins)
    if not len(starts):
        return rows
    first = order[starts]
    return rows._replace(
        nodes=rows.nodes[first],
        tids=rows.tids[first],
        pids=rows.pids[first],
        samples=np.add.reduceat(rows.samples[order], starts),
        periods=np.add.reduceat(rows.periods[order], starts),
    )


def _frames_in(stacks: StackTree, rows: Rows, comm_of: Mapping[int, str]) -> Ints:
    """How many frames of all samples are of each location; -1 where none is, and for names of threads."""
    tree = stacks.tree
    weights = [0] * len(tree)
    for node, samples in zip(rows.nodes.tolist(), rows.samples.tolist(), strict=True):
        weights[node] += samples + 1  # one more, so that a sample without weight is not forgotten
    found = np.zeros(len(stacks.table.locations), np.int64)
    totals = np.array(tree.totals(weights), np.int64)
    is_frame = np.ones(len(tree), bool)
    is_frame[[ROOT, *comm_of]] = False
    np.add.at(found, np.array(tree.keys)[is_frame], totals[is_frame])
    found[found == 0] = -1
    return found


def _mapping(frames: Sequence[Frame], location: Location) -> _Mapping:
    """The mapping of a location, named so that :func:`kind_of_dso` finds its kind again; without a name if it has none."""
    frame = frames[location.frames[0]]
    dso = "" if frame.dso == UNMAPPED else frame.dso
    match frame.kind:
        case FrameKind.KERNEL | FrameKind.JIT if kind_of_dso(dso) is not frame.kind:
            dso = KERNEL_DSO if frame.kind is FrameKind.KERNEL else JIT_DSO
        case FrameKind.NATIVE | FrameKind.INLINED if kind_of_dso(dso) is not FrameKind.NATIVE:
            dso = ""
    return _Mapping(dso, location.build_id if dso else "")
