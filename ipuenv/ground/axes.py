"""The ``[axes]`` table of a profile: the dimensions of its matrix and the cells that they span."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Self, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ipuenv.ground.profile_errors import Problem, ProblemsError, found, has_control_characters, quoted, unknown
from ipuenv.ground.sections import Listed, Section
from ipuenv.ground.templates import expand_label, label_problems

BUILD_AXIS = "build"
"""The axis whose values are rows of ``builds.toml``."""

DEFAULT_BUILD = "flamegraph"
"""The build of a profile that has no such axis."""

ID_ALPHABET = re.compile(r"[A-Za-z0-9._-]*\Z")
"""What a label, and so a variant id, is made of: it becomes a folder's and a Nox session's name."""

_AXIS_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a value is judged by that stands elsewhere: raw, since it may be wrong itself.

    ``axes`` maps an axis to its values, ``builds`` names the rows; ``lock_refusal`` says why ``{device-lock}`` may not
    stand in ``[run]``, and is empty where it may; ``run_uses`` are the placeholders in ``[run]``.
    """

    axes: Mapping[str, tuple[object, ...]]
    builds: Collection[str]
    lock_refusal: str
    run_uses: Collection[str]


def surroundings(info: ValidationInfo) -> Surroundings | None:
    """The surroundings that a validator was given; None for a profile that was checked when it was stored."""
    return cast("Surroundings | None", info.context)


def _axis_value(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"wanted an integer or a string, found {found(value)}.")  # noqa: TRY004 - pydantic's contract
    if isinstance(value, str) and (not value or has_control_characters(value)):
        raise ValueError(f"wanted a value without control characters, found {quoted(value)}.")
    return value


AxisValue = int | str
_AxisValue = Annotated[AxisValue, BeforeValidator(_axis_value)]


def axis_name_problem(name: str, taken: Collection[str]) -> str:
    """What is wrong with an axis's name, if anything; ``taken`` are placeholders with a meaning of their own."""
    if name in taken:
        return f"'{{{name}}}' already means something else. Choose another name for this axis."
    if not _AXIS_NAME.match(name):
        return "wanted an axis name of small letters and digits, with '-' between words."
    return ""


def _some_values(values: tuple[AxisValue, ...]) -> tuple[AxisValue, ...]:
    # not Field(min_length=1), which also complains when there are values and all of them are wrong
    if not values:
        raise ValueError("wanted at least one value, found none.")
    return values


class Axis(Section):
    """One dimension of the matrix."""

    values: Annotated[Listed[_AxisValue], AfterValidator(_some_values)]
    """the values that this axis takes, integers or strings, in the order of the matrix"""

    default: _AxisValue
    """the value that a run takes when nothing else is asked for; one of ``values``"""

    label: str
    """how a value reads in a variant id: text with ``{}`` once, for the value"""

    @field_validator("default")
    @classmethod
    def _default_is_a_value(cls, default: AxisValue, info: ValidationInfo) -> AxisValue:
        values = info.data.get("values")
        if values is not None and default not in values:
            raise ValueError(unknown_value(default, values))
        return default

    @field_validator("label")
    @classmethod
    def _label_takes_the_value_once(cls, label: str) -> str:
        if problems := label_problems(label):
            raise ProblemsError(Problem((), problem) for problem in problems)
        return label

    @model_validator(mode="after")
    def _values_make_distinct_labels(self) -> Self:
        problems = []
        for index, value in enumerate(self.values):
            if value in self.values[:index]:
                problems.append(Problem(("values", index), f"{quoted(value)} is listed twice."))
            elif problem := label_alphabet_problem(self.label_of(value)):
                problems.append(Problem(("values", index), problem))
        if problems:
            raise ProblemsError(problems)
        return self

    def label_of(self, value: AxisValue) -> str:
        """The label of ``value``, as ids show it."""
        return expand_label(self.label, value)


def unknown_value(value: object, values: Collection[object]) -> str:
    """The message for a value that an axis does not have."""
    return unknown(f"value {quoted(value)}", str(value), dict.fromkeys(map(str, values)))


def label_alphabet_problem(label: str) -> str:
    """What keeps ``label`` from being a part of a variant id, if anything."""
    if ID_ALPHABET.match(label):
        return ""
    return f"its label {quoted(label)} may hold only letters, digits, '.', '_' and '-', since it names a folder."


def _excluded(cell: Mapping[str, AxisValue], info: ValidationInfo) -> Mapping[str, AxisValue]:
    around = surroundings(info)
    if around is not None:
        _raise_for(cell, [*_axis_problems(cell, around), *_value_problems(cell, around.axes)])
    return cell


def _included(cell: Mapping[str, AxisValue], info: ValidationInfo) -> Mapping[str, AxisValue]:
    around = surroundings(info)
    if around is not None:
        rows: Mapping[str, Collection[object]] = {BUILD_AXIS: around.builds} if BUILD_AXIS in around.axes else {}
        _raise_for(cell, [*_axis_problems(cell, around), *_value_problems(cell, rows)])
    return cell


def _raise_for(cell: Mapping[str, AxisValue], problems: list[Problem]) -> None:
    if not cell:
        problems.append(Problem((), "wanted at least one axis and its value, found an empty table."))
    if problems:
        raise ProblemsError(problems)


def _axis_problems(cell: Mapping[str, AxisValue], around: Surroundings) -> Iterator[Problem]:
    return (Problem((name,), unknown("axis", name, list(around.axes))) for name in cell if name not in around.axes)


def _value_problems(cell: Mapping[str, AxisValue], values: Mapping[str, Collection[object]]) -> Iterator[Problem]:
    for name, value in cell.items():
        if name in values and value not in values[name]:
            yield Problem((name,), unknown_value(value, values[name]))


class Axes(Section):
    """All axes by name, and what is taken from or added to their product. The order of the axes is that of the ids."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, Axis] = Field(init=False)

    exclude: Listed[Annotated[Mapping[str, _AxisValue], AfterValidator(_excluded)]] = ()
    """cells to leave out: each entry names some axes with a value and stands for every cell that has all of them"""

    include: Listed[Annotated[Mapping[str, _AxisValue], AfterValidator(_included)]] = ()
    """cells to add, with any values; an axis that an entry leaves out takes its default"""

    @property
    def by_name(self) -> Mapping[str, Axis]:
        """The axes in the file's order."""
        return self.__pydantic_extra__

    @property
    def default_cell(self) -> Mapping[str, AxisValue]:
        """Every axis with its default."""
        return {name: axis.default for name, axis in self.by_name.items()}

    @property
    def product_size(self) -> int:
        """How many cells the product of all axes has."""
        return math.prod(len(axis.values) for axis in self.by_name.values())

    def product(self) -> list[Mapping[str, AxisValue]]:
        """The product of all axes, the last one fastest, without what ``exclude`` takes away."""
        names = list(self.by_name)
        whole = itertools.product(*(axis.values for axis in self.by_name.values()))
        cells = (dict(zip(names, values, strict=True)) for values in whole)
        return [cell for cell in cells if not any(entry.items() <= cell.items() for entry in self.exclude)]

    def included(self) -> list[Mapping[str, AxisValue]]:
        """The cells that ``include`` adds, completed by the defaults."""
        return [{**self.default_cell, **entry} for entry in self.include]

    def cells(self) -> list[Mapping[str, AxisValue]]:
        """The cells of the matrix, in its order."""
        return [*self.product(), *self.included()]
