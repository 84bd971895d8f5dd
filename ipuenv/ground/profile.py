"""Profiles: what is built, run, recorded and drawn, as a TOML file in ``profiles/`` says it.

The models are strict and frozen; whatever is wrong with a file is found when it is loaded, all of it at once. What a
value has to agree with elsewhere in the file reaches its validator as :class:`Surroundings`, so that one wrong table
hides nothing about another. A profile that a run has stored is validated without them: it was right at its time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, ValidationInfo

from ipuenv.ground.axes import BUILD_AXIS, DEFAULT_BUILD, Axes, Surroundings, axis_name_problem, surroundings
from ipuenv.ground.profile_errors import (
    Problem,
    ProblemsError,
    has_control_characters,
    load_toml,
    quoted,
    unknown,
)
from ipuenv.ground.sections import Line, Listed, RelativePath, Section, validate
from ipuenv.ground.templates import placeholders, template_problems
from ipuenv.ground.variants import checked_axes

if TYPE_CHECKING:
    from ipuenv.ground.builds import Build

PACKAGE = "package"
RUN_DIR = "run-dir"
WORKSPACE = "workspace"
DEVICE_LOCK = "device-lock"
PATH_PLACEHOLDERS = (PACKAGE, RUN_DIR, WORKSPACE, DEVICE_LOCK)
"""Placeholders for absolute paths; beside them a template may name every axis, and ``build`` always."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")
_VIEW_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PROFILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def _checked(value: str, problems: Collection[str]) -> str:
    if problems:
        raise ProblemsError(Problem((), problem) for problem in problems)
    return value


def _axis_placeholders(around: Surroundings) -> list[str]:
    return list(dict.fromkeys([*around.axes, BUILD_AXIS]))


def _notes_template(value: str, info: ValidationInfo) -> str:
    around = surroundings(info)
    if around is None:
        return value
    problems = template_problems(value, allowed=_axis_placeholders(around))
    if has_control_characters(value):
        problems.append(f"wanted one line without control characters, found {quoted(value)}.")
    return _checked(value, problems)


def _run_template(value: str, info: ValidationInfo) -> str:
    around = surroundings(info)
    if around is None:
        return value
    allowed = list(dict.fromkeys([*_axis_placeholders(around), *PATH_PLACEHOLDERS]))
    refused = {}
    if around.lock_refusal:
        allowed.remove(DEVICE_LOCK)
        refused[DEVICE_LOCK] = around.lock_refusal
    problems = template_problems(value, allowed=allowed, refused=refused)
    if "\0" in value:
        problems.append("holds a NUL character, which no process can be given.")
    return _checked(value, problems)


def _output_template(value: str, info: ValidationInfo) -> str:
    around = surroundings(info)
    if around is None:
        return value
    problems = template_problems(value, allowed=[*_axis_placeholders(around), PACKAGE, RUN_DIR])
    places = {PACKAGE, RUN_DIR}.intersection(placeholders(value))
    if not problems and not value.startswith((f"{{{PACKAGE}}}", f"{{{RUN_DIR}}}")):
        problems.append(f"wanted a path that begins with '{{package}}' or '{{run-dir}}', found {quoted(value)}.")
    for name in sorted(places.difference(around.run_uses)):
        problems.append(f"'{{{name}}}' stands nowhere in [run], so the program would not write there.")
    return _checked(value, problems)


def _variable_name(name: str) -> str:
    return _checked(name, [] if _VARIABLE.match(name) else ["wanted a variable's name of letters, digits and '_'."])


def _view_name(name: str) -> str:
    if name in BUILTIN_VIEWS:
        raise ValueError("exists without being named. Choose another name for your own view.")
    if not _VIEW_NAME.match(name):
        raise ValueError("wanted a view's name of small letters and digits, with '-' between words.")
    return name


def _name(value: str) -> str:
    return _checked(value, [] if _NAME.match(value) else [f"wanted a name that cargo knows, found {quoted(value)}."])


def _collection(value: str) -> str:
    if any(part.startswith(".") for part in value.split("/")) or any(c in value for c in ":{}\\"):
        rule = "that neither begin with '.' nor hold ':', '\\' or a placeholder"
        raise ValueError(f"wanted folders {rule}, found {quoted(value)}.")
    return value


