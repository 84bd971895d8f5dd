"""Roots: where things are, from a checkout, from a wheel, and with a workspace of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ipuenv.ground.errors import MissingError, UsageError
from ipuenv.ground.roots import (
    Bundled,
    Roots,
    find_builds,
    find_bundled,
    find_profile,
    find_project_root,
    find_roots,
    profile_names,
    shown,
)
from ipuenv.ground.settings import resolve

CHECKOUT = Path(__file__).parents[2]


def touch(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def bundled(tmp_path: Path) -> Bundled:
    """An installed wheel."""
    package = tmp_path / "site-packages" / "ipuenv"
    inside = package / "_bundled"
    touch(inside / "examples/ipu-workspace/Cargo.toml")
    (inside / "examples/poplar-sdk").mkdir()
    for name in ("builds", "attention-compiler", "tiny"):
        touch(inside / f"profiles/{name}.toml")
    return find_bundled(package)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "profiles").mkdir(parents=True)
    return tmp_path / "project"


def roots(project: Path, bundled: Bundled, environ: Mapping[str, str] | None = None) -> Roots:
    settings = resolve(options={}, environ=environ or {}, project_root=project, cwd=project)
    return find_roots(settings, project_root=project, bundled=bundled)


# -- project root -----------------------------------------------------------------------------------------------------


def test_the_project_root_is_the_nearest_folder_with_profiles(project: Path) -> None:
    deep = project / "a/b"
    deep.mkdir(parents=True)
    assert find_project_root(deep) == project
    (deep / "profiles").mkdir()
    assert find_project_root(deep) == deep


@pytest.mark.parametrize(
    ("pyproject", "where"),
    [
        ("[tool.ipuenv]\nsdk = 'x'", "inner"),
        ("[tool]\nipuenv = {}", "inner"),
        ("[tool.other]\nx = 1", ""),
        ("[tool.ipuenvy]\nx = 1", ""),
        ("tool = 3", ""),
        ("[tool.ipuenv]\nsdk = ", "inner"),
        ("[tool.other]\nx = ", ""),
    ],
)
def test_our_table_in_a_pyproject_makes_a_project_root(project: Path, pyproject: str, where: str) -> None:
    inner = touch(project / "inner/pyproject.toml", pyproject).parent
    assert find_project_root(inner) == project / where


def test_a_file_called_profiles_makes_no_project_root(project: Path) -> None:
    inner = touch(project / "inner/profiles").parent
    assert find_project_root(inner) == project


def test_without_either_the_current_folder_is_the_project_root(tmp_path: Path) -> None:
    assert find_project_root(tmp_path) == tmp_path


# -- what is bundled --------------------------------------------------------------------------------------------------


def test_in_a_checkout_the_bundled_files_lie_beside_the_package(tmp_path: Path) -> None:
    found = find_bundled(tmp_path / "ipuenv")
    assert found.profiles == tmp_path / "profiles"
    assert found.workspace == tmp_path / "examples/ipu-workspace"
    assert found.sdk == tmp_path / "examples/poplar-sdk"


def test_in_a_wheel_the_bundled_files_lie_inside_the_package(tmp_path: Path, bundled: Bundled) -> None:
    inside = tmp_path / "site-packages/ipuenv/_bundled"
    assert bundled.profiles == inside / "profiles"
    assert bundled.workspace == inside / "examples/ipu-workspace"
    assert bundled.sdk == inside / "examples/poplar-sdk"


def test_this_package_finds_the_shipped_profiles() -> None:
    path = find_profile("attention-compiler", project_root=Path("/"), bundled=find_bundled())
    assert path.is_file()


# -- workspace, SDK, target dirs, lock --------------------------------------------------------------------------------


def test_without_a_workspace_the_bundled_pair_is_used_and_nothing_is_written_into_it(
    project: Path, bundled: Bundled
) -> None:
    found = roots(project, bundled)
    assert (found.workspace, found.workspace_is_bundled) == (bundled.workspace, True)
    assert (found.sdk, found.sdk_is_bundled) == (bundled.sdk, True)
    assert found.artifacts == project / "artifacts"
    assert found.target_dir("target/flamegraph") == project / "target/bundled/target/flamegraph"
    assert found.device_lock("locks/device.lock") == project / "target/bundled/locks/device.lock"


def test_a_workspace_of_one_s_own_holds_its_target_dirs_and_its_lock(project: Path, bundled: Bundled) -> None:
    workspace = touch(project.parent / "stack/Cargo.toml").parent
    found = roots(project, bundled, {"IPUENV_WORKSPACE": str(workspace)})
    assert (found.workspace, found.workspace_is_bundled) == (workspace, False)
    assert found.target_dir("target/flamegraph") == workspace / "target/flamegraph"
    assert found.device_lock("locks/../device.lock") == workspace / "device.lock"
    assert found.artifacts == project / "artifacts"


def test_a_workspace_of_one_s_own_never_gets_the_stand_in_sdk(project: Path, bundled: Bundled) -> None:
    touch(project / "stack/Cargo.toml")
    found = roots(project, bundled, {"IPUENV_WORKSPACE": "stack"})
    assert (found.sdk, found.sdk_is_bundled) == (None, False)


def test_an_sdk_of_one_s_own_serves_the_bundled_workspace_too(project: Path, bundled: Bundled) -> None:
    found = roots(project, bundled, {"IPUENV_SDK": "/opt/poplar_sdk"})
    assert (found.sdk, found.sdk_is_bundled) == (Path("/opt/poplar_sdk"), False)
    assert found.workspace_is_bundled


def test_a_lock_is_absolute_where_a_profile_or_a_person_says_so(project: Path, bundled: Bundled) -> None:
    assert roots(project, bundled).device_lock("/var/lock/ipu0") == Path("/var/lock/ipu0")
    overridden = roots(project, bundled, {"IPUENV_DEVICE_LOCK": "my.lock"})
    assert overridden.device_lock("/var/lock/ipu0") == project / "my.lock"


def test_artifacts_go_where_the_setting_says(project: Path, bundled: Bundled) -> None:
    assert roots(project, bundled, {"IPUENV_ARTIFACTS": "/big/artifacts"}).artifacts == Path("/big/artifacts")


@pytest.mark.parametrize(
    ("fault", "make"), [("does not exist", ""), ("is not a folder", "stack"), ("holds no Cargo.toml", "stack/README")]
)
def test_a_workspace_that_is_none_is_named_with_who_set_it(
    project: Path, bundled: Bundled, fault: str, make: str
) -> None:
    if make:
        touch(project / make)
    touch(project / ".env", "IPUENV_WORKSPACE=stack")
    with pytest.raises(MissingError) as caught:
        roots(project, bundled)
    assert caught.value.exit_code == 3
    assert caught.value.what == f"the workspace '{project / 'stack'}', set by .env:1, {fault}"
    assert caught.value.expected == "a Cargo workspace: a folder that holds a Cargo.toml"
    assert caught.value.hint == "correct .env:1, or leave it out to use the bundled workspace"


def test_a_broken_installation_is_named(project: Path, bundled: Bundled) -> None:
    (bundled.workspace / "Cargo.toml").unlink()
    with pytest.raises(MissingError) as caught:
        roots(project, bundled)
    assert caught.value.what == f"the bundled workspace '{bundled.workspace}' holds no Cargo.toml"
    assert caught.value.expected == "the example workspace that ipuenv is installed with"
    assert caught.value.hint == "install ipuenv again, or set IPUENV_WORKSPACE=/path/to/workspace"


# -- profiles ---------------------------------------------------------------------------------------------------------


def test_a_name_is_the_project_s_profile_before_the_bundled_one(project: Path, bundled: Bundled) -> None:
    assert find_profile("tiny", project_root=project, bundled=bundled) == bundled.profiles / "tiny.toml"
    own = touch(project / "profiles/tiny.toml")
    assert find_profile("tiny", project_root=project, bundled=bundled) == own


def test_a_toml_file_anywhere_is_a_profile(project: Path, bundled: Bundled) -> None:
    path = touch(project / "elsewhere/own.toml")
    assert find_profile(str(path), project_root=Path("/"), bundled=bundled) == path
    assert find_profile("elsewhere/own.toml", project_root=project, bundled=bundled) == path


def test_the_names_are_the_project_s_then_the_bundled_each_once_and_no_builds(project: Path, bundled: Bundled) -> None:
    touch(project / "profiles/zeta.toml")
    touch(project / "profiles/tiny.toml")
    touch(project / "profiles/builds.toml")
    assert profile_names(project_root=project, bundled=bundled) == ("tiny", "zeta", "attention-compiler")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("attention-compile", "did you mean 'attention-compiler'?"),
        ("profiles/tiny", "did you mean 'tiny'?"),
        ("zzz", "name one with --profile or IPUENV_PROFILE"),
        ("builds", "name one with --profile or IPUENV_PROFILE"),
        ("../x", "name one with --profile or IPUENV_PROFILE"),
    ],
)
def test_an_unknown_name_lists_the_known_ones(project: Path, bundled: Bundled, name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_profile(name, project_root=project, bundled=bundled)
    assert caught.value.what == f'there is no profile "{name}"'
    assert caught.value.expected == "one of attention-compiler, tiny, or the path of a .toml file"
    assert caught.value.hint == hint


def test_a_path_to_nothing_is_named_in_full(project: Path, bundled: Bundled) -> None:
    with pytest.raises(UsageError) as caught:
        find_profile("tinny.toml", project_root=project, bundled=bundled)
    assert caught.value.what == f"there is no profile '{project / 'tinny.toml'}'"
    assert caught.value.hint == "did you mean 'tiny'?"


def test_builds_are_those_beside_the_profile_then_the_project_s_then_the_bundled(
    project: Path, bundled: Bundled
) -> None:
    profile = touch(project / "elsewhere/own.toml")
    assert find_builds(profile, project_root=project, bundled=bundled) == bundled.profiles / "builds.toml"
    of_project = touch(project / "profiles/builds.toml")
    assert find_builds(profile, project_root=project, bundled=bundled) == of_project
    beside = touch(project / "elsewhere/builds.toml")
    assert find_builds(profile, project_root=project, bundled=bundled) == beside


def test_messages_name_files_from_the_project_root(project: Path) -> None:
    assert shown(project / "profiles/x.toml", project) == "profiles/x.toml"
    assert shown(Path("/else/x.toml"), project) == "/else/x.toml"
