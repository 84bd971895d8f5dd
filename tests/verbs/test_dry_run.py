"""``--dry-run``: the seed page's variables and arguments, with absolute paths."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.conftest import REPOSITORY, Project

SEED_BUILD_VARIABLES = {
    "CARGO_PROFILE_RELEASE_DEBUG": "true",
    "CARGO_BUILD_JOBS": "16",
    "RUSTFLAGS": "-C target-cpu=native -C force-frame-pointers=yes",
}
SEED_ARGUMENTS = shlex.split("""
c600-init.ipucfg --device-lock LOCK --package PACKAGE --workload siglip-attention-benchmark --attention-strategy auto
--attention-batch 1 --attention-products auto --inspect-exchanges
""")


def planned(project: Project, *words: str) -> dict[str, object]:
    env = project.environment(IPUENV_PROFILE="attention-compiler")
    completed = project.run("flamegraph", "--dry-run", "--json", *words, env=env)
    assert completed.returncode == 0, completed.stderr
    loaded: dict[str, object] = json.loads(completed.stdout)
    return loaded


def test_the_seed_page_is_what_would_run(project: Project) -> None:
    plan = planned(project)
    build, record = plan["build"], plan["record"]
    assert isinstance(build, dict)
    assert isinstance(record, dict)
    target_dir = Path(build["variables"].pop("CARGO_TARGET_DIR"))
    assert target_dir.is_absolute()
    assert target_dir.parts[-2:] == ("target", "flamegraph")
    assert build["variables"] == SEED_BUILD_VARIABLES
    assert build["argv"] == ["cargo", "build", "-p", "ipu-tests", "--bin", "ipu-trivial-test", "--release"]
    argv = record["argv"]
    split = argv.index("--")
    assert argv[:split][:6] == ["perf", "record", "-F", "99", "--call-graph", "fp"]
    arguments = argv[split + 2 :]
    lock, package = Path(arguments[2]), Path(arguments[4])
    assert lock.is_absolute()
    assert package.is_absolute()
    assert lock.parts[-3:] == ("artifacts", "layout-sweep", "device.lock")
    expected = [{"LOCK": str(lock), "PACKAGE": str(package)}.get(word, word) for word in SEED_ARGUMENTS]
    assert arguments == expected
    assert record["variables"]["RAYON_NUM_THREADS"] == "16"


def test_a_variant_changes_its_own_values_only(project: Project) -> None:
    record = planned(project, "--variant", "2threads-batch4")["record"]
    assert isinstance(record, dict)
    assert record["variables"]["RAYON_NUM_THREADS"] == "2"
    argv = record["argv"]
    assert argv[argv.index("--attention-batch") + 1] == "4"


def test_nothing_is_made(project: Project) -> None:
    planned(project)
    assert not project.artifacts.exists()


def test_the_script_is_shell(project: Project) -> None:
    env = project.environment(IPUENV_PROFILE="attention-compiler")
    completed = project.run("flamegraph", "--dry-run", env=env)
    lines = completed.stdout.splitlines()
    workspace = REPOSITORY / "examples" / "ipu-workspace"
    assert shlex.split(lines[0]) == ["cd", str(workspace)]
    assert shlex.split(lines[1])[:2] == ["mkdir", "-p"]
    assert lines[2] == "unset POPLAR_SDK_ENABLED"
    assert shlex.split(lines[3]) == ["source", str(REPOSITORY / "examples" / "poplar-sdk" / "enable")]
    assert "RUSTFLAGS='-C target-cpu=native -C force-frame-pointers=yes'" in completed.stdout
