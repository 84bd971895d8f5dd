"""Builds with the real cargo, against what the built programs, the file system and the terminal say."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipuenv
from ipuenv.ground.console import Console
from ipuenv.ground.errors import FailedError, MissingError, UsageError
from ipuenv.stages.build import BuildRequest, Built, build, plan, replaced_rustflags
from ipuenv.stages.cargo_output import CargoOutput, plain

ENV = {name: value for name, value in os.environ.items() if not name.startswith("CARGO_") and name != "RUSTFLAGS"}

MAIN = """
fn main() {
    println!("marked={} named={}", cfg!(marked), cfg!(named = "two words"));
    println!("extra={:?} target={:?}", option_env!("EXTRA"), option_env!("CARGO_TARGET_DIR"));
}
"""

FILES = {
    "Cargo.toml": '[workspace]\nmembers = ["one", "two"]\nresolver = "2"\n[profile.profiling]\ninherits = "release"\n',
    "one/Cargo.toml": '[package]\nname = "gemm-tests"\nversion = "0.1.0"\nedition = "2021"\n'
    '[[bin]]\nname = "trial"\npath = "main.rs"\n[lints.rust]\nunexpected_cfgs = "allow"\n',
    "one/main.rs": MAIN,
    "two/Cargo.toml": '[package]\nname = "other-tests"\nversion = "0.1.0"\nedition = "2021"\n'
    '[features]\nspecial = []\n[[bin]]\nname = "trial"\npath = "main.rs"\n'
    '[[bin]]\nname = "gated"\npath = "gated.rs"\nrequired-features = ["special"]\n',
    "two/main.rs": 'fn main() { println!("the other"); }\n',
    "two/gated.rs": "fn main() {}\n",
}

BROKEN = """
fn first() -> u32 { "first mistake" }
fn second() -> u32 { unknown_second }
fn third() { unknown_third(); }
fn main() { let unused_first = 1; first(); second(); third(); }
"""

DRIVER = """
import os, sys
from pathlib import Path
from ipuenv.ground.console import Console
from ipuenv.ground.errors import IpuenvError
from ipuenv.stages.build import BuildRequest, build
console = Console()
request = BuildRequest(workspace=Path(sys.argv[1]), package="gemm-tests", bin="trial", target_dir=Path(sys.argv[2]))
try:
    with console.step("build", live=False):
        build(request, env=os.environ, console=console)
except IpuenvError as error:
    console.error(error)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A cargo workspace of two packages without dependencies, each with a bin ``trial``."""
    root = tmp_path / "work space"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def request(workspace: Path, **changes: object) -> BuildRequest:
    settings: dict[str, object] = {
        "workspace": workspace,
        "package": "gemm-tests",
        "bin": "trial",
        "target_dir": Path("target/row"),
    }
    return BuildRequest(**{**settings, **changes})  # type: ignore[arg-type]


def make(workspace: Path, env: dict[str, str] | None = None, **changes: object) -> Built:
    return build(request(workspace, **changes), env=ENV if env is None else env, console=quiet())


def quiet() -> Console:
    return Console(out=io.StringIO(), err=io.StringIO())


def output_of(built: Built) -> str:
    return subprocess.run([built.executable], check=True, capture_output=True, text=True).stdout


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Time and hash of every file."""
    return {
        str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.rglob("*")
        if path.is_file()
    }


