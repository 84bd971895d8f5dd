"""The commands on a run's page run as they stand, from the folder that the page names."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ipuenv.stages import manifest, store
from tests.front.reading import changed, parse, publish, run, visible

FAKE_TOOL = """#!{python} -ES
import json, os, sys
name = os.path.basename(sys.argv[0])
argv = sys.argv[1:]
with open(os.path.join({log!r}, name), "w") as file:
    json.dump({{"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ)}}, file)
if name == "perf":
    open(argv[argv.index("-o") + 1], "w").close()
    with open(argv[argv.index("--package") + 1], "w") as file:
        file.write("the package")
    print("said by the program")
"""
NOTES = 'it\'s "batch 1"; $(touch pwned) `touch pwned` \\ | é\n16 workers'


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[tuple[store.Published, dict[str, str]]]:
    """A published run whose every text is difficult, and an environment in which the tools note how they are called."""
    workspace, sdk, log, tools = (tmp_path / name for name in ('ipu\'s "stack" é', "sdk $x", "log", "tools"))
    for folder in (workspace, sdk, log, tools):
        folder.mkdir()
    (sdk / "enable.sh").write_text(
        '[ -z "${POPLAR_SDK_ENABLED+x}" ] && export FROM_SDK=1 POPLAR_SDK_ENABLED=here\nfalse\n'
    )
    for name in ("cargo", "perf", "flamegraph", "ipuenv"):
        (tools / name).write_text(FAKE_TOOL.format(python=sys.executable, log=str(log)))
        (tools / name).chmod(0o755)
    stored = run()
    variant = stored.variants[0]
    assert variant.build.command is not None
    assert variant.output is not None
    build = variant.build.model_copy(
        update={
            "command": variant.build.command.model_copy(
                update={
                    "cwd": str(workspace),
                    "environment": manifest.EnvironmentChanges(
                        added={"CARGO_ENCODED_RUSTFLAGS": "-C\x1flink-arg=a b", "EMPTY": ""}, removed=("RUSTFLAGS",)
                    ),
                }
            ),
            "artifact": f"{workspace}/target/release/ipu trivial",
        }
    )
    run_dir = "/gone/.x.partial/16threads"
    program = manifest.Command(
        argv=(
            "/blobs/program",
            "--package",
            f"{run_dir}/model.ipuexe",
            f"--beside={run_dir}-batch4/x",
            NOTES,
            "",
            f"--log={run_dir}",
        ),
        cwd=str(workspace),
        environment=manifest.EnvironmentChanges(added={"RAYON_NUM_THREADS": "16", "RUN": f"{run_dir}/x"}),
    )
    output = variant.output.model_copy(update={"sha256": hashlib.sha256(b"the package").hexdigest()})
    assert variant.recording is not None
    recording = variant.recording.model_copy(update={"event_asked": "cpu-clock:u", "mmap_pages": 64})
    sdk_facts = manifest.Sdk(root=str(sdk), scripts=(str(sdk / "enable.sh"),), stand_in=True)
    hard = changed(build=build, program=program, output=output, run_dir=run_dir, notes=NOTES, recording=recording)
    published = publish(
        tmp_path,
        hard.model_copy(update={"sdk": sdk_facts, "workspace": manifest.Workspace(root=str(workspace), bundled=False)}),
    )
    env = {
        "PATH": f"{tools}:/usr/bin:/bin",
        "TMPDIR": str(tmp_path / "out"),
        "POPLAR_SDK_ENABLED": "another",
        "RUSTFLAGS": "mine",
        "LC_ALL": "C.UTF-8",
    }
    yield published, env
    assert not list(tmp_path.rglob("pwned"))


def blocks(page: Path) -> dict[str, tuple[str, str]]:
    """Each command of a page by its title: the folder it is started in (empty for the page's own) and the script."""
    tokens = parse(page.read_text(encoding="utf-8"))
    found: dict[str, tuple[str, str]] = {}
    for before, token in zip(tokens[1:], tokens[3:], strict=False):
        if token.type == "fence":
            title, where = visible(before.children or []).rsplit(". From ", 1)
            found[title.split(",")[0]] = ("" if where == "this folder:" else where.removesuffix(":"), token.content)
    return found


def execute(published: store.Published, title: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    folder, script = next(value for key, value in blocks(published.path / "README.md").items() if key.startswith(title))
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", script],
        cwd=folder or published.path,
        env=env,
        text=True,
        capture_output=True,
        check=False,
    )


def called(env: dict[str, str], name: str) -> dict[str, Any]:
    value = json.loads((Path(env["TMPDIR"]).parent / "log" / name).read_text())
    assert isinstance(value, dict)
    return value


def test_build_and_record_run_as_they_stand(by_hand: tuple[store.Published, dict[str, str]]) -> None:
    published, env = by_hand
    done = execute(published, "Build and record", env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    cargo, perf = called(env, "cargo"), called(env, "perf")
    assert cargo["argv"] == ["build", "-p", "ipu-tests", "--bin", "ipu-trivial-test", "--release"]
    assert cargo["env"]["CARGO_ENCODED_RUSTFLAGS"] == "-C\x1flink-arg=a b"
    assert cargo["env"]["EMPTY"] == ""
    assert "RUSTFLAGS" not in cargo["env"]
    assert (cargo["env"]["FROM_SDK"], cargo["env"]["POPLAR_SDK_ENABLED"]) == ("1", "here")
    out = next(Path(env["TMPDIR"]).glob(f"ipuenv-*/{published.manifest.run_id}/16threads"))
    workspace = published.manifest.workspace.root
    assert perf["cwd"] == cargo["cwd"] == workspace
    assert perf["argv"] == [
        *("record", "-N", "-F", "99", "--call-graph", "fp", "-e", "cpu-clock:u", "-m", "64"),
        *("-o", f"{out}/perf.data", "--", f"{workspace}/target/release/ipu trivial"),
        *(
            "--package",
            f"{out}/model.ipuexe",
            "--beside=/gone/.x.partial/16threads-batch4/x",
            NOTES,
            "",
            f"--log={out}",
        ),
    ]
    assert (perf["env"]["RAYON_NUM_THREADS"], perf["env"]["RUN"]) == ("16", f"{out}/x")
    assert "FROM_SDK" not in perf["env"]
    assert (out / "run.log").read_text() == "said by the program\n"


def test_the_package_is_compared_as_it_stands(by_hand: tuple[store.Published, dict[str, str]]) -> None:
    published, env = by_hand
    assert execute(published, "Build and record", env).returncode == 0
    same = execute(published, "Compare the output", env)
    assert same.returncode == 0
    assert [line.rsplit(": ", 1)[1] for line in same.stdout.splitlines()] == ["OK", "OK"]
    next(Path(env["TMPDIR"]).glob("ipuenv-*/*/16threads/model.ipuexe")).write_text("another package")
    other = execute(published, "Compare the output", env)
    assert other.returncode == 1
    assert [line.rsplit(": ", 1)[1] for line in other.stdout.splitlines()] == ["FAILED", "OK"]


def test_the_views_are_drawn_as_they_stand(by_hand: tuple[store.Published, dict[str, str]]) -> None:
    published, env = by_hand
    assert execute(published, "Draw the functions view", env).returncode == 0
    flamegraph = called(env, "flamegraph")
    out = next(Path(env["TMPDIR"]).glob("ipuenv-*/*/16threads"))
    assert flamegraph["cwd"] == str(published.path)
    assert flamegraph["argv"] == [
        *("--perfdata", "16threads/perf.data", "--no-inline", "--deterministic", "--image-width", "1800"),
        *("--min-width", "0.2", "--notes", NOTES, "-o", f"{out}/attention-compiler-functions.svg"),
    ]
    assert execute(published, "Draw the views full", env).returncode == 0
    assert called(env, "ipuenv")["argv"] == ["render", "16threads", "--view", "full", "--view", "work", "-o", str(out)]
    assert called(env, "ipuenv")["cwd"] == str(published.path)
    assert store.verify_run(published.path) == ()


def test_a_failing_build_stops_before_the_recording(by_hand: tuple[store.Published, dict[str, str]]) -> None:
    published, env = by_hand
    (Path(env["PATH"].split(":")[0]) / "cargo").write_text("#!/bin/sh\nexit 101\n")
    assert execute(published, "Build and record", env).returncode == 101
    assert not (Path(env["TMPDIR"]).parent / "log" / "perf").exists()


def test_a_lock_that_ipuenv_held_is_taken_by_hand() -> None:
    device = manifest.Device(touched="yes", holder="ipuenv", lock="/var/lock/the ipu")
    commands = manifest.with_commands(changed(device=device)).variants[0].commands
    assert "flock '/var/lock/the ipu' perf record -N" in commands[0].script
    assert "flock" not in manifest.with_commands(changed()).variants[0].commands[0].script


def test_without_a_build_the_stored_executable_is_recorded() -> None:
    build = run().variants[0].build.model_copy(update={"command": None})
    record = manifest.with_commands(changed(build=build)).variants[0].commands[0]
    assert record.title == "Record"
    assert f"-- \\\n    /srv/ana/artifacts/.blobs/sha256/ee/{'e' * 64}/ipu-trivial-test" in record.script
    assert "cargo" not in record.script


def test_a_variant_without_a_recording_has_no_commands() -> None:
    assert manifest.with_commands(changed(recording=None)).variants[0].commands == ()
