"""One project for the whole session, in which the bundled workspace is built once; artifacts apart for every test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings

# a busy machine is no fault of the code: nothing here is judged by its time
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

REPOSITORY = Path(__file__).parent.parent

SMALL_PROFILE = """
schema = 1
title = "SigLIP attention compiler, small"
notes = "batch {batch}; {threads} Rayon workers"
artifacts = "small"

[target]
package = "ipu-tests"
bin = "ipu-trivial-test"

[run]
args = ["c600-init.ipucfg", "--device-lock", "{device-lock}", "--package", "{package}",
        "--workload", "siglip-attention-benchmark", "--attention-strategy", "auto",
        "--attention-batch", "{batch}", "--attention-products", "auto",
        "--attention-heads", "1", "--attention-blocks", "1", "--inspect-exchanges"]
env = { RAYON_NUM_THREADS = "{threads}" }

[output]
path = "{package}"
depends-on = ["batch"]

[record]
frequency = 1999
call-graph = "fp"

[axes]
threads = { values = [1, 2, 16], default = 16, label = "{}threads" }
batch = { values = [1, 2], default = 1, label = "batch{}" }
build = { values = ["flamegraph", "release"], default = "flamegraph", label = "{}" }

[views.work]
inline = true
elide = ["rayon::*", "rayon_core::*", "crossbeam_*"]

[svg]
image-width = 1800
min-width = 0.2
deterministic = true

[device]
lock = "artifacts/layout-sweep/device.lock"
holder = "program"
"""


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project root with the small profile; ``run`` calls the command line in it."""

    root: Path
    artifacts: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def collection(self) -> Path:
        return self.artifacts / "small"

    @property
    def latest(self) -> Path:
        return (self.collection / "latest").resolve(strict=True)

    def environment(self, **changes: str) -> dict[str, str]:
        """The session's own, without settings of whoever runs the tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("IPUENV_")}
        kept |= {"IPUENV_ARTIFACTS": str(self.artifacts), "IPUENV_PROFILE": "small"}
        kept |= {"XDG_CACHE_HOME": str(self.root / "cache"), "COLUMNS": "200"}
        return {**kept, **self.env, **changes}

    def run(
        self,
        *words: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        wrapper: Sequence[str | Path] = (),
    ) -> subprocess.CompletedProcess[str]:
        command = [*wrapper, sys.executable, "-m", "ipuenv", *words]
        return subprocess.run(
            command,
            cwd=cwd or self.root,
            env=dict(env) if env is not None else self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def published(self) -> list[Path]:
        """Folders of published runs; staging folders begin with a dot."""
        if not self.collection.exists():
            return []
        return [
            path
            for path in self.collection.iterdir()
            if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
        ]


@pytest.fixture(scope="session")
def project_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by all workers of a session, so that the bundled workspace is built once; cargo locks its target dir."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "project"
    profiles = root / "profiles"
    profiles.mkdir(parents=True, exist_ok=True)
    shutil.copy(REPOSITORY / "profiles" / "builds.toml", profiles / "builds.toml")
    (profiles / "small.toml").write_text(SMALL_PROFILE)
    return root


@pytest.fixture
def project(project_root: Path, tmp_path: Path) -> Project:
    return Project(root=project_root, artifacts=tmp_path / "artifacts")


@pytest.fixture(scope="session")
def recorded_run(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with one run of the small profile at 16 threads; tests only read it."""
    project = Project(root=project_root, artifacts=tmp_path_factory.mktemp("recorded-run") / "artifacts")
    completed = project.run("flamegraph")
    assert completed.returncode == 0, completed.stderr + completed.stdout
    return project