def fake_tool(folder: Path, name: str, script: str) -> dict[str, str]:
    """An environment in which ``name`` is a script."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)
    return {**ENV, "PATH": f"{folder}:{ENV['PATH']}"}


# -- the plan -------------------------------------------------------------------------------------------------------


def test_plan_of_the_seeds_build(tmp_path: Path) -> None:
    planned = plan(
        BuildRequest(
            workspace=tmp_path,
            package="ipu-tests",
            bin="ipu-trivial-test",
            target_dir=Path("target/flamegraph"),
            debug=True,
            jobs=16,
            rustflags=("-C", "target-cpu=native", "-C", "force-frame-pointers=yes"),
        ),
        {},
    )
    assert planned.variables == {
        "CARGO_TARGET_DIR": str(tmp_path / "target/flamegraph"),
        "CARGO_PROFILE_RELEASE_DEBUG": "true",
        "CARGO_BUILD_JOBS": "16",
        "RUSTFLAGS": "-C target-cpu=native -C force-frame-pointers=yes",
    }
    assert planned.removed == ()
    assert planned.argv == (
        *("cargo", "build", "-p", "ipu-tests", "--bin", "ipu-trivial-test", "--release"),
        "--message-format=json-render-diagnostics",
    )


def test_plan_changes_nothing_that_was_not_asked_for(tmp_path: Path) -> None:
    planned = plan(request(tmp_path), {"HOME": "/home/me"})
    assert planned.variables == {"CARGO_TARGET_DIR": str(tmp_path / "target/row")}
    assert planned.removed == ()


def test_plan_names_the_cargo_profile(tmp_path: Path) -> None:
    planned = plan(request(tmp_path, cargo_profile="release-lto", debug=False), {})
    assert planned.variables["CARGO_PROFILE_RELEASE_LTO_DEBUG"] == "false"
    assert planned.argv[-3:-1] == ("--profile", "release-lto")


def test_flags_with_white_space_are_encoded(tmp_path: Path) -> None:
    flags = ("--cfg", 'named="two words"')
    planned = plan(request(tmp_path, rustflags=flags), {"RUSTFLAGS": "-g", "CARGO_ENCODED_RUSTFLAGS": "-O"})
    assert planned.variables["CARGO_ENCODED_RUSTFLAGS"].split("\x1f") == list(flags)
    assert planned.removed == ("RUSTFLAGS",)
    assert "RUSTFLAGS" not in planned.environment({"RUSTFLAGS": "-g"})


@pytest.mark.parametrize(
    ("inherited", "flags", "removed"),
    [
        ({"RUSTFLAGS": "-g"}, (), ("RUSTFLAGS",)),
        ({"CARGO_ENCODED_RUSTFLAGS": "-g"}, (), ("CARGO_ENCODED_RUSTFLAGS",)),
        ({"RUSTFLAGS": "-g", "CARGO_ENCODED_RUSTFLAGS": "-g"}, (), ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS")),
        ({"RUSTFLAGS": "-g", "CARGO_ENCODED_RUSTFLAGS": "-g"}, ("-O",), ("CARGO_ENCODED_RUSTFLAGS",)),
    ],
)
def test_inherited_flags_are_removed(
    tmp_path: Path, inherited: dict[str, str], flags: tuple[str, ...], removed: tuple[str, ...]
) -> None:
    planned = plan(request(tmp_path, rustflags=flags), inherited)
    assert planned.removed == removed
    assert {"RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"} & set(planned.environment(inherited)) == set(
        ["RUSTFLAGS"] if flags else []
    )


def test_the_rows_variables_win_over_further_ones(tmp_path: Path) -> None:
    planned = plan(request(tmp_path, env={"EXTRA": "1", "CARGO_TARGET_DIR": "/elsewhere", "RUSTFLAGS": "-g"}), {})
    assert planned.variables == {"EXTRA": "1", "CARGO_TARGET_DIR": str(tmp_path / "target/row")}


def test_plan_by_hand_is_shell(workspace: Path) -> None:
    planned = plan(request(workspace, rustflags=("--cfg", "marked")), {"CARGO_ENCODED_RUSTFLAGS": "-g"})
    env = {**ENV, "CARGO_ENCODED_RUSTFLAGS": "--cfg\x1fnever"}
    subprocess.run(["/bin/sh", "-c", planned.by_hand(workspace)], env=env, check=True, capture_output=True)
    program = workspace / "target/row/release/trial"
    assert subprocess.check_output([program], text=True).startswith("marked=true")


# -- builds ---------------------------------------------------------------------------------------------------------


def test_flags_variables_and_debug_info_arrive(workspace: Path) -> None:
    built = make(workspace, debug=True, jobs=2, rustflags=("--cfg", "marked"), env={**ENV, "EXTRA": "set"})
    target = str(workspace / "target/row")
    assert output_of(built) == f'marked=true named=false\nextra=Some("set") target=Some("{target}")\n'
    assert built.executable == workspace / "target/row/release/trial"
    assert not built.fresh
    sections = subprocess.check_output(["readelf", "-S", "-W", built.executable], text=True)
    assert ".debug_info" in sections
    assert built.variables["CARGO_BUILD_JOBS"] == "2"
    assert built.argv[0] == "cargo"


def test_debug_info_is_left_out_when_told(workspace: Path) -> None:
    built = make(workspace, debug=False)
    names = subprocess.check_output(["readelf", "-s", "-W", built.executable], text=True)
    with_debug = make(workspace, debug=True, target_dir=Path("target/debug-row"))
    files = [
        subprocess.check_output(["readelf", "-wi", path], text=True)
        for path in (built.executable, with_debug.executable)
    ]
    assert "main" in names
    assert ["one/main.rs" in text for text in files] == [False, True]


def test_encoded_flags_arrive_and_inherited_ones_do_not(workspace: Path) -> None:
    env = {**ENV, "RUSTFLAGS": "--cfg marked", "CARGO_ENCODED_RUSTFLAGS": "--cfg\x1fmarked"}
    built = build(request(workspace, rustflags=("--cfg", 'named="two words"')), env=env, console=quiet())
    assert output_of(built).startswith("marked=false named=true")
    plain_build = build(request(workspace, target_dir=Path("target/plain")), env=env, console=quiet())
    assert output_of(plain_build).startswith("marked=false named=false")


def test_second_build_is_fresh_and_leaves_the_file_alone(workspace: Path) -> None:
    first = make(workspace)
    before = tree(workspace / "target/row/release")
    second = make(workspace)
    assert (first.fresh, second.fresh) == (False, True)
    assert second.executable == first.executable
    assert tree(workspace / "target/row/release")[str(first.executable)] == before[str(first.executable)]


def test_the_workspaces_own_release_build_is_untouched(workspace: Path) -> None:
    subprocess.run(["cargo", "build", "--release"], cwd=workspace, env=ENV, check=True, capture_output=True)
    before = tree(workspace / "target")
    make(workspace, target_dir=Path("target-row"), debug=True, rustflags=("--cfg", "marked"))
    assert tree(workspace / "target") == before


def test_the_right_one_of_two_bins_with_one_name(workspace: Path) -> None:
    assert output_of(make(workspace, package="other-tests")) == "the other\n"
    assert output_of(make(workspace)).startswith("marked=")


def test_executable_is_where_cargo_says(workspace: Path) -> None:
    (host,) = (
        line.removeprefix("host: ")
        for line in subprocess.check_output(["rustc", "-vV"], text=True).splitlines()
        if line.startswith("host: ")
    )
    built = build(
        request(workspace, cargo_profile="profiling", debug=True),
        env={**ENV, "CARGO_BUILD_TARGET": host},
        console=quiet(),
    )
    assert built.executable == workspace / "target/row" / host / "profiling/trial"
    assert output_of(built).startswith("marked=false")


def test_versions_are_the_tools_own(workspace: Path) -> None:
    built = make(workspace)
    assert f"cargo {built.cargo_version}" == subprocess.check_output(["cargo", "--version"], text=True).strip()
    assert f"rustc {built.rustc_version}" == subprocess.check_output(["rustc", "--version"], text=True).strip()
    assert built.wall_s > 0


# -- flags of the workspace -----------------------------------------------------------------------------------------


def test_replaced_flags_are_named(workspace: Path, tmp_path: Path) -> None:
    home = tmp_path / "cargo home"
    configs = {
        workspace
        / ".cargo/config.toml": '[build]\nrustflags = ["-C", "link-arg=-s"]\n[target.x86_64-unknown-linux-gnu]\nrustflags = "-g"\n',
        tmp_path / ".cargo/config.toml": '[target."cfg(unix)"]\nrustflags = ["-O"]\n[build]\njobs = 1\n',
        home / "config.toml": "not toml",
        home / "config": '[build]\nrustflags = ["--cap-lints=warn"]\n',
    }
    for path, text in configs.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    env = {
        "CARGO_HOME": str(home),
        "CARGO_BUILD_RUSTFLAGS": "-v",
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS": "",
    }
    assert replaced_rustflags(request(workspace), env) is None
    note = replaced_rustflags(request(workspace, rustflags=("-O",)), env)
    assert note is not None
    assert note.split("; ") == [
        "CARGO_BUILD_RUSTFLAGS (-v)",
        f"build.rustflags (-C link-arg=-s) of {workspace}/.cargo/config.toml",
        f"target.x86_64-unknown-linux-gnu.rustflags (-g) of {workspace}/.cargo/config.toml",
        f"target.cfg(unix).rustflags (-O) of {tmp_path}/.cargo/config.toml",
        f"build.rustflags (--cap-lints=warn) of {home}/config",
    ]


def test_flags_of_the_workspace_hold_only_for_a_row_without_flags(workspace: Path) -> None:
    (workspace / ".cargo").mkdir()
    (workspace / ".cargo/config.toml").write_text('[build]\nrustflags = ["--cfg", "marked"]\n', encoding="utf-8")
    untouched = make(workspace)
    assert output_of(untouched).startswith("marked=true")
    assert untouched.rustflags_replaced is None
    replaced = make(workspace, rustflags=("-C", "opt-level=1"), target_dir=Path("target/other"))
    assert output_of(replaced).startswith("marked=false")
    assert replaced.rustflags_replaced is not None
    assert "build.rustflags (--cfg marked)" in replaced.rustflags_replaced


# -- failures -------------------------------------------------------------------------------------------------------


def test_unknown_package_and_bin_name_the_nearest(workspace: Path) -> None:
    with pytest.raises(UsageError, match="no package 'gem-tests'") as caught:
        make(workspace, package="gem-tests")
    assert caught.value.hint == "did you mean 'gemm-tests'?"
    assert caught.value.expected == "gemm-tests, other-tests"
    with pytest.raises(UsageError, match="no bin 'trail' in the package 'gemm-tests'") as caught:
        make(workspace, bin="trail")
    assert caught.value.hint == "did you mean 'trial'?"


def test_unknown_cargo_profile(workspace: Path) -> None:
    with pytest.raises(UsageError, match="no cargo profile 'fast'"):
        make(workspace, cargo_profile="fast")


def test_workspace_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no Cargo\.toml"):
        make(tmp_path)
    with pytest.raises(MissingError, match="does not exist"):
        make(tmp_path / "nowhere")


def test_broken_manifest_shows_what_cargo_says(workspace: Path) -> None:
    (workspace / "one/Cargo.toml").write_text("[package\n", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot read the workspace") as caught:
        make(workspace)
    assert any("one/Cargo.toml" in line for line in caught.value.tail)


def test_missing_cargo(workspace: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="'cargo' was not found") as caught:
        make(workspace, {**ENV, "PATH": str(tmp_path)})
    assert "rustup" in caught.value.hint


def test_missing_toolchain(workspace: Path, tmp_path: Path) -> None:
    env = fake_tool(tmp_path / "bin", "cargo", "echo \"error: toolchain '1.42-none' is not installed\" >&2; exit 1")
    with pytest.raises(MissingError, match="toolchain") as caught:
        build(request(workspace), env=env, console=quiet())
    assert "rustup toolchain install" in caught.value.hint


def test_a_feature_that_is_required_is_named(workspace: Path) -> None:
    with pytest.raises(FailedError, match=r"could not build 'gated' .*\(exit 101\)") as caught:
        make(workspace, package="other-tests", bin="gated")
    assert "requires the features: `special`" in caught.value.tail[0]


def test_cargo_that_is_killed(workspace: Path, tmp_path: Path) -> None:
    script = f'[ "$1" = metadata ] && exec {shutil.which("cargo")} "$@"\necho "   Compiling one" >&2; kill -KILL $$'
    with pytest.raises(FailedError, match="killed by SIGKILL") as caught:
        build(request(workspace), env=fake_tool(tmp_path / "bin", "cargo", script), console=quiet())
    assert caught.value.tail == ("   Compiling one",)


def test_cargo_that_names_no_executable(workspace: Path, tmp_path: Path) -> None:
    script = f'[ "$1" = metadata ] && exec {shutil.which("cargo")} "$@"\necho \'{{"reason":"other"}}\'; echo noise'
    with pytest.raises(FailedError, match="named no executable"):
        build(request(workspace), env=fake_tool(tmp_path / "bin", "cargo", script), console=quiet())


# -- what the person sees -------------------------------------------------------------------------------------------

ONCE = ("first mistake", "unknown_second }", "unknown_third();", "could not compile `gemm-tests`")


def driver(workspace: Path) -> list[str]:
    return [sys.executable, "-c", DRIVER, str(workspace), "target/row"]


def driver_env() -> dict[str, str]:
    return {**ENV, "PYTHONPATH": str(Path(ipuenv.__file__).parents[1]), "TERM": "xterm"}


def on_terminal(argv: list[str]) -> str:
    """What a terminal shows when ``argv`` runs on it."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(argv[0], argv, driver_env())
    seen = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the last writer is gone
            break
        if not part:
            break
        seen += part
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0
    return seen.decode()