def _axis_reference(value: str, info: ValidationInfo) -> str:
    around = surroundings(info)
    if around is None or value in around.axes:
        return value
    raise ValueError(unknown(f"axis {quoted(value)}", value, around.axes))


class CallGraph(StrEnum):
    """How perf finds the callers."""

    FP = "fp"
    DWARF = "dwarf"


class Identity(StrEnum):
    """What differing outputs of equal inputs mean."""

    REQUIRED = "required"
    REPORTED = "reported"


class Holder(StrEnum):
    """Who takes the device's lock."""

    PROGRAM = "program"
    IPUENV = "ipuenv"


class TargetSection(Section):
    """``[target]``: what cargo builds."""

    package: Annotated[str, AfterValidator(_name)]
    """the cargo package"""

    bin: Annotated[str, AfterValidator(_name)]
    """the package's binary that is run and recorded"""


class RunSection(Section):
    """``[run]``: how the executable is called; its current folder is the workspace."""

    args: Listed[Annotated[str, AfterValidator(_run_template)]]
    """the program's arguments, templates"""

    env: Mapping[Annotated[str, AfterValidator(_variable_name)], Annotated[str, AfterValidator(_run_template)]] = {}
    """variables for the program besides the SDK's, their values templates"""

    timeout_s: float | None = Field(default=None, alias="timeout", gt=0, allow_inf_nan=False)
    """seconds after which the program is ended"""


class OutputSection(Section):
    """``[output]``: the file by which two runs are known to have done the same."""

    path: Annotated[str, AfterValidator(_output_template)]
    """the file that the program writes, a template that begins with {package} or {run-dir}"""

    depends_on: Listed[Annotated[str, AfterValidator(_axis_reference)]] = ()
    """the axes that change the output's bytes; over all others they have to be equal"""

    identical: Annotated[Identity, Field(strict=False)] = Identity.REQUIRED
    """whether differing bytes are a failure (required) or only said (reported)"""


class RecordSection(Section):
    """``[record]``: what perf is told."""

    frequency: Annotated[int, Field(ge=1, le=100_000)] = 99
    """samples per second and thread"""

    call_graph: Annotated[CallGraph, Field(strict=False)] = CallGraph.FP
    """how callers are found: fp (frame pointers) or dwarf"""


class ViewSection(Section):
    """``[views.NAME]``: one picture of the stacks."""

    inline: bool = True
    """whether inlined frames are shown"""

    elide: Listed[Line] = ()
    """patterns of frames to leave out, as rayon_core::*"""


class SvgSection(Section):
    """``[svg]``: how pictures are drawn."""

    image_width: Annotated[int, Field(ge=100, le=100_000)] = 1200
    """the picture's width in pixels"""

    min_width: Annotated[float, Field(ge=0, lt=100, allow_inf_nan=False)] = 0.1
    """frames narrower than this many percent are left out"""

    deterministic: bool = True
    """whether a frame's colour follows from its name"""


class DeviceSection(Section):
    """``[device]``: the lock that the workspace's programs share."""

    lock: Line
    """the lock file, absolute or below the workspace"""

    holder: Annotated[Holder, Field(strict=False)] = Holder.PROGRAM
    """who takes the lock: the program itself, or ipuenv around it"""


def _checked_axes(axes: Axes, info: ValidationInfo) -> Axes:
    return axes if surroundings(info) is None else checked_axes(axes)


