"""pprof: what is written and read again draws the same pictures; `go tool pprof` reads it as we mean it."""

from __future__ import annotations

import gzip
import io
import os
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipuenv.engine import pprof_reader, recording, views, wire
from ipuenv.engine.dso import DsoFinder
from ipuenv.engine.elf import read_elf
from ipuenv.engine.flamegraph import SvgOptions, render
from ipuenv.engine.folded import drawn_name, folded_lines, read_folded
from ipuenv.engine.folding import Sampling, StackTree, from_frame_tree
from ipuenv.engine.pprof import About, kind_of_dso, write_pprof
from ipuenv.engine.pprof_reader import Pprof, read_pprof
from ipuenv.engine.stacks import Frame, FrameKind, Label
from ipuenv.engine.symbolize import Symbolizer
from ipuenv.engine.views import View
from ipuenv.ground.errors import UsageError
from tests.engine.conftest import VARIANTS, Recorded, tool
from tests.engine.generated import (
    CLOCK,
    CYCLES,
    LIBRARY,
    PROGRAM,
    TREES,
    Sampled,
    native,
    stack_tree,
    threads_of,
)
from tests.engine.test_against_perf import sampled_vaddrs

WORK = View(name="work", elide=("rayon::*", "rayon_core::*", "crossbeam_*", "core::*"))
ALL_VIEWS = (*views.BUILT_IN, WORK)
ABOUT = About(time_ns=1_700_000_000_123_456_789, duration_ns=5_000_000_000, comments=("made by a test", "second"))


def written(stacks: StackTree, about: About | None = None) -> bytes:
    out = io.BytesIO()
    write_pprof(stacks, out, about)
    return out.getvalue()


def again(stacks: StackTree) -> StackTree:
    return read_pprof(written(stacks)).stacks


def assert_same_pictures(ours: StackTree, theirs: StackTree) -> None:
    assert theirs.total == ours.total
    for view in ALL_VIEWS:
        for weight in ("samples", "period"):
            mine, read = views.draw(ours, view, weight), views.draw(theirs, view, weight)
            assert list(folded_lines(read)) == list(folded_lines(mine))
            if mine.total:
                for is_deterministic in (True, False):
                    options = SvgOptions(deterministic=is_deterministic, min_width=0.0)
                    assert render(read, options) == render(mine, options)


# -- there and back -----------------------------------------------------------------------------------------------------


@given(TREES)
def test_any_stacks_come_back(stacks: StackTree) -> None:
    back = again(stacks)
    assert_same_pictures(stacks, back)
    assert not back.is_timed
    expected = Counter({(pid, tid, clean(names)): count for (pid, tid, names), count in threads_of(stacks).items()})
    assert threads_of(back) == expected
    assert (back.sampling.is_clock, back.sampling.interval_ns) == (
        stacks.sampling.is_clock,
        0 if stacks.sampling.is_clock else stacks.sampling.interval_ns,
    )


def clean(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.replace("\udcff", "\ufffd") for name in names)


@given(TREES)
def test_what_was_read_is_written_as_it_was(stacks: StackTree) -> None:
    first = written(stacks, ABOUT)
    read = read_pprof(first)
    assert read.about == ABOUT
    assert written(read.stacks, read.about) == first


@pytest.mark.parametrize("name", VARIANTS)
def test_a_recording_comes_back(recorded: Callable[[str], Recorded], name: str) -> None:
    stacks = recording.read(recorded(name).perf_data).stacks
    back = again(stacks)
    assert_same_pictures(stacks, back)
    assert threads_of(back) == threads_of(stacks)
    assert len(back.nodes) < len(stacks.nodes)
    ours = {(frame.name, frame.symbol, frame.dso, frame.file) for frame in stacks.table.frames}
    assert {(frame.name, frame.symbol, frame.dso, frame.file) for frame in back.table.frames} == ours


def test_folded_stacks_come_back() -> None:
    text = "a;f;g_[i];h_[i] 3\na;x_[i];x_[i] 2\nb;sys_[k];y_[i] 1\nb;j_[j] 5\na 7\n;f;[unknown];[libc.so.6] 1\n[no frames] 2\n"
    stacks = from_frame_tree(read_folded(text.encode()).tree)
    assert_same_pictures(stacks, again(stacks))
    assert again(stacks).rows.tids.tolist() == [-1] * 7


def test_labels_of_one_text_are_drawn_alike_whichever_came_first() -> None:
    """A function that is called like a thread, before and after it."""
    first = stack_tree([Sampled("x", 7, 7, (), 1), Sampled("a", 7, 8, (((native("x"),), (), ""),), 1)])
    last = stack_tree([Sampled("a", 7, 8, (((native("x"),), (), ""),), 1), Sampled("x", 7, 7, (), 1)])
    assert render(views.draw(first, views.FULL)) == render(views.draw(last, views.FULL))