def test_compile_errors_are_in_the_error_and_seen_once(workspace: Path) -> None:
    (workspace / "one/main.rs").write_text(BROKEN, encoding="utf-8")
    shown = io.StringIO()
    with pytest.raises(FailedError, match=r"could not build 'trial' of 'gemm-tests' \(exit 101\)") as caught:
        build(request(workspace), env=ENV, console=Console(out=io.StringIO(), err=shown))
    assert "could not compile `gemm-tests`" in caught.value.tail[-1]
    assert len(caught.value.tail) == 10
    text = shown.getvalue() + "\n".join(caught.value.tail)
    assert {part: text.count(part) for part in ONCE} == dict.fromkeys(ONCE, 1)
    assert "\x1b" not in text
    assert "Compiling" not in text
    assert text.index("error[E0425]") < text.index("could not compile")


def test_compile_errors_are_seen_once_on_a_terminal(workspace: Path) -> None:
    (workspace / "one/main.rs").write_text(BROKEN, encoding="utf-8")
    screen = plain(on_terminal(driver(workspace)))
    assert {part: screen.count(part) for part in ONCE} == dict.fromkeys(ONCE, 1)
    assert screen.count("Compiling gemm-tests") == 1
    order = [
        screen.index(part)
        for part in ("Compiling", "first mistake", "error: cargo could not build", "could not compile")
    ]
    assert order == sorted(order) or screen.index("unknown_second }") < screen.index("error: cargo could not build")