class Profile(Section):
    """A profile. Load one by :func:`load_profile`; read a stored one by ``Profile.model_validate_json``."""

    schema_version: Literal[1] = Field(alias="schema")
    """the version of this format, 1"""

    title: Line
    """what is profiled, in a few words; heads the pictures and pages"""

    notes: Annotated[str, AfterValidator(_notes_template)] = ""
    """a line for the pictures, a template over the axes"""

    artifacts: Annotated[RelativePath, AfterValidator(_collection)]
    """the collection: the folder of this profile's runs, below the artifacts root"""

    target: TargetSection
    """what cargo builds"""

    run: RunSection
    """how the executable is called"""

    output: OutputSection | None = None
    """the file by which two runs are known to have done the same"""

    record: RecordSection = RecordSection()
    """what perf is told"""

    axes: Annotated[Axes, AfterValidator(_checked_axes)]
    """the matrix"""

    views: Mapping[Annotated[str, AfterValidator(_view_name)], ViewSection] = {}
    """pictures besides full and functions"""

    svg: SvgSection = SvgSection()
    """how pictures are drawn"""

    device: DeviceSection | None = None
    """the lock of the device that the program may use"""

    @property
    def all_views(self) -> dict[str, ViewSection]:
        """The views that every profile has, then its own."""
        return {**BUILTIN_VIEWS, **self.views}


BUILTIN_VIEWS: Mapping[str, ViewSection] = {"full": ViewSection(), "functions": ViewSection(inline=False)}
"""Every profile has these without naming them."""


def load_profile(path: Path, *, builds: Mapping[str, Build], file: str = "") -> Profile:
    """The profile in a TOML file. Its name is ``path.stem``; ``file`` is the name that messages use for it.

    Raises:
        ProfileError: with all problems of the file.
    """
    file = file or str(path)
    data = load_toml(path, file=file)
    further = [*_file_name_problems(path), *_axes_problems(data, builds)]
    return validate(Profile, data, file=file, context=_surroundings(data, builds), further=further)


def json_schema() -> dict[str, JsonValue]:
    """The JSON Schema of a profile, for editors."""
    schema: dict[str, JsonValue] = Profile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _surroundings(data: Mapping[str, object], builds: Mapping[str, Build]) -> Surroundings:
    axes = {name: axis for name, axis in _table(data, "axes").items() if isinstance(axis, dict)}
    values = {name: axis.get("values") for name, axis in axes.items()}
    return Surroundings(
        axes={name: tuple(listed) if isinstance(listed, list) else () for name, listed in values.items()},
        builds=tuple(builds),
        lock_refusal=_lock_refusal(data),
        run_uses=_run_uses(_table(data, "run")),
    )


def _table(data: Mapping[str, object], key: str) -> Mapping[str, object]:
    table = data.get(key)
    return table if isinstance(table, dict) else {}


def _lock_refusal(data: Mapping[str, object]) -> str:
    if "device" not in data:
        return "there is no [device] table that names the lock."
    if _table(data, "device").get("holder") == Holder.IPUENV:
        return (
            'device.holder is "ipuenv", which holds that lock while the program runs: the program would wait for ever. '
            'Leave it out, or set device.holder to "program".'
        )
    return ""


def _run_uses(run: Mapping[str, object]) -> Collection[str]:
    args, env = run.get("args"), run.get("env", {})
    texts = [*(args if isinstance(args, list) else ()), *(env.values() if isinstance(env, dict) else ())]
    if not isinstance(args, list) or not isinstance(env, dict) or not all(isinstance(text, str) for text in texts):
        return PATH_PLACEHOLDERS  # [run] is wrong already: nothing follows from what it lacks
    return {name for text in texts for name in placeholders(text)}


def _file_name_problems(path: Path) -> Iterator[Problem]:
    if not _PROFILE_NAME.match(path.stem):
        text = f"wanted a file name of letters, digits, '.', '_' and '-', found {quoted(path.name)}: it names pictures."
        yield Problem((), text)


def _axes_problems(data: Mapping[str, object], builds: Mapping[str, Build]) -> Iterator[Problem]:
    axes = _surroundings(data, builds).axes
    for name in axes:
        if problem := axis_name_problem(name, PATH_PLACEHOLDERS):
            yield Problem(("axes", name), problem)
    for index, value in enumerate(axes.get(BUILD_AXIS, ())):
        if isinstance(value, int | str) and value not in builds:
            text = f"builds.toml has no such row: {unknown(f'build {quoted(value)}', str(value), builds)}"
            yield Problem(("axes", BUILD_AXIS, "values", index), text)
    if BUILD_AXIS not in axes and DEFAULT_BUILD not in builds:
        text = f"without an axis 'build' the row '{DEFAULT_BUILD}' is built, which builds.toml does not have."
        yield Problem(("axes",), text)
