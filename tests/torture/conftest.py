"""What takes minutes is collected only when it is asked for by its folder: ``python -m pytest tests/torture``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked = any("torture" in str(argument) for argument in config.invocation_params.args)
    return None if asked else True
