"""``config``: the settings in force and who set them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ipuenv.verbs import where

if TYPE_CHECKING:
    from ipuenv.ground.console import Console


def show(options: Mapping[str, str | None], *, console: Console, as_json: bool) -> int:
    """Print each setting, its value and its origin."""
    found = where.find_where(options, console)
    settings = found.settings.by_name()
    if as_json:
        console.json(
            {
                "project-root": str(found.project_root),
                "settings": {
                    name: {
                        "value": None if setting.value is None else str(setting.value),
                        "source": str(setting.source),
                        "origin": setting.origin,
                    }
                    for name, setting in settings.items()
                },
            }
        )
        return 0
    stand_ins = {"workspace": f"{found.bundled.workspace} (bundled)", "sdk": _sdk_default(found)}
    rows = [
        (name, stand_ins.get(name, "-") if setting.value is None else str(setting.value), setting.origin)
        for name, setting in settings.items()
    ]
    console.answer(f"project root: {found.project_root}")
    console.table(rows, header=("setting", "value", "set by"))
    return 0


def _sdk_default(found: where.Where) -> str:
    is_bundled = found.settings.workspace.value is None
    return f"{found.bundled.sdk} (bundled stand-in)" if is_bundled else "searched for around the workspace"
