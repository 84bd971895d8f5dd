"""Settings: which source wins, what a relative path means, and what is said about slips."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ipuenv.ground.errors import UsageError
from ipuenv.ground.settings import NAMES, Settings, SettingsError, Source, resolve, variable

SOURCES = [Source.OPTION, Source.VARIABLE, Source.DOTENV, Source.PYPROJECT]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "sub").mkdir(parents=True)
    return tmp_path / "root"


def settings(
    root: Path,
    *,
    options: Mapping[str, str | None] | None = None,
    environ: Mapping[str, str] | None = None,
    dotenv: str | None = None,
    pyproject: str | None = None,
) -> Settings:
    if dotenv is not None:
        (root / ".env").write_text(dotenv, encoding="utf-8")
    if pyproject is not None:
        (root / "pyproject.toml").write_text(pyproject, encoding="utf-8")
    return resolve(options=options or {}, environ=environ or {}, project_root=root, cwd=root / "sub")


def test_without_any_source_the_defaults_hold(root: Path) -> None:
    found = settings(root)
    assert {name: setting.value for name, setting in found.by_name().items()} == {
        "workspace": None,
        "sdk": None,
        "artifacts": root / "artifacts",
        "profile": "attention-compiler",
        "device-lock": None,
    }
    assert {setting.source for setting in found.by_name().values()} == {Source.DEFAULT}
    assert {setting.origin for setting in found.by_name().values()} == {"default"}
    assert found.warnings == ()


def test_every_setting_has_its_variable() -> None:
    assert [variable(name) for name in NAMES] == [
        "IPUENV_WORKSPACE",
        "IPUENV_SDK",
        "IPUENV_ARTIFACTS",
        "IPUENV_PROFILE",
        "IPUENV_DEVICE_LOCK",
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("present", [c for n in range(1, 5) for c in itertools.combinations(SOURCES, n)])
def test_the_nearest_source_wins(root: Path, name: str, present: tuple[Source, ...]) -> None:
    found = settings(
        root,
        options={name: "/option" if Source.OPTION in present else None},
        environ={variable(name): "/variable"} if Source.VARIABLE in present else {},
        dotenv=f"# mine\n\n{variable(name)}=/dotenv\n" if Source.DOTENV in present else None,
        pyproject=f'[tool.ipuenv]\n{name} = "/pyproject"' if Source.PYPROJECT in present else None,
    ).by_name()[name]
    winner = present[0]
    assert str(found.value) == f"/{winner}"
    assert found.source is winner
    assert (
        found.origin
        == {
            Source.OPTION: f"--{name}",
            Source.VARIABLE: variable(name),
            Source.DOTENV: ".env:3",
            Source.PYPROJECT: f"pyproject.toml [tool.ipuenv] {name}",
        }[winner]
    )


def test_a_relative_path_is_relative_to_where_it_was_said(root: Path) -> None:
    found = settings(
        root,
        options={"workspace": "w"},
        environ={"IPUENV_SDK": "../s"},
        dotenv="IPUENV_ARTIFACTS=a/../b\n",
        pyproject='[tool.ipuenv]\ndevice-lock = "locks/ipu0"',
    )
    assert found.workspace.value == root / "sub" / "w"
    assert found.sdk.value == root / "s"
    assert found.artifacts.value == root / "b"
    assert found.device_lock.value == root / "locks/ipu0"


def test_a_profile_is_a_name_or_a_path(root: Path) -> None:
    assert settings(root, environ={"IPUENV_PROFILE": "small"}).profile.value == "small"
    assert settings(root, environ={"IPUENV_PROFILE": "small.toml"}).profile.value == str(root / "sub/small.toml")
    assert settings(root, dotenv="IPUENV_PROFILE=p/small.toml").profile.value == str(root / "p/small.toml")


@pytest.mark.parametrize(
    ("text", "path"), [("~/sdk", "/home/ana/sdk"), ("~", "/home/ana"), ("~ana/sdk", "<root>/~ana/sdk")]
)
def test_a_home_that_no_shell_expanded_is_expanded(root: Path, text: str, path: str) -> None:
    found = settings(root, environ={"HOME": "/home/ana"}, dotenv=f"IPUENV_SDK='{text}'")
    assert str(found.sdk.value) == path.replace("<root>", str(root))


def test_without_a_home_a_tilde_stays_a_tilde(root: Path) -> None:
    assert settings(root, environ={"IPUENV_SDK": "~/sdk"}).sdk.value == root / "sub/~/sdk"


def test_an_empty_variable_is_not_set(root: Path) -> None:
    found = settings(
        root, environ={"IPUENV_SDK": ""}, dotenv="IPUENV_SDK=\nIPUENV_WORKSPACE\n", pyproject='[tool.ipuenv]\nsdk="/s"'
    )
    assert (found.sdk.value, found.sdk.source) == (Path("/s"), Source.PYPROJECT)
    assert found.workspace.source is Source.DEFAULT


def test_an_empty_option_is_refused(root: Path) -> None:
    with pytest.raises(UsageError) as caught:
        settings(root, options={"sdk": ""})
    assert caught.value.what == '--sdk "" is empty'
    assert caught.value.expected == "a name or a path"
    assert caught.value.hint == "give --sdk a value, or leave it out"


def test_an_option_that_is_no_setting_is_a_slip_of_the_caller(root: Path) -> None:
    with pytest.raises(ValueError, match="no setting is called 'lock'"):
        settings(root, options={"lock": "x"})


# -- .env -------------------------------------------------------------------------------------------------------------


def test_the_dotenv_is_read_as_python_dotenv_reads_it(root: Path) -> None:
    found = settings(
        root,
        environ={"HOME": "/h"},
        dotenv=(
            'export IPUENV_SDK="/opt/poplar sdk"  # the real one\n'
            "IPUENV_WORKSPACE='/w'\n"
            "\n\n"
            "IPUENV_ARTIFACTS=/${HOME}/a\n"
        ),
    )
    assert (found.sdk.value, found.sdk.origin) == (Path("/opt/poplar sdk"), ".env:1")
    assert (found.workspace.value, found.workspace.origin) == (Path("/w"), ".env:2")
    assert (found.artifacts.value, found.artifacts.origin) == (Path("/${HOME}/a"), ".env:5")


def test_the_last_of_two_lines_holds(root: Path) -> None:
    found = settings(root, dotenv="IPUENV_SDK=/a\nIPUENV_SDK=/b\n")
    assert (found.sdk.value, found.sdk.origin) == (Path("/b"), ".env:2")


def test_reading_the_dotenv_leaves_this_process_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPUENV_SDK", "/from/this/process")
    before = dict(os.environ)
    assert settings(root, dotenv="OTHER=1\nIPUENV_WORKSPACE=/w").sdk.value is None
    assert dict(os.environ) == before


def test_a_byte_order_mark_does_not_hide_the_first_line(root: Path) -> None:
    assert settings(root, dotenv="\ufeffIPUENV_SDK=/s").sdk.value == Path("/s")


def test_a_line_of_ours_that_makes_no_sense_is_refused(root: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(root, dotenv="A=1\n\nIPUENV_SDK='/opt\n")
    assert str(caught.value) == '.env: line 3: wanted NAME=value, found "IPUENV_SDK=\'/opt"'
    assert caught.value.hint == "correct .env, then run the same command again"
    assert caught.value.exit_code == 2


def test_a_line_of_somebody_else_s_that_makes_no_sense_is_only_warned_of(root: Path) -> None:
    found = settings(root, dotenv="X='\nIPUENV_SDK=/s")
    assert found.sdk.value == Path("/s")
    assert found.warnings == ('.env: line 1: wanted NAME=value, found "X=\'"',)


def test_a_dotenv_that_is_not_utf_8_is_refused(root: Path) -> None:
    (root / ".env").write_bytes(b"A=\xff")
    with pytest.raises(SettingsError, match=r"^\.env: not UTF-8$"):
        settings(root)


@pytest.mark.parametrize("name", [".env", "pyproject.toml"])
def test_a_file_that_may_not_be_read_is_refused(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    (root / name).write_text("")
    monkeypatch.setattr(Path, "read_bytes", refuse)  # a mode would not keep root out
    with pytest.raises(SettingsError, match=f"^{name}: cannot be read: Permission denied$"):
        settings(root)


def test_unknown_variables_are_warned_of_with_the_nearest(root: Path) -> None:
    found = settings(root, environ={"IPUENV_WORKSPCE": "/w", "IPUENVY": "1"}, dotenv="\nIPUENV_ZZZ=1\nOTHER=1")
    assert found.warnings == (
        "IPUENV_WORKSPCE is no setting and has no effect. Did you mean IPUENV_WORKSPACE?",
        ".env:2: IPUENV_ZZZ is no setting and has no effect.",
    )
    assert found.workspace.value is None


# -- [tool.ipuenv] ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pyproject", ["", "[project]\nname = 'x'", "[tool.other]\nx = 1"])
def test_a_pyproject_without_our_table_sets_nothing(root: Path, pyproject: str) -> None:
    assert {each.source for each in settings(root, pyproject=pyproject).by_name().values()} == {Source.DEFAULT}


@pytest.mark.parametrize(
    ("pyproject", "message"),
    [
        (
            '[tool.ipuenv]\nworkspce = "x"',
            (
                "tool.ipuenv.workspce: unknown key. Did you mean 'workspace'? "
                "Allowed: workspace, sdk, artifacts, profile, device-lock."
            ),
        ),
        ("[tool.ipuenv]\nsdk = 3", "tool.ipuenv.sdk: wanted a string, found the integer 3."),
        ('[tool.ipuenv]\nsdk = ""', 'tool.ipuenv.sdk: wanted a name or a path, found "". Leave the key out instead.'),
        ("[tool]\nipuenv = 3", "tool.ipuenv: wanted a table, found the integer 3."),
        ("tool = 3", "tool: wanted a table, found the integer 3."),
        ("[tool.ipuenv]\nsdk = ", "line 2, column 7: not TOML: Invalid value"),
    ],
)
def test_each_fault_of_the_pyproject_is_named(root: Path, pyproject: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(root, pyproject=pyproject)
    assert str(caught.value) == f"pyproject.toml: {message}"


def test_all_faults_of_our_table_are_named_at_once(root: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(root, pyproject='[tool.ipuenv]\nsdk = 3\nzzz = 1\nprofile = ""')
    assert [problem.path[-1] for problem in caught.value.problems] == ["sdk", "zzz", "profile"]


def test_settings_do_without_the_models_of_profiles() -> None:
    code = "import sys, ipuenv.ground.settings, ipuenv.ground.roots; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
