"""``render``: pictures, text and other tools' files from a run, a perf.data, a pprof or folded stacks that exist already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ipuenv.engine import cuts, recording, views
from ipuenv.engine.flamegraph import SvgOptions
from ipuenv.engine.folded import read_folded
from ipuenv.engine.folding import StackTree, from_frame_tree
from ipuenv.engine.pprof_reader import GZIP_MAGIC
from ipuenv.engine.views import View
from ipuenv.ground.errors import UsageError
from ipuenv.stages import store
from ipuenv.verbs import exports, pictures
from ipuenv.verbs.variant_stages import KALLSYMS, PERF_DATA
from ipuenv.verbs.where import symbol_cache

if TYPE_CHECKING:
    from ipuenv.engine.cuts import Span
    from ipuenv.engine.pprof import About
    from ipuenv.engine.quality import Quality
    from ipuenv.ground.console import Console
    from ipuenv.stages.manifest import RunManifest, VariantManifest
    from ipuenv.stages.store import Named

FORMATS = (*pictures.FORMATS, *exports.FORMATS)

_PERF_MAGICS = (b"PERFILE2", b"2ELIFREP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Stacks to draw: what they are called, which views they have, how they are drawn, what is said of their making."""

    stem: str
    stacks: StackTree
    views: Mapping[str, View]
    svg: SvgOptions
    about: About
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
    threads: Sequence[str] = (),
    span: Span | None = None,
) -> list[Path]:
    """Draw views of what ``name`` stands for into ``folder``; the files that were written.

    ``threads`` and ``span`` cut the stacks before: only those are drawn that are left.

    Raises:
        UsageError: nothing has that name, it is no recording, a view, format or thread is not known, nothing is left by the
            cuts, or the folder is a run's.
    """
    _check_form(form, wanted)
    named = store.resolve(name, root=root, collection=collection)
    _refuse_runs(folder)
    written: list[Path] = []
    for whole in _sources(named, console):
        source = _cut(whole, threads, span)
        for remark in source.remarks:
            console.warn(remark)
        _refuse_overwriting(named.path, source, form, folder)
        if form in exports.FORMATS:
            written.append(_export(source, form, folder, console))
        else:
            written += _draw(source, wanted, form, folder, console)
    return written


def _check_form(form: str, wanted: Sequence[str]) -> None:
    if form not in FORMATS:
        raise UsageError(
            f"there is no format '{form}'",
            expected=f"one of {', '.join(FORMATS)}",
            hint=f"--format {pictures.SVG}",
        )
    if form in exports.FORMATS and wanted:
        raise UsageError(
            f"--view {wanted[0]} was given with --format {form}, which holds all frames",
            expected=f"views with {' or '.join(pictures.FORMATS)} alone",
            hint=f"leave out --view, or give --format {pictures.SVG}",
        )


def _cut(source: Source, threads: Sequence[str], span: Span | None) -> Source:
    """What is left of a source, and said in its pictures. Time comes first: it counts from the first sample of all."""
    stacks, said = source.stacks, [source.svg.notes]
    if span is not None:
        stacks = cuts.by_time(stacks, span).kept
        said.append(f"only from {span}")
    if threads:
        stacks = cuts.by_thread(stacks, threads).kept
        said.append(f"only thread{'s' if len(threads) > 1 else ''} {', '.join(threads)}")
    if len(said) == 1:
        return source
    notes = "; ".join(part for part in said if part)
    about = replace(source.about, duration_ns=0)  # that of the whole
    return replace(source, stacks=stacks, svg=replace(source.svg, notes=notes), about=about)


def _draw(source: Source, wanted: Sequence[str], form: str, folder: Path, console: Console) -> list[Path]:
    chosen = pictures.pick(source.views, wanted)
    folder.mkdir(parents=True, exist_ok=True)
    with console.step(f"drawing {source.stem}") as step:
        drawn = pictures.draw(source.stacks, chosen, folder, stem=source.stem, svg=source.svg, form=form)
        step.note = ", ".join(drawn)
    return [picture.path for picture in drawn.values()]


def _export(source: Source, form: str, folder: Path, console: Console) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / exports.file_name(source.stem, form)
    with console.step(f"writing {source.stem} as {form}") as step:
        svg = source.svg
        exports.export(source.stacks, path, form=form, title=svg.title, notes=svg.notes, about=source.about)
        step.note = path.name
    return path


