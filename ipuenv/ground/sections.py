"""What the typed tables of a profile share: strictness, common field types, and pydantic's errors in our words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from ipuenv.ground.profile_errors import (
    Problem,
    ProblemsError,
    ProfileError,
    TomlPath,
    found,
    has_control_characters,
    nearest,
    quoted,
    unknown,
)

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails
    from typing_extensions import TypeForm

T = TypeVar("T")


def _kebab(attribute: str) -> str:
    return attribute.replace("_", "-")


class Section(BaseModel):
    """A table: strict, frozen, kebab-case keys, no unknown ones. Keys are described by their attributes' docstrings."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        alias_generator=_kebab,
        use_attribute_docstrings=True,
    )


Listed = Annotated[tuple[T, ...], Field(strict=False)]
"""A TOML list. Only the container is lenient (strict would want a tuple); the items stay strict."""


def _line(value: str) -> str:
    if not value.strip():
        raise ValueError(f"wanted some text, found {quoted(value)}.")
    if has_control_characters(value):
        raise ValueError(f"wanted one line without control characters, found {quoted(value)}.")
    return value


Line = Annotated[str, AfterValidator(_line)]
"""Text that fits on one line and is not blank."""


def _relative_path(value: str) -> str:
    parts = [part for part in _line(value).split("/") if part not in ("", ".")]
    if value.startswith(("/", "~")) or ".." in parts or not parts:
        raise ValueError(f"wanted a relative path without '..', found {quoted(value)}.")
    return "/".join(parts)


RelativePath = Annotated[str, AfterValidator(_relative_path)]
"""A path that stays below its base; ``./a//b/`` is kept as ``a/b``."""


def validate(
    type_: TypeForm[T],
    data: Mapping[str, object],
    *,
    file: str,
    context: object = None,
    further: Iterable[Problem] = (),
) -> T:
    """``data`` as a ``type_``; ``further`` are problems that someone found by other means.

    Raises:
        ProfileError: with all problems, in the order of the file's tables.
    """
    adapter: TypeAdapter[T] = TypeAdapter(type_)
    cause: ValidationError | None = None
    problems = list(further)
    try:
        value = adapter.validate_python(data, context=context)
    except ValidationError as error:
        cause = error
        details = error.errors(include_url=False)
        problems = [problem for detail in details for problem in _problems(detail, type_)] + problems
    if problems:
        places = {key: place for place, key in enumerate(data)}
        problems.sort(key=lambda problem: places.get(str(problem.path[0]), -1) if problem.path else -1)
        raise ProfileError(file, problems) from cause
    return value


def _problems(detail: ErrorDetails, type_: object) -> list[Problem]:
    path: TomlPath = detail["loc"]
    if path[-1:] == ("[key]",):  # pydantic's mark for a key that its own validator refused
        path = path[:-1]
    kind = detail["type"]
    if kind == "extra_forbidden":
        return [Problem(path, unknown("key", str(path[-1]), _keys(_annotation(type_, path[:-1]))))]
    if kind == "missing":
        return [Problem(path, f"missing. Wanted: {_description(type_, path)}.")]
    if kind == "value_error":
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, ProblemsError):
            return [Problem((*path, *problem.path), problem.text) for problem in cause.problems]
        return [Problem(path, str(cause))]
    if kind == "enum":
        allowed = [member.value for member in _annotation(type_, path)]
        value = detail["input"]
        return [Problem(path, unknown(f"value {quoted(value)}", str(value), allowed))]
    return [Problem(path, f"wanted {_wanted(detail)}, found {found(detail['input'])}.{_key_hint(type_, path)}")]


_TYPES = {
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "mapping_type": "a table",
    "model_type": "a table",
}
_LIMITS = {
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "at least {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
    "literal_error": ("expected", "{}"),
}


def _wanted(detail: ErrorDetails) -> str:
    if detail["type"] in _TYPES:
        return _TYPES[detail["type"]]
    if detail["type"] in _LIMITS:
        key, words = _LIMITS[detail["type"]]
        limit = detail.get("ctx", {}).get(key)
        return words.format(f"{limit:g}" if isinstance(limit, float) else limit)
    return f"something else ({detail['msg']})"


def _annotation(type_: object, path: TomlPath) -> Any:
    """The type at ``path`` below ``type_``, without its metadata and without None."""
    here: Any = _bare(type_)
    for key in path:
        here = _bare(_step(here, key))
    return here


def _bare(annotation: Any) -> Any:
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif type(None) in get_args(annotation):
            annotation = next(arg for arg in get_args(annotation) if arg is not type(None))
        else:
            return annotation


def _step(annotation: Any, key: str | int) -> Any:
    if _is_section(annotation):
        field = _fields(annotation).get(str(key))
        return field.annotation if field else get_args(get_type_hints(annotation)["__pydantic_extra__"])[-1]
    return get_args(annotation)[-1 if issubclass(get_origin(annotation), Mapping) else 0]


def _key_hint(type_: object, path: TomlPath) -> str:
    """A guess for a wrong value under a key of one's own choice, which may be a known key misspelt."""
    parent = _annotation(type_, path[:-1])
    if not _is_section(parent) or path[-1] in _fields(parent):
        return ""
    guess = nearest(str(path[-1]), _keys(parent))
    return f" Did you mean '{guess}'?" if guess else ""


def _is_section(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _fields(section: type[Section]) -> dict[str, FieldInfo]:
    return {str(field.alias): field for field in section.model_fields.values()}


def _keys(section: type[Section]) -> list[str]:
    return list(_fields(section))


def _description(type_: object, path: TomlPath) -> str:
    field = _fields(_annotation(type_, path[:-1]))[str(path[-1])]
    return (field.description or "a value").replace("``", "'")
