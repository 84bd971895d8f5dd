"""The engine's front door: a recording on disk to stacks, with everything that says how far to trust them."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ipuenv.engine import folding, parallelism, perfdata, quality
from ipuenv.engine.dso import DsoFinder, stored_files
from ipuenv.engine.kallsyms import KERNEL_DSO, KernelSymbols, read_kallsyms
from ipuenv.engine.symbolcache import SymbolCache
from ipuenv.engine.symbolize import Symbolizer
from ipuenv.ground.errors import UsageError

if TYPE_CHECKING:
    from ipuenv.engine.folding import StackTree
    from ipuenv.engine.parallelism import Parallelism
    from ipuenv.engine.perfdata import KernelCode, PerfData
    from ipuenv.engine.quality import Quality, Thresholds

LIVE_KALLSYMS = Path("/proc/kallsyms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recording that has been read: its facts, its stacks and their quality."""

    data: PerfData
    stacks: StackTree
    quality: Quality
    parallelism: Parallelism | None

    @property
    def events(self) -> tuple[str, ...]:
        """What perf really sampled, as perf names it; helper events that took no sample are left out."""
        sampled = set(np.unique(self.data.samples.event).tolist())
        return tuple(event.name for index, event in enumerate(self.data.events) if index in sampled)


def read(
    path: Path,
    *,
    stored: Iterable[Path] = (),
    kallsyms: Path | None = None,
    program_pid: int | None = None,
    cache: Path | None = None,
    thresholds: Thresholds | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Recording:
    """Read, symbolize and fold a perf.data.

    ``stored`` are executables kept with it, ``kallsyms`` the kernel's symbols saved with it (plain or ``.zst``); without
    them the running kernel's are used if they belong to the recording. ``program_pid`` is a process that perf was attached
    to before it became the program; what it did until then is left out. ``cache`` is a folder in which symbols are kept for
    the next time.

    Raises:
        UsageError: the file is no perf.data, or holds what is not served.
    """
    data = _read_file(path)
    if program_pid is not None:
        data = perfdata.since_exec(data, program_pid)
    kernel, reason = _kernel(data, kallsyms)
    kernel_build_id = data.features.build_ids.get(KERNEL_DSO, "")
    symbolizer = Symbolizer(DsoFinder(stored=stored_files(stored)), kernel, reason, kernel_build_id, SymbolCache(cache))
    stacks = folding.fold(data, symbolizer, on_progress)
    return Recording(
        data=data,
        stacks=stacks,
        quality=quality.assess(data, stacks, symbolizer, thresholds),
        parallelism=parallelism.measure(data),
    )


def _read_file(path: Path) -> PerfData:
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise UsageError(
            f"'{path}' is empty", expected="a perf.data", hint="record again: 'perf record -o perf.data'"
        ) from error
    except IsADirectoryError as error:
        raise UsageError(
            f"'{path}' is a folder, as 'perf record --threads' writes it",
            expected="a recording in one file",
            hint="record without --threads",
        ) from error
    except OSError as error:
        raise UsageError(
            f"'{path}' cannot be read: {error.strerror}", expected="a perf.data", hint="check the path and its rights"
        ) from error
    return perfdata.read(content, name=str(path))


def _kernel(data: PerfData, saved: Path | None) -> tuple[KernelSymbols | None, str]:
    """The kernel's symbols if they are of the recorded boot, else why there are none but those the recording brings."""
    path = saved if saved is not None and saved.exists() else LIVE_KALLSYMS
    brought = _code_lines(data.kernel_code)
    try:
        symbols = read_kallsyms(_text(path) + brought)
    except (OSError, ValueError) as error:
        return read_kallsyms(brought), f"'{path}' cannot be read: {error}"
    if symbols is None or (brought and not symbols.text_start):
        return read_kallsyms(brought), "the kernel hides its addresses (sysctl kernel.kptr_restrict)"
    recorded = {record.pgoff for record in data.tasks if isinstance(record, perfdata.Mmap) and record.is_kernel}
    if recorded and symbols.text_start not in recorded:
        return read_kallsyms(brought), f"'{path}' is of another boot than the recording"
    return symbols, ""


def _code_lines(code: Iterable[KernelCode]) -> str:
    """Code that the kernel made while it was recorded, BPF programs above all, as lines of kallsyms."""
    lines = [
        f"\n{part.start:016x} t {'_'.join(part.name.split()) or 'nameless'}\t[{'bpf' if part.is_bpf else 'ool'}]"
        for part in code
        if not part.is_gone
    ]
    return "".join(lines)


def _text(path: Path) -> str:
    if path.suffix == ".zst":
        import zstandard

        with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
            return reader.read().decode("utf-8", "replace")
    return path.read_text("utf-8", "replace")