def test_a_terminal_shows_warnings_in_colour_as_they_come(workspace: Path) -> None:
    main = workspace / "one/main.rs"
    main.write_text("fn main() { let unused_thing = 1; }\n", encoding="utf-8")
    screen = on_terminal(driver(workspace))
    assert "\x1b[1m\x1b[33mwarning" in screen
    assert plain(screen).count("let unused_thing = 1;") == 1
    assert "Finished" in screen


def test_without_a_terminal_a_build_that_works_is_silent(workspace: Path) -> None:
    (workspace / "one/main.rs").write_text("fn main() { let unused_thing = 1; }\n", encoding="utf-8")
    shown = io.StringIO()
    build(request(workspace), env=ENV, console=Console(out=shown, err=shown))
    assert shown.getvalue() == ""


def test_nothing_but_steps_comes_to_stdout(workspace: Path) -> None:
    done = subprocess.run(driver(workspace), env=driver_env(), check=True, capture_output=True, text=True)
    assert done.stdout == ""
    assert "build" in done.stderr


# -- cargo's stderr -------------------------------------------------------------------------------------------------

STREAM = (
    b"\x1b[1m\x1b[92m   Compiling\x1b[0m error-chain v0.1\n"
    b"\x1b[1m\x1b[36m    Building\x1b[0m [=> ] 1/3: errors\r\x1b[Kwarning: an error may come\n"
    b"    Building [==> ] 2/3\r\x1b[K"
    b"\x1b[1m\x1b[91merror[E0308]\x1b[0m\x1b[1m: mismatched types\x1b[0m\n  --> main.rs\n"
    b"    Building [==> ] 2/3\r\x1b[K\x1b[91merror\x1b[0m: could not compile\n"
)


