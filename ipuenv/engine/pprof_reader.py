"""Reading pprof files back to stacks: ours, so that every view is drawn again without symbols, and other tools'.

The tables are read one by one; samples, of which there may be millions, are only cut into pieces, whose numbers are then
decoded together. Format and conventions: :mod:`ipuenv.engine.pprof`.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ipuenv.engine import wire
from ipuenv.engine.folding import UNKNOWN_ID, Sampling, StackTree, grow, leading, shared_levels, summed
from ipuenv.engine.pprof import (
    COMM_LABEL,
    COUNT,
    CPU,
    EVENTS,
    INLINED_SUFFIX,
    NANOSECONDS,
    PID_LABEL,
    SAMPLES,
    TID_LABEL,
    About,
    FieldOf,
    ValueType,
    kind_of_dso,
    nameless,
)
from ipuenv.engine.stacks import ROOT, Frame, FrameKind, PrefixTree
from ipuenv.engine.symbolize import UNMAPPED, LocationTable
from ipuenv.engine.wire import LENGTH, DamagedError, Field
from ipuenv.ground.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Words = npt.NDArray[np.uint64]

GZIP_MAGIC = b"\x1f\x8b"

MAX_BYTES = 1 << 30
"""A file that holds more, unpacked, is refused: it is no profile, or one that no tool would show."""

MAX_FRAMES = 1 << 16
"""A stack with more frames is refused; perf stops at 127 unless told otherwise."""

_CHUNK_SAMPLES = 1 << 14
_UNPACK_BYTES = 1 << 20
_FUNCTION_TEXTS = (FieldOf.FUNCTION_NAME, FieldOf.FUNCTION_SYMBOL, FieldOf.FUNCTION_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pprof:
    """A file that was read: stacks, with a row for each stack of each thread and without times, and its making."""

    stacks: StackTree
    about: About


def read_pprof(data: bytes, *, source: str = "the pprof file") -> Pprof:
    """Read a ``profile.proto``, compressed or not; ``source`` names it in errors.

    A stack begins with its sample's ``comm``, if it has one. Weights are its ``samples`` where there are such, else the
    value that the file names as its default.

    Raises:
        UsageError: it is no pprof file, is damaged, holds no sample, or holds differences.
    """
    try:
        return _Reader(_unpacked(data)).read()
    except (DamagedError, zlib.error, IndexError, KeyError, OverflowError) as error:
        reason = str(error) if isinstance(error, DamagedError | zlib.error) else "its tables do not fit together"
        raise UsageError(
            f"{source} is no pprof file, or a damaged one: {reason}",
            expected="a profile.proto, as 'ipuenv render --format pprof' and 'go tool pprof -proto' write it",
            hint="give another file; 'go tool pprof -raw FILE' shows what is in it",
        ) from error


def _unpacked(data: bytes) -> bytes:
    """The message itself. What a small file claims to grow to is not believed."""
    if not data.startswith(GZIP_MAGIC):
        return data
    parts: list[bytes] = []
    size = 0
    while data:
        inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while not inflate.eof:
            part = inflate.decompress(data, _UNPACK_BYTES)
            data = inflate.unconsumed_tail
            size += len(part)
            if size > MAX_BYTES:
                raise DamagedError(f"it unpacks to more than {MAX_BYTES >> 20} MiB")
            if not part and not data and not inflate.eof:
                raise DamagedError("it is cut off")
            parts.append(part)
        data = inflate.unused_data.lstrip(b"\0")  # members may follow each other, with padding behind the last
    return b"".join(parts)


class _Function(NamedTuple):
    name: str
    symbol: str
    file: str


class _Mapping(NamedTuple):
    file: str
    build_id: str


class _Labels(NamedTuple):
    """What a sample's labels say of its thread."""

    comm: str | None = None
    pid: int = UNKNOWN_ID
    tid: int = UNKNOWN_ID


@dataclass(slots=True)
class _Pieces:
    """Samples as bytes: location ids and values of all, and for each how much of the former, and its labels' number."""

    stacks: bytearray = field(default_factory=bytearray)
    stack_sizes: list[int] = field(default_factory=list)
    values: bytearray = field(default_factory=bytearray)
    labels: list[int] = field(default_factory=list)