def test_duration_is_from_the_first_sample_to_the_last_where_nothing_says_it() -> None:
    stacks = stack_tree([Sampled("a", 7, 7, (), 500)] * 4, sampling=CLOCK)
    assert read_pprof(written(stacks)).about.duration_ns == 3000 + 500
    assert read_pprof(written(replace(stacks, sampling=CYCLES))).about.duration_ns == 3000


def test_kinds_are_known_by_the_mapping() -> None:
    kinds = {
        FrameKind.KERNEL: ["[kernel.kallsyms]", "[nf_tables]", "[guest.kernel.kallsyms]", "[bpf]"],
        FrameKind.JIT: ["/tmp/perf-4121.map", "[JIT]"],
        FrameKind.NATIVE: [
            PROGRAM,
            LIBRARY,
            "[vdso]",
            "[vsyscall]",
            "[heap]",
            "[stack]",
            "[anon:x]",
            "[unknown]",
            "//anon",
            "",
        ],
    }
    for kind, paths in kinds.items():
        assert {kind_of_dso(path) for path in paths} == {kind}


# -- go tool pprof ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GoPprof:
    """`go tool pprof` in a home of its own, offline."""

    folder: Path
    env: dict[str, str]
    go: str

    def __call__(self, data: bytes, *options: str) -> str:
        file = self.folder / "stacks.pb.gz"
        file.write_bytes(data)
        # what it may not know it must not look up: symbols stay as they are in the file
        command = [self.go, "tool", "pprof", "-symbolize=none", *options, str(file)]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def go_pprof(tmp_path_factory: pytest.TempPathFactory) -> GoPprof:
    go = tool("go", "golang-go")
    folder = tmp_path_factory.mktemp("go")
    cache = subprocess.run([go, "env", "GOCACHE"], check=True, capture_output=True, text=True).stdout.strip()
    own = {"HOME": str(folder), "PPROF_TMPDIR": str(folder), "GOCACHE": cache, "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    return GoPprof(folder, {**os.environ, **own}, go)


@dataclass
class Raw:
    """What `go tool pprof -raw` prints: samples as (labels, names root first) and their values."""

    head: str
    samples: Counter[tuple[str, int, int, tuple[str, ...]]] = field(default_factory=Counter)
    values: list[tuple[int, ...]] = field(default_factory=list)
    lines: dict[int, list[tuple[str, str, int, str]]] = field(default_factory=dict)
    mappings: dict[str, tuple[str, set[str]]] = field(default_factory=dict)


_SAMPLE = re.compile(r"\s*((?:\d+ +)*\d+): ?([\d ]*)$")
_LABEL = re.compile(r"(\w+):\[(.*?)\](?= \w+:\[|$)")
_LOCATION = re.compile(r"\s*(\d+): 0x0 (?:M=\d+ )?(.*)$")
_LINE = re.compile(r"(.*) (\S*):(\d+)(?::\d+)? s=\d+(?:\((.*)\))?$")
_MAPPING = re.compile(r"\d+: 0x0/0x0/0x0 (\S+) (\S*) *((?:\[\w+\])*)$")


def read_raw(text: str) -> Raw:
    head, _, rest = text.partition("Samples:\n")
    samples, _, rest = rest.partition("Locations\n")
    locations, _, mappings = rest.partition("Mappings\n")
    raw = Raw(head)
    number = 0
    for line in locations.splitlines():
        begins = _LOCATION.match(line)
        number = int(begins[1]) if begins is not None else number
        found = _LINE.match(begins[2] if begins is not None else line.strip())
        assert found is not None, line
        raw.lines.setdefault(number, []).append((found[1], found[2], int(found[3]), found[4] or found[1]))
    blocks: list[tuple[re.Match[str], dict[str, str]]] = []
    for line in samples.splitlines()[1:]:
        begins = _SAMPLE.match(line)
        if begins is not None:
            blocks.append((begins, {}))
        else:
            blocks[-1][1].update(_LABEL.findall(line.strip()))
    for begins, labels in blocks:
        values = tuple(map(int, begins[1].split()))
        leaf_first = [name for location in map(int, begins[2].split()) for name, *_ in raw.lines[location]]
        thread = (labels["comm"], int(labels["pid"]), int(labels["tid"]))
        raw.samples[*thread, tuple(reversed(leaf_first))] += values[0]
        raw.values.append(values)
    for line in mappings.splitlines():
        found = _MAPPING.match(line)
        assert found is not None, line
        raw.mappings[found[1]] = (found[2], set(re.findall(r"\w+", found[3])))
    return raw


def expected_samples(stacks: StackTree) -> Counter[tuple[str, int, int, tuple[str, ...]]]:
    found: Counter[tuple[str, int, int, tuple[str, ...]]] = Counter()
    for (pid, tid, (comm, *names)), samples in threads_of(stacks).items():
        found[comm, pid, tid, tuple(names)] += samples
    return found


@pytest.mark.parametrize("name", ["rust-legacy", "c++"])
def test_go_reads_every_sample_thread_and_inlined_line(
    recorded: Callable[[str], Recorded], go_pprof: GoPprof, name: str
) -> None:
    made = recorded(name)
    read = recording.read(made.perf_data)
    raw = read_raw(go_pprof(written(read.stacks, ABOUT), "-raw"))
    assert raw.samples == expected_samples(read.stacks)
    assert max(map(len, raw.lines.values())) > 2, "the program must have inlined frames for this to prove anything"
    assert tuple(map(sum, zip(*raw.values, strict=True))) == (read.stacks.total, sum(read.stacks.periods))
    build_id, flags = raw.mappings[str(made.program)]
    assert build_id == build_id_of(made.program)
    assert flags == {"FN", "FL", "LN", "IN"}
    assert "PeriodType: cpu nanoseconds" in raw.head
    assert "Time: 2023-11-14 22:13:20.123456789 +0000 UTC" in raw.head
    assert re.search(r"^Duration: 5(\.0+|s)$", raw.head, re.MULTILINE)
    assert "Comment: made by a test\nComment: second\n" in raw.head
    assert next(iter(raw.mappings)) == str(made.program), "pprof takes the first mapping for the program"


def build_id_of(program: Path) -> str:
    printed = subprocess.run(["readelf", "-n", program], check=True, capture_output=True, text=True).stdout
    return str(re.findall(r"Build ID: (\w+)", printed)[0])


def test_go_counts_functions_as_we_do(recorded: Callable[[str], Recorded], go_pprof: GoPprof) -> None:
    made = recorded("rust-legacy")
    stacks = recording.read(made.perf_data).stacks
    flat: Counter[str] = Counter()
    cum: Counter[str] = Counter()
    for (_, _, _, names), samples in expected_samples(stacks).items():
        flat[names[-1]] += samples
        for name in set(names):
            cum[name] += samples
    options = ("-top", "-sample_index=samples", "-nodecount=100000", "-nodefraction=0", "-edgefraction=0")
    head, _, table = go_pprof(written(stacks), *options).partition("flat%   sum%        cum   cum%\n")
    assert f"{stacks.total} total" in head
    assert f"File: {made.program.name}" in head
    assert f"Build ID: {build_id_of(made.program)}" in head
    rows = [line.split(maxsplit=5) for line in table.splitlines()]
    theirs = {re.sub(r" \((partial-)?inline\)$", "", name): (int(own), int(all_)) for own, _, _, all_, _, name in rows}
    assert theirs == {name: (flat[name], cum[name]) for name in cum}
    only = go_pprof(written(stacks), *options, "-tagfocus=comm=^worker 2$")
    of_worker = sum(count for (comm, *_), count in expected_samples(stacks).items() if comm == "worker 2")
    assert re.search(rf"accounting for {of_worker}, \d.* of {stacks.total} total", only)


def test_go_writes_what_we_read(recorded: Callable[[str], Recorded], go_pprof: GoPprof, tmp_path: Path) -> None:
    """Its encoder packs no short lists, orders tables by itself and is the one that most files come from."""
    stacks = recording.read(recorded("rust-legacy").perf_data).stacks
    go_pprof(written(stacks, ABOUT), "-proto", f"-output={tmp_path / 'theirs.pb.gz'}")
    read = read_pprof((tmp_path / "theirs.pb.gz").read_bytes())
    assert_same_pictures(stacks, read.stacks)
    assert threads_of(read.stacks) == threads_of(stacks)
    assert read.about == ABOUT


@pytest.mark.parametrize(
    ("sampling", "types", "period"),
    [
        (CLOCK, "samples/count cpu/nanoseconds[dflt]", ("cpu nanoseconds", 10)),
        (CYCLES, "samples/count cpu/nanoseconds[dflt] cycles:P/count", ("cycles:P count", 10)),
        (Sampling(event="cache-misses"), "samples/count[dflt] cache-misses/count", ("cache-misses count", 10)),
        (Sampling(), "samples/count[dflt] events/count", ("events count", 10)),
    ],
)
def test_values_are_what_the_event_tells(
    go_pprof: GoPprof, sampling: Sampling, types: str, period: tuple[str, int]
) -> None:
    stacks = stack_tree([Sampled("a", 7, 7, (((native("f"),), (), ""),), 10)] * 3, sampling=sampling)
    raw = go_pprof(written(stacks), "-raw")
    assert f"Samples:\n{types}\n" in raw
    assert f"PeriodType: {period[0]}\nPeriod: {period[1]}\n" in raw
    values = {"samples": 3, "cpu": 30 if sampling.is_clock else 3_000_000}
    expected = [values.get(kind.split("/")[0], 30) for kind in types.split()]
    assert read_raw(raw).values == [tuple(expected)]


def test_go_accepts_whatever_a_tree_may_hold(go_pprof: GoPprof) -> None:
    text = b"a;f;g_[i] 3\nb;sys_[k] 1\n[no frames] 2\n"
    for stacks in (
        from_frame_tree(read_folded(text).tree),
        stack_tree([Sampled("\udcff", 7, 0, (), 0)], sampling=CLOCK),
    ):
        assert "Samples:" in go_pprof(written(stacks), "-raw")


# -- lines --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VARIANTS)
def test_lines_equal_addr2line(recorded: Callable[[str], Recorded], name: str) -> None:
    program, perf_data = recorded(name).program, recorded(name).perf_data
    vaddrs = sampled_vaddrs(program, perf_data)[:200]
    elf, symbolizer = read_elf(program.read_bytes()), Symbolizer(DsoFinder(), None)
    ours = []
    for vaddr in vaddrs:
        segment = next(s for s in elf.segments if s.vaddr <= vaddr < s.vaddr + s.size)
        place = symbolizer.place_at(str(program), elf.build_id, vaddr - segment.vaddr + segment.file_offset)
        lines = zip(reversed(place.frames), reversed(place.lines), strict=True)
        ours.append([(Path(frame.file).name, line) for frame, line in lines])
    assert ours == addr2line_lines(program, vaddrs)


def addr2line_lines(program: Path, vaddrs: list[int]) -> list[list[tuple[str, int]]]:
    """File names and lines, innermost first."""
    command = ["addr2line", "-a", "-i", "-e", str(program), *map(hex, vaddrs)]
    found: list[list[tuple[str, int]]] = []
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("0x"):
            found.append([])
            continue
        path, _, number = line.split(" (discriminator")[0].rpartition(":")
        found[-1].append((Path(path).name.replace("??", ""), int(number) if number.isdigit() else 0))
    return found


# -- other tools' files -------------------------------------------------------------------------------------------------


Part = tuple[int, int | bytes | list[int]]


def message(*parts: Part) -> bytes:
    """A message of numbers, texts or messages, and packed lists."""
    encoded = b""
    for number, value in parts:
        match value:
            case int():
                encoded += wire.varint(number << 3) + wire.varint(value)
            case bytes():
                encoded += wire.bytes_field(number, value)
            case list():
                encoded += wire.packed_field(number, value)
    return encoded


TEXTS = [
    b"",
    b"alloc_space",
    b"bytes",
    b"inuse",
    b"count",
    b"main",
    b"grow",
    b"heap.go",
    b"samples",
    b"thread_id",
    b"/bin/go",
]
STRINGS: list[Part] = [(6, text) for text in TEXTS]
TABLES: list[Part] = [
    (3, message((1, 1), (5, 10))),
    (4, message((1, 40), (2, 1), (3, 0x1234), (4, message((1, 2), (2, 9))), (4, message((1, 1), (2, 3))))),
    (4, message((1, 90), (2, 1), (3, 0x9999))),
    (4, message((1, 7))),
    (5, message((1, 1), (2, 5), (4, 7))),
    (5, message((1, 2), (2, 6), (3, 6), (4, 7))),
]


def foreign(*samples: bytes, types: tuple[tuple[int, int], ...] = ((1, 2), (3, 4)), default: int = 0) -> Pprof:
    parts: list[Part] = [(1, message((1, name), (2, unit))) for name, unit in types]
    parts += [*((2, sample) for sample in samples), *TABLES, (14, default), *STRINGS]
    return read_pprof(message(*parts))


def lines_of(stacks: StackTree) -> list[str]:
    return list(folded_lines(views.draw(stacks, views.FULL)))


def test_a_file_of_another_tool() -> None:
    """Addresses instead of names, no thread names, ids with gaps, lists that are not packed, a value of its own."""
    read = foreign(message((1, 40), (1, 90), (2, 100), (2, 3)), message((1, [90, 7]), (2, [5, 1])), default=1).stacks
    assert lines_of(read) == ["[go];main;grow_[i] 100", "[unknown];[go] 5"]
    assert views.draw(read, views.FULL).unit == "bytes"
    assert read.rows.tids.tolist() == [-1, -1]


def test_without_a_default_the_last_value_counts_and_samples_beat_both() -> None:
    assert lines_of(foreign(message((1, 40), (2, [100, 3]))).stacks) == ["main;grow_[i] 3"]
    both = foreign(message((1, 40), (2, [100, 3])), types=((1, 2), (8, 4)), default=1).stacks
    assert (lines_of(both), both.unit) == (["main;grow_[i] 3"], "samples")


def test_threads_by_the_name_that_go_gives_them() -> None:
    label = message((1, 9), (3, 77))
    assert foreign(message((1, 40), (2, [1, 1]), (3, label))).stacks.rows.tids.tolist() == [77]


def test_uncompressed_and_joined_files_are_read() -> None:
    data = gzip.decompress(written(stack_tree([Sampled("a", 7, 7, (), 1)])))
    half = len(data) // 2
    for whole in (data, gzip.compress(data[:half]) + gzip.compress(data[half:]) + bytes(64)):
        assert read_pprof(whole).stacks.total == 1


# -- hostile ------------------------------------------------------------------------------------------------------------

SMALL = stack_tree(
    [
        Sampled("a", 7, 7, (((native("f"), Frame("g", FrameKind.INLINED, "g", PROGRAM)), (3, 4), "ab"),), 10),
        Sampled("b", 7, 300, (((native("f"),), (), "ab"), ((native("h"),), (), "ab")), 2**60),
    ],
    sampling=CYCLES,
)


def survives(data: bytes) -> None:
    """Reading ends in stacks that can be drawn, or in an error that says what it is about."""
    try:
        stacks = read_pprof(data, source="'x'").stacks
    except UsageError as error:
        what = error.what
    else:
        assert views.draw(stacks, views.FULL).total == stacks.total
        return
    assert what.startswith("'x' is no pprof file, or a damaged one: ")


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_file_cut_short_anywhere(is_compressed: bool) -> None:
    data = written(SMALL, ABOUT)
    data = data if is_compressed else gzip.decompress(data)
    for length in range(len(data)):
        survives(data[:length])


def test_bytes_flipped_at_random() -> None:
    whole = gzip.decompress(written(SMALL, ABOUT))
    draw = random.Random(5)
    for _ in range(4000):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        survives(bytes(data))


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    survives(data)
    survives(gzip.compress(data))


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([(6, b""), (2, message((2, [1])))], "0 types"),
        ([(6, b""), (1, b"")], "it holds no sample"),
        ([(1, b"")], "it has no table of strings"),
        ([*STRINGS, (1, b""), (2, message((1, [4]), (2, [1])))], "names a location that is not there"),
        ([*STRINGS, (1, b""), (2, message((2, [1, 2])))], "2 values for 1 samples of 1 types"),
        ([*STRINGS, (1, b""), (2, message((2, [-1])))], "it holds negative values"),
        ([*STRINGS, (1, b""), (2, message((2, [2**62]))), (2, message((2, [2**62])))], "more than 64 bits hold"),
        ([*STRINGS, (1, b""), *TABLES, (2, message((1, [7] * (2**16 + 1)), (2, [1])))], "65,537 frames"),
        ([*STRINGS, (1, b""), (4, message((1, 1), (2, 99)))], "its tables do not fit together"),
        ([*STRINGS, (5, message((1, 1), (2, 99)))], "its tables do not fit together"),
        ([*STRINGS, (2, 5)], "field 2 holds a number"),
    ],
)
def test_what_is_wrong_is_said(parts: list[Part], reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        read_pprof(message(*parts))
    assert "profile.proto" in caught.value.expected


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pprof_reader, "MAX_BYTES", 4 << 20)
    bomb = gzip.compress(bytes(64 << 20))
    with pytest.raises(UsageError, match="unpacks to more than 4 MiB"):
        read_pprof(bomb)


def test_names_are_drawn_as_in_the_recording() -> None:
    """A name that is no UTF-8 cannot be kept as it is; its picture is the same."""
    frame = native("raw\udcff\udcfe")
    stacks = stack_tree([Sampled("a", 7, 7, (((frame,), (), ""),), 1)])
    label = next(frame.label for frame in again(stacks).table.frames if frame.kind is FrameKind.NATIVE)
    assert label == Label("raw\ufffd\ufffd", FrameKind.NATIVE)
    assert drawn_name(label) == drawn_name(frame.label)
