"""builds.toml: what its rows mean, and that no build can touch another's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipuenv.ground.builds import Build, load_builds
from ipuenv.ground.errors import UsageError
from ipuenv.ground.profile_errors import ProfileError

SHIPPED = Path(__file__).parents[2] / "profiles" / "builds.toml"


def load(tmp_path: Path, text: str) -> dict[str, Build]:
    path = tmp_path / "builds.toml"
    path.write_text(text, encoding="utf-8")
    return dict(load_builds(path, file="profiles/builds.toml"))


def lines(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, text)
    return str(caught.value).replace("profiles/builds.toml: ", "").splitlines()


def test_the_shipped_rows_are_those_of_the_seed() -> None:
    builds = load_builds(SHIPPED)
    assert list(builds) == ["flamegraph", "release", "dwarf"]
    flamegraph = builds["flamegraph"]
    assert flamegraph.target_dir == "target/flamegraph"
    assert (flamegraph.cargo_profile, flamegraph.profile_dir) == ("release", "release")
    assert (flamegraph.debug, flamegraph.jobs, flamegraph.sdk_environment) == (True, 16, True)
    assert flamegraph.rustflags == ("-C", "target-cpu=native", "-C", "force-frame-pointers=yes")


def test_the_shipped_release_row_changes_nothing_of_the_workspace_s_build() -> None:
    release = load_builds(SHIPPED)["release"]
    assert (release.target_dir, release.debug, release.jobs, release.rustflags) == ("target", None, None, None)


def test_the_shipped_dwarf_row_forces_no_frame_pointers() -> None:
    dwarf = load_builds(SHIPPED)["dwarf"]
    assert dwarf.debug is True
    assert dwarf.rustflags == ("-C", "target-cpu=native")


def test_what_a_row_leaves_out_stays_as_the_workspace_has_it(tmp_path: Path) -> None:
    assert load(tmp_path, '[own]\ntarget-dir = "./target//own/"')["own"] == Build.model_validate(
        {
            "target-dir": "target/own",
            "cargo-profile": "release",
            "debug": None,
            "jobs": None,
            "rustflags": None,
            "sdk-environment": True,
        }
    )


def test_cargo_s_own_profiles_have_folders_of_other_names(tmp_path: Path) -> None:
    row = load(tmp_path, '[own]\ntarget-dir = "own"\ncargo-profile = "dev"')["own"]
    assert row.profile_dir == "debug"


def test_two_rows_may_not_share_a_target_dir_however_it_is_spelt(tmp_path: Path) -> None:
    text = '[a]\ntarget-dir = "target/x"\n[b]\ntarget-dir = "./target//x/"\n[c]\ntarget-dir = "target/xy"'
    assert lines(tmp_path, text) == ["b.target-dir: \"target/x\" is the target dir of 'a' too. Give each row its own."]


def test_a_target_dir_may_not_lie_in_what_another_row_builds(tmp_path: Path) -> None:
    text = '[a]\ntarget-dir = "out"\ncargo-profile = "fast"\n[b]\ntarget-dir = "out/fast/x"\n[c]\ntarget-dir = "out/c"'
    assert lines(tmp_path, text) == ["b.target-dir: \"out/fast/x\" lies where 'a' is built. Give each row its own."]


@pytest.mark.parametrize("target_dir", ["target", "./target/", "target/release", "target/debug/x"])
def test_the_workspace_s_own_target_is_for_the_row_release_alone(tmp_path: Path, target_dir: str) -> None:
    [line] = lines(tmp_path, f'[fast]\ntarget-dir = "{target_dir}"')
    assert line.startswith("fast.target-dir: ")
    assert line.endswith('holds the workspace\'s own builds. Write "target/fast".')
    assert load(tmp_path, '[release]\ntarget-dir = "target"')["release"].target_dir == "target"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("", "a.target-dir: missing. Wanted: CARGO_TARGET_DIR, below the workspace"),
        ('target-dir = "/scratch"', "a.target-dir: wanted a relative path without '..', found \"/scratch\"."),
        ('target-dir = "x/../.."', "a.target-dir: wanted a relative path without '..', found \"x/../..\"."),
        ('target-dir = "."', "a.target-dir: wanted a relative path without '..', found \".\"."),
        ('target-dir = "x"\njobs = 0', "a.jobs: wanted at least 1, found the integer 0."),
        ('target-dir = "x"\njobs = "16"', 'a.jobs: wanted an integer, found the string "16".'),
        ('target-dir = "x"\ndebug = 2', "a.debug: wanted true or false, found the integer 2."),
        ('target-dir = "x"\ncargo-profile = "-x"', 'a.cargo-profile: wanted the name of a cargo profile, found "-x".'),
        ('target-dir = "x"\nrustflags = "-C x"', 'a.rustflags: wanted a list, found the string "-C x".'),
        ('target-dir = "x"\njobs = 4097', "a.jobs: wanted at most 4096, found the integer 4097."),
        (
            'target-dir = "x"\nrustflags = ["-C\\u001f"]',
            'a.rustflags[0]: wanted a compiler flag without control characters, found "-C\\u001f".',
        ),
        (
            'target-dir = "x"\nrustflags = ["-C", ""]',
            'a.rustflags[1]: wanted a compiler flag without control characters, found "".',
        ),
        (
            'target-dir = "x"\nrust-flags = []',
            (
                "a.rust-flags: unknown key. Did you mean 'rustflags'? Allowed: target-dir, cargo-profile, debug, jobs, "
                "rustflags, sdk-environment."
            ),
        ),
    ],
)
def test_each_fault_of_a_row_is_named(tmp_path: Path, row: str, message: str) -> None:
    [line] = lines(tmp_path, f"[a]\n{row}")
    assert line.startswith(message)


@pytest.mark.parametrize("name", ["-x", ".x", "a/b", "a b"])
def test_a_row_s_name_fits_into_a_folder_s(tmp_path: Path, name: str) -> None:
    [line] = lines(tmp_path, f'["{name}"]\ntarget-dir = "x"')
    assert line.endswith("wanted a build's name of letters, digits, '.', '_' and '-', since it names a folder.")


def test_without_another_name_messages_name_the_file_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "builds.toml"
    path.write_text("x = 1")
    with pytest.raises(ProfileError) as caught:
        load_builds(path)
    assert caught.value.file == str(path)


def test_all_faults_of_the_file_are_named_at_once(tmp_path: Path) -> None:
    text = 'x = 1\n["a b"]\ntarget-dir = "target"\n[c]\ntarget-dir = "y"\njobs = 0\n[d]\ntarget-dir = "y"'
    assert lines(tmp_path, text) == [
        "x: wanted a table, found the integer 1.",
        "\"a b\": wanted a build's name of letters, digits, '.', '_' and '-', since it names a folder.",
        '"a b".target-dir: "target" holds the workspace\'s own builds. Write "target/a b".',
        "c.jobs: wanted at least 1, found the integer 0.",
        "d.target-dir: \"y\" is the target dir of 'c' too. Give each row its own.",
    ]


def test_an_empty_file_is_no_set_of_builds(tmp_path: Path) -> None:
    assert lines(tmp_path, "") == ["wanted at least one build, found none."]


def test_the_error_is_a_usage_error_with_a_next_step(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, "x = 1")
    assert caught.value.exit_code == 2
    assert caught.value.hint == "correct profiles/builds.toml, then run the same command again"