class _Reader:
    """Takes one message apart."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._parts: dict[int, list[Field]] = defaultdict(list)
        for part in wire.fields(data, 0, len(data)):
            self._parts[part[0]].append(part)
        self._texts = [self._text(part) for part in self._parts[FieldOf.STRING]]
        if not self._texts or self._texts[0]:
            raise DamagedError("it has no table of strings")
        self._mappings = dict(map(self._mapping, self._parts[FieldOf.MAPPING]))
        self._functions = dict(map(self._function, self._parts[FieldOf.FUNCTION]))
        self._table = LocationTable()

    def read(self) -> Pprof:
        """The whole file."""
        places = dict(map(self._place, self._parts[FieldOf.LOCATION]))
        pieces, labels = self._cut()
        if not pieces.labels:
            raise DamagedError("it holds no sample")
        comments = [self._texts[index] for part in self._parts[FieldOf.COMMENT] for index in self._list(part)]
        about = About(
            time_ns=self._number(FieldOf.TIME), duration_ns=self._number(FieldOf.DURATION), comments=tuple(comments)
        )
        return Pprof(stacks=self._stacks(places, pieces, labels), about=about)

    # -- tables -------------------------------------------------------------------------------------------------------

    def _fields(self, inside: Field) -> Iterator[Field]:
        """Fields of a message that is a field itself."""
        number, kind, _, start, end = inside
        if kind != LENGTH:
            raise DamagedError(f"field {number} holds a number instead of a message")
        return wire.fields(self._data, start, end)

    def _values(self, inside: Field) -> dict[int, int]:
        """Numbers of a message by field, the last of each."""
        return {number: value for number, _, value, _, _ in self._fields(inside)}

    def _text(self, found: Field) -> str:
        return self._data[found[3] : found[4]].decode("utf-8", "replace")

    def _number(self, field_number: int) -> int:
        found = self._parts[field_number]
        return _signed(found[-1][2]) if found else 0

    def _list(self, found: Field) -> list[int]:
        """Numbers of a repeated field, packed or not."""
        numbers: list[int] = wire.column(self._data[found[3] : found[4]]).tolist()
        return numbers

    def _type(self, found: Field) -> ValueType:
        values = self._values(found)
        return ValueType(self._texts[values.get(FieldOf.TYPE_NAME, 0)], self._texts[values.get(FieldOf.TYPE_UNIT, 0)])

    def _mapping(self, found: Field) -> tuple[int, _Mapping]:
        values = self._values(found)
        texts = (self._texts[values.get(number, 0)] for number in (FieldOf.MAPPING_FILE, FieldOf.MAPPING_BUILD_ID))
        return values.get(FieldOf.MAPPING_ID, 0), _Mapping(*texts)

    def _function(self, found: Field) -> tuple[int, _Function]:
        values = self._values(found)
        texts = (self._texts[values.get(number, 0)] for number in _FUNCTION_TEXTS)
        return values.get(FieldOf.FUNCTION_ID, 0), _Function(*texts)

    def _place(self, found: Field) -> tuple[int, int]:
        """A location of the file, by its id, as one of ours."""
        values = self._values(found)
        mapping_id = values.get(FieldOf.LOCATION_MAPPING, 0)
        mapping = self._mappings[mapping_id] if mapping_id else _Mapping("", "")
        lines = [self._line(part) for part in self._fields(found) if part[0] == FieldOf.LOCATION_LINE]
        lines.reverse()
        numbers = tuple(number for _, number in lines)
        frames = _frames([function for function, _ in lines], mapping.file)
        location = self._table.location(frames, numbers if any(numbers) else (), mapping.build_id)
        return values.get(FieldOf.LOCATION_ID, 0), location

    def _line(self, found: Field) -> tuple[_Function, int]:
        values = self._values(found)
        return self._functions[values.get(FieldOf.LINE_FUNCTION, 0)], _signed(values.get(FieldOf.LINE_NUMBER, 0))

    # -- samples ------------------------------------------------------------------------------------------------------

    def _cut(self) -> tuple[_Pieces, list[_Labels]]:
        """Cut the samples into pieces; the labels of equal threads are read once."""
        data, pieces = self._data, _Pieces()
        seen: dict[bytes, int] = {}
        for sample in self._parts[FieldOf.SAMPLE]:
            at = sample[3]
            labels_at = -1
            stack_size = len(pieces.stacks)
            for number, _, _, start, end in self._fields(sample):
                if number == FieldOf.SAMPLE_LOCATIONS:
                    pieces.stacks += data[start:end]
                elif number == FieldOf.SAMPLE_VALUES:
                    pieces.values += data[start:end]
                elif number == FieldOf.SAMPLE_LABEL and labels_at < 0:
                    labels_at = at
                at = end
            pieces.stack_sizes.append(len(pieces.stacks) - stack_size)
            labels = data[labels_at : sample[4]] if labels_at >= 0 else b""
            pieces.labels.append(seen.setdefault(labels, len(seen)))
        return pieces, [self._labels(labels) for labels in seen]

    def _labels(self, encoded: bytes) -> _Labels:
        """What labels say, the last of each key; Go's runtime calls a thread ``thread_id``."""
        found = _Labels()
        for field_number, kind, _, start, end in wire.fields(encoded, 0, len(encoded)):
            if field_number != FieldOf.SAMPLE_LABEL or kind != LENGTH:
                continue
            values = {number: value for number, _, value, _, _ in wire.fields(encoded, start, end)}
            key = self._texts[values.get(FieldOf.LABEL_KEY, 0)]
            number = _signed(values.get(FieldOf.LABEL_NUMBER, 0))
            if key == COMM_LABEL:
                found = found._replace(comm=self._texts[values.get(FieldOf.LABEL_TEXT, 0)])
            elif key == PID_LABEL:
                found = found._replace(pid=number)
            elif key in (TID_LABEL, "thread_id"):
                found = found._replace(tid=number)
        return found

    def _stacks(self, places: dict[int, int], pieces: _Pieces, labels: list[_Labels]) -> StackTree:
        tree = PrefixTree()
        which = np.array(pieces.labels, np.int64)
        tops = np.array([self._top(tree, label) for label in labels], np.int64)[which]
        nodes = _grown(tree, places, pieces, tops)
        samples, periods, sampling, unit = self._weights(pieces)
        return StackTree(
            table=self._table,
            tree=tree,
            samples=summed(nodes, samples, len(tree)),
            periods=summed(nodes, periods, len(tree)),
            nodes=nodes,
            times=np.zeros(0, np.uint64),
            tids=np.array([label.tid for label in labels], np.int64)[which],
            pids=np.array([label.pid for label in labels], np.int64)[which],
            row_samples=samples,
            row_periods=periods,
            sampling=sampling,
            unit=unit,
        )

    def _top(self, tree: PrefixTree, label: _Labels) -> int:
        """The node that the stacks of a thread begin with; the root where no label names the thread."""
        if label.comm is None:
            return ROOT
        return tree.child(ROOT, self._table.location([Frame(label.comm, FrameKind.COMM, label.comm, "")]))

    # -- values -------------------------------------------------------------------------------------------------------

    def _weights(self, pieces: _Pieces) -> tuple[Ints, Words, Sampling, str]:
        """Samples and periods of each row, what was counted, and what a sample is."""
        types = [self._type(part) for part in self._parts[FieldOf.PROFILE_TYPE]]
        rows, values = len(pieces.labels), wire.column(pieces.values).view(np.int64)
        if not types or len(values) != rows * len(types):
            raise DamagedError(f"it has {len(values):,} values for {rows:,} samples of {len(types)} types")
        if (values < 0).any():
            raise DamagedError("it holds negative values, so it is the difference of two")
        columns = dict(zip(types, values.reshape(rows, len(types)).T, strict=True))
        chosen = _chosen(types, self._texts[self._number(FieldOf.DEFAULT_TYPE)])
        cpu = next((kind for kind in types if kind == (CPU, NANOSECONDS)), None)
        asked = [self._type(part) for part in self._parts[FieldOf.PERIOD_TYPE]]
        counted = next((kind for kind in asked if kind in columns), cpu or chosen)
        samples, periods = np.ascontiguousarray(columns[chosen]), np.ascontiguousarray(columns[counted])
        _refuse_huge(samples, periods)
        is_clock = counted == cpu
        total = int(samples.sum())
        sampling = Sampling(
            event="" if is_clock or counted == chosen or counted.name == EVENTS else counted.name,
            is_clock=is_clock,
            interval_ns=round(int(columns[cpu].sum()) / total) if cpu is not None and not is_clock and total else 0,
        )
        unit = chosen.name if chosen.unit == COUNT or chosen.name == SAMPLES else chosen.unit
        return samples, periods.astype(np.uint64), sampling, unit


