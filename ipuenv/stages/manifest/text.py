"""A manifest's JSON text: written, read, brought up to date, described by a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from ipuenv.ground.errors import UsageError
from ipuenv.stages.manifest.documents import SCHEMA, RunManifest, VariantManifest

_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each older schema the function that turns its JSON object into that of the next one."""

_VERIFY_HINT = "compare the run with a backup, or record it again: ipuenv flamegraph"

AnyManifest = TypeVar("AnyManifest", RunManifest, VariantManifest)


def dump(manifest: RunManifest | VariantManifest) -> bytes:
    """The manifest as JSON: equal manifests give equal bytes."""
    value = manifest.model_dump(mode="json")
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def load(data: bytes, *, origin: str = "manifest.json") -> RunManifest:
    """A run's manifest from its JSON; older formats are brought up to date. ``origin`` is named in errors.

    Raises:
        UsageError: not a manifest, or one of a newer ipuenv.
    """
    return _load(RunManifest, data, origin)


def load_variant(data: bytes, *, origin: str = "manifest.json") -> VariantManifest:
    """A variant's manifest from its JSON, as :func:`load`."""
    return _load(VariantManifest, data, origin)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a run's manifest."""
    return RunManifest.model_json_schema(mode="serialization")


def _load(model: type[AnyManifest], data: bytes, origin: str) -> AnyManifest:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"'{origin}' is not JSON: {error}", expected="a manifest that ipuenv wrote", hint=_VERIFY_HINT
        ) from error
    if not isinstance(value, dict):
        raise UsageError(f"'{origin}' holds no JSON object", expected="a manifest that ipuenv wrote", hint=_VERIFY_HINT)
    current = _upgraded(value, origin)
    try:
        return model.model_validate_json(json.dumps(current), strict=True)
    except ValidationError as error:
        raise UsageError(
            f"'{origin}' is damaged: {_problems(error)}", expected=f"a manifest of schema {SCHEMA}", hint=_VERIFY_HINT
        ) from error


def _upgraded(value: dict[str, Any], origin: str) -> dict[str, Any]:
    if "schema" not in value:
        raise UsageError(
            f"'{origin}' names no schema",
            expected=f'"schema": {SCHEMA}, which every manifest of ipuenv begins with',
            hint="this file was not written by ipuenv; name a run's folder in the artifacts tree",
        )
    schema = value["schema"]
    if type(schema) is not int or schema < 1:
        raise UsageError(
            f"'{origin}' has the unknown schema {schema!r}", expected=f"a number from 1 to {SCHEMA}", hint=_VERIFY_HINT
        )
    if schema > SCHEMA:
        raise UsageError(
            f"'{origin}' was written by a newer ipuenv (schema {schema})",
            expected=f"schema {SCHEMA} or older",
            hint="upgrade: pip install --upgrade ipuenv",
        )
    while schema < SCHEMA:
        value = _UPGRADES[schema](value)
        schema += 1
    return value


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}, found {str(problem['input'])[:80]!r}"
        for problem in error.errors(include_url=False)
    )
