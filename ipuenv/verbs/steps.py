"""Steps of a long command: announced, timed, and remembered, so that the next run can say what to expect."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipuenv.ground.console import Console, Step


class Steps:
    """Runs steps one after the other. ``durations_s`` collects what each took; ``expected_s`` is what it took before."""

    def __init__(self, console: Console, expected_s: Mapping[str, float]) -> None:
        self.console = console
        self.durations_s: dict[str, float] = {}
        self._expected_s = expected_s

    @contextlib.contextmanager
    def step(self, name: str, text: str, *, live: bool = True) -> Iterator[Step]:
        """One step: ``name`` is its key in the manifest, ``text`` what the person reads.

        ``live=False`` is for a tool that shows its own progress; how long it took last says nothing about this time.
        """
        began = time.monotonic()
        expected_s = self._expected_s.get(name) if live else None
        with self.console.step(text, expected_s=expected_s, live=live) as step:
            yield step
        self.durations_s[name] = round(time.monotonic() - began, 3)