def _grown(tree: PrefixTree, places: dict[int, int], pieces: _Pieces, tops: Ints) -> npt.NDArray[np.int32]:
    """Add the stacks of all samples to the tree; their nodes."""
    place_ids = np.array(sorted(places), np.uint64)
    located = np.array([places[place_id] for place_id in sorted(places)], np.int64)
    sizes = np.array(pieces.stack_sizes, np.int64)
    borders = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    nodes = np.zeros(len(sizes), np.int32)
    for begin in range(0, len(sizes), _CHUNK_SAMPLES):
        end = min(begin + _CHUNK_SAMPLES, len(sizes))
        part = pieces.stacks[borders[begin] : borders[end]]
        lengths = wire.counts(part, sizes[begin:end])
        if lengths.max() > MAX_FRAMES:
            raise DamagedError(f"a stack has {lengths.max():,} frames")
        ids = wire.column(part)
        index = np.searchsorted(place_ids, ids)
        if len(ids) and (not len(place_ids) or (place_ids[np.minimum(index, len(place_ids) - 1)] != ids).any()):
            raise DamagedError("a stack names a location that is not there")
        chains, ends, top = located[index], np.cumsum(lengths), tops[begin:end]
        shared = shared_levels(chains, ends, lengths, top[1:] == top[:-1])
        fresh = lengths - shared
        nodes[begin:end] = grow(tree, leading(chains, ends - lengths, fresh).tolist(), fresh, shared, top.tolist())
    return nodes


