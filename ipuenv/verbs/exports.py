"""Whole stacks to files that other tools read: pprof, which is also what a run keeps, and speedscope's JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import ipuenv
from ipuenv.engine import pprof, speedscope
from ipuenv.engine.pprof import About
from ipuenv.engine.pprof_reader import read_pprof

if TYPE_CHECKING:
    from datetime import datetime

    from ipuenv.engine.folding import StackTree

PPROF, SPEEDSCOPE = "pprof", "speedscope"
FORMATS = (PPROF, SPEEDSCOPE)
_SUFFIXES = {PPROF: pprof.SUFFIX, SPEEDSCOPE: speedscope.SUFFIX}
_NANOSECONDS = 1_000_000_000
_MADE_BY = f"ipuenv {ipuenv.__version__}"
_TITLE, _NOTES = "title: ", "notes: "
_OURS = ("ipuenv ", _TITLE, _NOTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Stacks read back from a pprof file, with the title and notes of their pictures; empty where the file has none."""

    stacks: StackTree
    about: About
    title: str
    notes: str


def file_name(stem: str, form: str) -> str:
    """``<stem>.pb.gz`` or ``<stem>.speedscope.json``."""
    return stem + _SUFFIXES[form]


def stem_of(path: Path) -> str:
    """The stem of a pprof file's name, which has two suffixes mostly."""
    return path.name.removesuffix(pprof.SUFFIX) if path.name.endswith(pprof.SUFFIX) else path.stem


def about_run(stacks: StackTree, *, run_id: str, variant_id: str, started_at: datetime) -> About:
    """What a file of a run's variant says of its making."""
    time_ns = int(started_at.timestamp()) * _NANOSECONDS + started_at.microsecond * 1000
    return About(time_ns=time_ns, comments=(f"run {run_id}, variant {variant_id}", *_events(stacks)))


def about_file(stacks: StackTree) -> About:
    """What a file says of its making that is made from one that somebody brought."""
    return About(comments=_events(stacks))


def _events(stacks: StackTree) -> tuple[str, ...]:
    return (f"event {stacks.sampling.event}",) if stacks.sampling.event else ()


def export(stacks: StackTree, path: Path, *, form: str, title: str, notes: str, about: About) -> None:
    """Write stacks to a file in one of :data:`FORMATS`; title and notes are those of their pictures."""
    if form == PPROF:
        said = (_MADE_BY, f"{_TITLE}{title}", *([f"{_NOTES}{notes}"] if notes else []))
        with path.open("wb") as file:
            pprof.write_pprof(stacks, file, replace(about, comments=(*said, *about.comments)))
    else:
        with path.open("w", encoding="utf-8", newline="\n") as text:
            speedscope.write_speedscope(stacks, text, name=title, exporter=_MADE_BY)


def read(path: Path) -> Kept:
    """Read a pprof file, ours or another tool's.

    Raises:
        UsageError: it is none, or damaged.
    """
    found = read_pprof(path.read_bytes(), source=f"'{path}'")
    comments = found.about.comments
    return Kept(
        stacks=found.stacks,
        about=replace(found.about, comments=tuple(text for text in comments if not text.startswith(_OURS))),
        title=next((text.removeprefix(_TITLE) for text in comments if text.startswith(_TITLE)), ""),
        notes=next((text.removeprefix(_NOTES) for text in comments if text.startswith(_NOTES)), ""),
    )
