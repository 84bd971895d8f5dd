"""``render``: pictures and text from a run, a perf.data or folded stacks that exist already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ipuenv.engine import recording, views
from ipuenv.engine.flamegraph import SvgOptions
from ipuenv.engine.folded import read_folded
from ipuenv.engine.folding import StackTree, from_frame_tree
from ipuenv.engine.views import View
from ipuenv.ground.errors import UsageError
from ipuenv.stages import store
from ipuenv.verbs import pictures
from ipuenv.verbs.variant_stages import KALLSYMS, PERF_DATA

if TYPE_CHECKING:
    from ipuenv.engine.quality import Quality
    from ipuenv.ground.console import Console
    from ipuenv.stages.manifest import RunManifest, VariantManifest
    from ipuenv.stages.store import Named

_PERF_MAGICS = (b"PERFILE2", b"2ELIFREP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Stacks to draw: what they are called, which views they have and how they are drawn."""

    stem: str
    stacks: StackTree
    views: Mapping[str, View]
    svg: SvgOptions
    quality: Quality | None = None
    remarks: tuple[str, ...] = ()


def render(
    name: str,
    *,
    root: Path,
    collection: str | None,
    wanted: Sequence[str],
    form: str,
    folder: Path,
    console: Console,
) -> list[Path]:
    """Draw views of what ``name`` stands for into ``folder``; the files that were written.

    Raises:
        UsageError: nothing has that name, it is no recording, a view or format is not known, or the folder is a run's.
    """
    if form not in pictures.FORMATS:
        raise UsageError(
            f"there is no format '{form}'",
            expected=f"one of {', '.join(pictures.FORMATS)}",
            hint=f"--format {pictures.SVG}",
        )
    named = store.resolve(name, root=root, collection=collection)
    _refuse_runs(folder)
    written: list[Path] = []
    for source in _sources(named, console):
        for remark in source.remarks:
            console.warn(remark)
        chosen = pictures.pick(source.views, wanted)
        folder.mkdir(parents=True, exist_ok=True)
        with console.step(f"drawing {source.stem}") as step:
            drawn = pictures.draw(source.stacks, chosen, folder, stem=source.stem, svg=source.svg, form=form)
            step.note = ", ".join(drawn)
        written += [picture.path for picture in drawn.values()]
    return written


def _refuse_runs(folder: Path) -> None:
    """A published run never changes, so nothing is drawn into one."""
    for candidate in (folder.absolute(), *folder.absolute().parents):
        if store.is_run_id(candidate.name) and (candidate / store.MANIFEST).exists():
            raise UsageError(
                f"'{folder}' belongs to the stored run '{candidate.name}'",
                expected="a folder outside the runs, which never change",
                hint="name another folder: -o /tmp/pictures",
            )


def _sources(named: Named, console: Console) -> list[Source]:
    if named.run is None or named.file is not None:
        return [_from_file(named.path, console)]
    run = store.read_manifest(named.run)
    variants = [variant for variant in run.variants if named.variant in (None, variant.id)]
    drawable = [variant for variant in variants if variant.recording is not None]
    if not drawable:
        raise UsageError(
            f"'{named.path}' holds no recording",
            expected="a run with at least one recorded variant",
            hint="list the runs: ipuenv artifacts.list",
        )
    several = len(drawable) > 1
    return [_from_variant(named.run, run, variant, console, several=several) for variant in drawable]


def _from_variant(
    folder: Path, run: RunManifest, variant: VariantManifest, console: Console, *, several: bool
) -> Source:
    inside = folder / variant.id
    stored = [inside / variant.executable.name] if variant.executable is not None else []
    with console.step(f"reading {variant.id}") as step:
        read = recording.read(
            inside / PERF_DATA,
            stored=stored,
            kallsyms=inside / KALLSYMS,
            program_pid=variant.recording.program_pid if variant.recording is not None else None,
        )
        step.note = f"{read.quality.samples:,} samples"
    return Source(
        stem=f"{run.profile.name}-{variant.id}" if several else run.profile.name,
        stacks=read.stacks,
        views={name: View(name=name, inline=view.inline, elide=view.elide) for name, view in variant.views.items()},
        svg=SvgOptions(
            title=run.profile.title,
            notes=variant.notes,
            image_width=variant.svg.image_width,
            min_width=variant.svg.min_width,
            deterministic=variant.svg.deterministic,
        ),
        quality=read.quality,
    )


def _from_file(path: Path, console: Console) -> Source:
    """A perf.data is known by its magic; anything else is read as folded stacks."""
    built_in = {view.name: view for view in views.BUILT_IN}
    svg = SvgOptions(title="Flame Graph", notes=path.name, min_width=0.1, deterministic=True)
    with console.step(f"reading {path.name}") as step:
        if _magic(path) in _PERF_MAGICS:
            beside = path.parent
            executables = [file for file in beside.iterdir() if file.is_file() and file.stat().st_mode & 0o111]
            read = recording.read(path, stored=executables, kallsyms=beside / KALLSYMS)
            step.note = f"{read.quality.samples:,} samples, quality {read.quality.grade}"
            return Source(
                stem=path.stem,
                stacks=read.stacks,
                views=built_in,
                svg=svg,
                quality=read.quality,
                remarks=read.quality.reasons,
            )
        folded = read_folded(path.read_bytes(), source=f"'{path}'")
        step.note = f"{folded.tree.total:,} samples in {len(folded.tree):,} frames"
    return Source(
        stem=path.stem,
        stacks=from_frame_tree(folded.tree),
        views=built_in,
        svg=svg,
        remarks=tuple(folded.remarks()),
    )


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError as error:
        raise UsageError(
            f"'{path}' cannot be read: {error.strerror}",
            expected="a run, a perf.data or a file of folded stacks",
            hint="list the runs: ipuenv artifacts.list",
        ) from error
