"""Views to picture files, for a run and for a recording that somebody brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ipuenv.engine import views
from ipuenv.engine.flamegraph import SvgOptions, render
from ipuenv.engine.folded import write_folded
from ipuenv.engine.views import View
from ipuenv.ground.errors import UsageError

if TYPE_CHECKING:
    from ipuenv.engine.folding import StackTree
    from ipuenv.engine.stacks import FrameTree
    from ipuenv.ground.profile import Profile

SVG, FOLDED = "svg", "folded"
FORMATS = (SVG, FOLDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A file that was drawn; ``total`` is the weight of all its stacks, ``frames`` the size of its tree."""

    view: View
    path: Path
    total: int
    frames: int


def views_of(profile: Profile) -> dict[str, View]:
    """A profile's views by name: full and functions, then its own."""
    return {
        name: View(name=name, inline=section.inline, elide=section.elide) for name, section in profile.all_views.items()
    }


def file_name(stem: str, view: View, form: str) -> str:
    """``<stem>.svg`` for the full view, ``<stem>-<view>.svg`` for every other."""
    suffix = "" if view.name == views.FULL.name else f"-{view.name}"
    return f"{stem}{suffix}.{form}"


def draw(
    stacks: StackTree, chosen: Sequence[View], folder: Path, *, stem: str, svg: SvgOptions, form: str = SVG
) -> dict[str, Picture]:
    """Draw views of the same stacks into a folder, one file each, and say what was drawn.

    Raises:
        UsageError: there is nothing to draw.
    """
    drawn: dict[str, Picture] = {}
    for view in chosen:
        tree = views.draw(stacks, view)
        path = folder / file_name(stem, view, form)
        _save(tree, path, svg, form)
        drawn[view.name] = Picture(view=view, path=path, total=tree.total, frames=len(tree) - 1)
    return drawn


def _save(tree: FrameTree, path: Path, svg: SvgOptions, form: str) -> None:
    if form == SVG:
        path.write_bytes(render(tree, svg))
    else:
        with path.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            write_folded(tree, file)


def pick(known: Mapping[str, View], wanted: Sequence[str]) -> list[View]:
    """The views of those names; all that are known if none is named.

    Raises:
        UsageError: a name is not known.
    """
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"there is no view '{name}'",
                expected=f"one of {', '.join(known)}",
                hint="repeat --view for several; profiles add their own views in [views.NAME]",
            )
    return [known[name] for name in wanted] if wanted else list(known.values())