def fed(chunks: list[bytes]) -> tuple[bytes, list[str]]:
    """What is shown of, and what is kept from, a stream that comes in pieces."""
    reader, writer = os.pipe()
    output = CargoOutput(stream=-1, terminal=writer)
    for chunk in chunks:
        output.take(chunk)
    os.close(writer)
    with os.fdopen(reader, "rb") as shown:
        return shown.read(), output.errors()


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_pieces_of_the_stream_make_no_difference(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    shown, kept = fed([STREAM[begin:end] for begin, end in itertools.pairwise(edges)])
    before = STREAM[: STREAM.index(b"\x1b[K\x1b[1m\x1b[91merror[")]
    assert shown.replace(b"\r\x1b[0m\x1b[K", b"") == before
    assert [plain(line) for line in kept] == [
        "error[E0308]: mismatched types",
        "  --> main.rs",
        "error: could not compile",
    ]


def test_a_stream_without_an_error_is_shown_whole() -> None:
    text = b"   Compiling errors v1\r\nerrors are no error\n    Finished\x1b["
    assert fed([bytes([byte]) for byte in text])[0] in (text, text.removesuffix(b"\x1b["))


def test_json_of_cargo_is_read_alone(workspace: Path) -> None:
    """The stream that is parsed holds one JSON object for each line, whatever is drawn beside it."""
    planned = plan(request(workspace), ENV)
    done = subprocess.run(planned.argv, env=planned.environment(ENV), cwd=workspace, check=True, capture_output=True)
    assert {json.loads(line)["reason"] for line in done.stdout.splitlines()} >= {"compiler-artifact", "build-finished"}