def _chosen(types: Sequence[ValueType], default: str) -> ValueType:
    """The value that is taken for samples: those, else the file's default, else pprof's, the last."""
    for wanted in (SAMPLES, default):
        for kind in types:
            if kind.name == wanted:
                return kind
    return types[-1]


def _refuse_huge(*columns: Ints) -> None:
    """Sums must stay whole: beyond 2**63 they would turn over."""
    if any(column.sum(dtype=np.float64) >= 2.0**63 for column in columns):
        raise DamagedError("its values add up to more than 64 bits hold")


def _frames(functions: Sequence[_Function], dso: str) -> list[Frame]:
    """Frames of a location, from its functions, outermost first."""
    kind = kind_of_dso(dso)
    if not functions or (not functions[0].symbol and functions[0].name == nameless(dso)):
        is_kernel = kind is FrameKind.KERNEL
        unknown = Frame(nameless(dso), kind if is_kernel else FrameKind.UNKNOWN, "", dso or UNMAPPED)
        return [unknown, *(_frame(function, FrameKind.INLINED, dso) for function in functions[1:])]
    outermost, *inlined = functions
    if outermost.symbol == outermost.name + INLINED_SUFFIX:
        outermost, kind = outermost._replace(symbol=outermost.name), FrameKind.INLINED
    return [_frame(outermost, kind, dso), *(_frame(function, FrameKind.INLINED, dso) for function in inlined)]


def _frame(function: _Function, kind: FrameKind, dso: str) -> Frame:
    return Frame(function.name or function.symbol, kind, function.symbol or function.name, dso, function.file)


def _signed(number: int) -> int:
    """A 64-bit number as the signed one that it stands for."""
    return number - (1 << 64) if number >> 63 else number
