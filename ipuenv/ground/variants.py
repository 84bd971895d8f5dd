"""Variants: the cells of a profile's matrix, each with the one id by which everything names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ipuenv.ground.axes import BUILD_AXIS, DEFAULT_BUILD, Axes, AxisValue, label_alphabet_problem
from ipuenv.ground.errors import UsageError
from ipuenv.ground.profile_errors import Problem, ProblemsError, listed, nearest, quoted

if TYPE_CHECKING:
    from ipuenv.ground.profile import Profile

MAX_ID_CHARS = 64
"""Leaves room for the id in file names, headings and session names."""

MAX_VARIANTS = 1000
"""More is a slip in an axis: nobody waits for that many recordings."""

_RESERVED_IDS = frozenset({"manifest.json", "readme.md"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One cell. ``values`` are pairs of axis and value, ``labels`` the parts of ``id``, both in the axes' order."""

    id: str
    values: tuple[tuple[str, AxisValue], ...]
    labels: tuple[str, ...]

    @property
    def build(self) -> str:
        """The row of ``builds.toml`` that makes the executable."""
        return str(dict(self.values).get(BUILD_AXIS, DEFAULT_BUILD))

    @property
    def texts(self) -> dict[str, str]:
        """What this variant puts into templates: every axis, and ``build`` even where it is no axis."""
        return {BUILD_AXIS: self.build, **{name: str(value) for name, value in self.values}}


def _variant(axes: Axes, cell: Mapping[str, AxisValue]) -> Variant:
    first = next(iter(axes.by_name))
    labels = tuple(
        axis.label_of(cell[name]) for name, axis in axes.by_name.items() if name == first or cell[name] != axis.default
    )
    return Variant(id="-".join(labels), values=tuple((name, cell[name]) for name in axes.by_name), labels=labels)


def variants(profile: Profile) -> tuple[Variant, ...]:
    """All variants of a profile, in the order of its matrix."""
    return tuple(_variant(profile.axes, cell) for cell in profile.axes.cells())


def default_variant(profile: Profile) -> Variant:
    """The variant in which every axis has its default."""
    return _variant(profile.axes, profile.axes.default_cell)


def select(profile: Profile, variant_id: str) -> Variant:
    """The variant of that id.

    Raises:
        UsageError: there is none; lists the ids and names the nearest.
    """
    by_id = {variant.id: variant for variant in variants(profile)}
    if variant_id in by_id:
        return by_id[variant_id]
    guess = nearest(variant_id, list(by_id))
    raise UsageError(
        f"the profile has no variant {quoted(variant_id)}",
        expected=f"one of {listed(list(by_id))}",
        hint=f"did you mean '{guess}'?" if guess else "give one of these ids, or none for the default variant",
    )


def matching(candidates: Sequence[Variant], only: Sequence[str] = (), skip: Sequence[str] = ()) -> tuple[Variant, ...]:
    """The variants whose id matches a glob of ``only`` (all, if there is none) and no glob of ``skip``.

    Raises:
        UsageError: a glob matches nothing, which is a slip of the pen, or nothing is left.
    """
    ids = [variant.id for variant in candidates]
    for option, glob in (*(("only", glob) for glob in only), *(("skip", glob) for glob in skip)):
        if not any(fnmatchcase(id_, glob) for id_ in ids):
            guess = nearest(glob.strip("*"), ids)
            raise UsageError(
                f"--{option} {quoted(glob)} matches no variant",
                expected=f"a glob over {listed(ids)}",
                hint=f"did you mean '{guess}'?"
                if guess
                else "globs are '*', '?' and '[..]' over whole ids: '*-batch4'",
            )
    left = tuple(
        variant
        for variant in candidates
        if (not only or any(fnmatchcase(variant.id, glob) for glob in only))
        and not any(fnmatchcase(variant.id, glob) for glob in skip)
    )
    if not left:
        raise UsageError(
            "no variant is left",
            expected=f"at least one of {listed(ids)}",
            hint="give fewer or narrower --skip globs",
        )
    return left


def checked_axes(axes: Axes) -> Axes:
    """``axes``, whose variants can all be named.

    Raises:
        ProblemsError: ids that are too long, equal or unfit as a folder's name; no variant left; no default variant.
    """
    problems = list(_size_problems(axes)) or [*_include_problems(axes), *_id_problems(axes)]
    if problems:
        raise ProblemsError(problems)
    return axes


def _size_problems(axes: Axes) -> Iterator[Problem]:
    if not axes.by_name:
        yield Problem((), "wanted at least one axis, found none.")
    elif axes.product_size > MAX_VARIANTS:
        yield Problem((), f"wanted at most {MAX_VARIANTS} variants, found {axes.product_size}.")
    elif not axes.cells():
        yield Problem(("exclude",), "leaves no variant.")
    elif axes.default_cell not in axes.cells():
        default = _variant(axes, axes.default_cell).id
        yield Problem(("exclude",), f"leaves out the default variant '{default}'. Change a default or this list.")


def _include_problems(axes: Axes) -> Iterator[Problem]:
    known = axes.product()
    for index, (entry, cell) in enumerate(zip(axes.include, axes.included(), strict=True)):
        if cell in known:
            yield Problem(("include", index), f"adds '{_variant(axes, cell).id}', which is there already.")
        known.append(cell)
        for name, value in entry.items():
            if problem := label_alphabet_problem(axes.by_name[name].label_of(value)):
                yield Problem(("include", index, name), problem)


def _id_problems(axes: Axes) -> Iterator[Problem]:
    seen: dict[str, Variant] = {}
    faults: dict[str, list[str]] = {}
    for cell in axes.cells():
        variant = _variant(axes, cell)
        twin = seen.setdefault(variant.id.casefold(), variant)  # some file systems ignore case
        if twin.values != variant.values:
            pair = " and ".join(str(dict(each.values)) for each in (twin, variant))
            faults.setdefault(f"two variants would have it: {pair}. Change a label.", []).append(variant.id)
        elif fault := _id_fault(variant.id):
            faults.setdefault(fault, []).append(variant.id)
    for fault, ids in faults.items():
        more = f" (and {len(ids) - 1} more)" if len(ids) > 1 else ""
        yield Problem((), f"variant id '{ids[0]}'{more}: {fault}")


def _id_fault(variant_id: str) -> str:
    if len(variant_id) > MAX_ID_CHARS:
        return f"wanted at most {MAX_ID_CHARS} characters. Shorten a label."
    if not variant_id[:1].isalnum():
        return "wanted a letter or a digit at the start. Change the first axis's label."
    if variant_id.casefold() in _RESERVED_IDS:
        return "is the name of a file in a run's folder. Change a label."
    return ""
