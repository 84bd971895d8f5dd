"""How many threads were on a CPU at a time: what frame widths cannot say.

A sample of a clock event stands for one sampling interval of CPU time of its thread. Summed over a slice of the run and
divided by the slice's length, that is the mean number of busy threads in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ipuenv.engine.folding import CLOCK_EVENTS
from ipuenv.engine.perfdata import Comm, Fork

if TYPE_CHECKING:
    from ipuenv.engine.perfdata import PerfData

_NANOSECONDS = 1e9
_INTERVALS_PER_SLICE = 10
_MAX_SLICES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadShare:
    """CPU time of one thread, in seconds, and its share of all threads' together (0 to 1)."""

    tid: int
    comm: str
    samples: int
    cpu_s: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """Busy threads over the time from the first sample to the last.

    ``busy`` holds the mean number in each slice of ``slice_s`` seconds; ``serial_share`` is the share of time in which
    one thread alone took samples, ``idle_share`` that in which none did (0 to 1); ``threads`` stand busiest first.
    """

    duration_s: float
    cpu_s: float
    mean_busy: float
    serial_share: float
    idle_share: float
    slice_s: float
    busy: tuple[float, ...]
    threads: tuple[ThreadShare, ...]


def measure(data: PerfData) -> Parallelism | None:
    """Measure a recording; None where its samples carry no time, or there are too few to say anything."""
    samples = data.samples
    if len(samples) < 2 or not data.has_time or not int(samples.time[-1]):
        return None
    cpu_s = _cpu_seconds(data)
    begin = float(samples.time[0]) / _NANOSECONDS
    interval_s = float(np.median(cpu_s))
    duration_s = float(samples.time[-1]) / _NANOSECONDS - begin + interval_s
    if duration_s <= 0 or interval_s <= 0:
        return None
    count = int(min(max(duration_s / (interval_s * _INTERVALS_PER_SLICE), 1), _MAX_SLICES))
    slice_s = duration_s / count
    which = np.minimum(((samples.time / _NANOSECONDS - begin) / slice_s).astype(np.int64), count - 1)
    busy = np.bincount(which, weights=cpu_s, minlength=count) / slice_s
    threads = np.bincount(np.unique(np.stack((which, samples.tid)), axis=1)[0], minlength=count)
    return Parallelism(
        duration_s=duration_s,
        cpu_s=float(cpu_s.sum()),
        mean_busy=float(cpu_s.sum() / duration_s),
        serial_share=float((threads == 1).mean()),
        idle_share=float((threads == 0).mean()),
        slice_s=slice_s,
        busy=tuple(busy.tolist()),
        threads=_threads(data, cpu_s),
    )


def _cpu_seconds(data: PerfData) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """What each sample stands for: its period where the event counts nanoseconds, else one sampling interval."""
    samples = data.samples
    per_event = np.ones(len(data.events))
    is_clock = np.zeros(len(data.events), bool)
    for index, event in enumerate(data.events):
        is_clock[index] = event.name.split(":")[0] in CLOCK_EVENTS
        per_event[index] = 1 / event.frequency_hz if event.frequency_hz else 0.0
    seconds: np.ndarray[tuple[int], np.dtype[np.float64]] = np.where(
        is_clock[samples.event], samples.period / _NANOSECONDS, per_event[samples.event]
    )
    return seconds


def _threads(data: PerfData, cpu_s: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[ThreadShare, ...]:
    distinct, inverse, counts = np.unique(data.samples.tid, return_inverse=True, return_counts=True)
    seconds = np.bincount(inverse, weights=cpu_s)
    whole = float(seconds.sum()) or 1.0
    comms = _last_names(data)
    shares = [
        ThreadShare(
            tid=int(tid), comm=comms.get(int(tid), ""), samples=int(count), cpu_s=float(used), share=float(used) / whole
        )
        for tid, count, used in zip(distinct, counts, seconds, strict=True)
    ]
    return tuple(sorted(shares, key=lambda share: -share.cpu_s))


def _last_names(data: PerfData) -> dict[int, str]:
    """What each thread was called at last; one that took no name has its parent's."""
    names: dict[int, str] = {}
    for record in data.tasks:
        match record:
            case Comm():
                names[record.tid] = record.comm
            case Fork():
                names[record.tid] = names.get(record.parent_tid, "")
    return names
