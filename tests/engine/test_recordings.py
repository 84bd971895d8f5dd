"""The stored recordings read as they were recorded, on any machine and without its perf."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipuenv.engine import recording, views
from ipuenv.engine.stacks import FrameKind
from tests.engine.mutations import RECORDINGS

STEPS = RECORDINGS / "steps"
WITHOUT_BUILD_ID = ("pipe.perf.data", "compressed-pipe.perf.data", "killed.perf.data")


@pytest.fixture
def no_kallsyms(tmp_path: Path) -> Path:
    path = tmp_path / "kallsyms"
    path.write_text("")
    return path


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.perf.data")), ids=lambda path: path.name)
def test_stacks_of_a_stored_recording(path: Path, no_kallsyms: Path) -> None:
    found = recording.read(path, stored=[STEPS], kallsyms=no_kallsyms)
    drawn = views.draw(found.stacks, views.FUNCTIONS)
    own = [drawn.stack(node) for node in range(1, len(drawn)) if drawn.weights[node]]
    stacks = [[label.name for label in stack if label.kind is FrameKind.NATIVE] for stack in own]
    assert drawn.total == len(found.data.samples) > 10
    assert found.data.lost == 0
    assert found.data.is_partial == (path.name == "killed.perf.data")
    if path.name not in WITHOUT_BUILD_ID:
        assert max(stacks, key=len) == ["_start", *["descend(int)"] * 9, "step(long)"]
        assert found.quality.mismatches == {}


@pytest.mark.parametrize("name", ["plain.perf.data", "pipe.perf.data"])
def test_origin_of_a_stored_recording(name: str, no_kallsyms: Path) -> None:
    features = recording.read(RECORDINGS / name, kallsyms=no_kallsyms).data.features
    assert (features.hostname, features.arch) == ("recorder", "x86_64")
    assert features.perf_version.startswith("6.1.")
    assert features.cmdline[-1] == "./steps"
