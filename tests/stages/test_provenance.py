"""Where a run comes from, against git itself."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from ipuenv.stages import provenance


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "inside").mkdir(parents=True)
    (folder / "inside" / "file").write_text("one\n")
    (folder / "outside").write_text("one\n")
    git(folder, "init", "-q", "-b", "trunk")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-m", "first")
    return folder


def git(folder: Path, *words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout


def test_a_clean_revision(repository: Path) -> None:
    found = provenance.revision(repository, os.environ)
    assert found is not None
    assert found.commit == git(repository, "rev-parse", "HEAD").decode().strip()
    assert (found.branch, found.is_dirty) == ("trunk", False)


def test_changes_of_tracked_files_are_hashed(repository: Path) -> None:
    (repository / "inside" / "file").write_text("two\n")
    (repository / "untracked").write_text("new\n")
    found = provenance.revision(repository, os.environ)
    assert found is not None
    assert found.diff_sha256 == hashlib.sha256(git(repository, "diff", "--binary", "HEAD")).hexdigest()


def test_changes_outside_the_workspace_do_not_count(repository: Path) -> None:
    (repository / "outside").write_text("two\n")
    found = provenance.revision(repository / "inside", os.environ)
    assert found is not None
    assert not found.is_dirty


def test_a_detached_head_has_no_branch(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    found = provenance.revision(repository, os.environ)
    assert found is not None
    assert found.branch is None


def test_no_repository_is_no_revision(tmp_path: Path) -> None:
    assert provenance.revision(tmp_path, {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}) is None


def test_tools_get_nothing_of_an_enabled_sdk() -> None:
    base = {"PATH": "/bin", "HOME": "/home/x", "LC_ALL": "C", "CARGO_HOME": "/c"}
    sdk = {"LD_LIBRARY_PATH": "/sdk/lib", "PYTHONPATH": "/sdk/python", "CPATH": "/sdk", "POPLAR_SDK_ENABLED": "/sdk"}
    assert provenance.tool_environment({**base, **sdk}) == base


def test_the_machine_is_this_one() -> None:
    found = provenance.machine()
    assert found.kernel == os.uname().release
    assert found.name == os.uname().nodename
    assert found.cpus == len(os.sched_getaffinity(0))
    assert found.cpu_model