def _refuse_overwriting(source_path: Path, source: Source, form: str, folder: Path) -> None:
    """What is drawn from a file must not take that file's place."""
    if form in exports.FORMATS:
        names = [exports.file_name(source.stem, form)]
    else:
        names = [pictures.file_name(source.stem, view, form) for view in source.views.values()]
    for name in names:
        if (folder / name).exists() and (folder / name).samefile(source_path):
            raise UsageError(
                f"'{folder / name}' is what is read, and would be overwritten",
                expected="another folder for the files",
                hint="name one: -o /tmp/pictures",
            )


def _refuse_runs(folder: Path) -> None:
    """A published run never changes, so nothing is drawn into one."""
    for candidate in (folder.resolve(), *folder.resolve().parents):
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
            hint="ipuenv render latest, or ipuenv render perf.data",
        )
    several = len(drawable) > 1
    return [_from_variant(named.run, run, variant, console, several=several) for variant in drawable]


def _from_variant(
    folder: Path, run: RunManifest, variant: VariantManifest, console: Console, *, several: bool
) -> Source:
    inside = folder / variant.id
    stored = [inside / variant.executable.name] if variant.executable is not None else []
    kept = inside / exports.file_name(run.profile.name, exports.PPROF)
    quality: Quality | None = None
    remarks: tuple[str, ...] = ()
    with console.step(f"reading {variant.id}") as step:
        if not (inside / PERF_DATA).exists() and kept.exists():
            stacks = exports.read(kept).stacks
            remarks = (f"'{inside / PERF_DATA}' is gone: drawn from '{kept.name}', which has no times of samples",)
        else:
            read = recording.read(
                inside / PERF_DATA,
                stored=stored,
                kallsyms=inside / KALLSYMS,
                program_pid=variant.recording.program_pid if variant.recording is not None else None,
                cache=symbol_cache(),
            )
            stacks, quality = read.stacks, read.quality
        step.note = f"{stacks.total:,} samples"
    return Source(
        stem=f"{run.profile.name}-{variant.id}" if several else run.profile.name,
        stacks=stacks,
        views={name: View(name=name, inline=view.inline, elide=view.elide) for name, view in variant.views.items()},
        svg=SvgOptions(
            title=run.profile.title,
            notes=variant.notes,
            image_width=variant.svg.image_width,
            min_width=variant.svg.min_width,
            deterministic=variant.svg.deterministic,
        ),
        about=exports.about_run(stacks, run_id=run.run_id, variant_id=variant.id, started_at=run.started_at),
        quality=quality,
        remarks=remarks,
    )


def _from_file(path: Path, console: Console) -> Source:
    """A perf.data and a pprof are known by their magic; anything else is read as folded stacks."""
    built_in = {view.name: view for view in views.BUILT_IN}
    svg = SvgOptions(title="Flame Graph", notes=path.name, min_width=0.1, deterministic=True)
    with console.step(f"reading {path.name}") as step:
        magic = _magic(path)
        if magic.startswith(GZIP_MAGIC):
            kept = exports.read(path)
            step.note = f"{kept.stacks.total:,} {kept.stacks.unit} in {len(kept.stacks.tree):,} frames"
            svg = replace(svg, title=kept.title or svg.title, notes=kept.notes or svg.notes)
            stem = exports.stem_of(path)
            return Source(stem=stem, stacks=kept.stacks, views=built_in, svg=svg, about=kept.about)
        if magic in _PERF_MAGICS:
            beside = path.parent
            executables = [file for file in beside.iterdir() if file.is_file() and file.stat().st_mode & 0o111]
            read = recording.read(path, stored=executables, kallsyms=beside / KALLSYMS, cache=symbol_cache())
            step.note = f"{read.quality.samples:,} samples, quality {read.quality.grade}"
            return Source(
                stem=path.stem,
                stacks=read.stacks,
                views=built_in,
                svg=svg,
                about=exports.about_file(read.stacks),
                quality=read.quality,
                remarks=read.quality.reasons,
            )
        folded = read_folded(path.read_bytes(), source=f"'{path}'")
        if folded.ignored > folded.lines:
            raise UsageError(
                f"'{path}' is no file of folded stacks: {folded.ignored:,} of its lines are none",
                expected="lines 'a;b;c 12', a perf.data, a pprof or a run",
                hint="name the recording itself",
            )
        step.note = f"{folded.tree.total:,} samples in {len(folded.tree):,} frames"
    stacks = from_frame_tree(folded.tree)
    return Source(
        stem=path.stem,
        stacks=stacks,
        views=built_in,
        svg=svg,
        about=exports.about_file(stacks),
        remarks=tuple(folded.remarks()),
    )


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError as error:
        raise UsageError(
            f"'{path}' cannot be read: {error.strerror}",
            expected="a run, a perf.data, a pprof or a file of folded stacks",
            hint="ipuenv render latest, or ipuenv render perf.data",
        ) from error
