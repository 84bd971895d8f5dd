"""Locating SDKs in the layouts that exist, and taking an SDK's entries out of an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipuenv.ground.errors import MissingError, UsageError
from ipuenv.stages import sdk
from ipuenv.stages.sdk import ENABLED, SdkChoice, locate, owned_folders, search, without_sdk

POPLAR = "poplar-ubuntu_20_04-3.3.0+7857-aaaaaaaaaa"
POPART = "popart-ubuntu_20_04-3.3.0+7857-bbbbbbbbbb"


def file(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def component(folder: Path) -> Path:
    file(folder / "bin" / "popc")
    return file(folder / "enable.sh").parent


def sdk_of(folder: Path, *, top: bool, popart: bool = True, poplar: str = POPLAR) -> Path:
    component(folder / poplar)
    if popart:
        file(folder / POPART / "enable.sh")
    if top:
        file(folder / "enable")
    return folder


def search_in(workspace: Path, places: tuple[Path, ...] = (), **base: str) -> SdkChoice:
    workspace.mkdir(parents=True, exist_ok=True)
    return search(base=base, workspace=workspace, places=places)


def reasons(choice: SdkChoice) -> dict[Path, str]:
    return {left.path: left.reason for left in choice.ignored}


# -- named ------------------------------------------------------------------------------------------------------------


def test_a_new_sdk_is_enabled_by_its_top_script(tmp_path: Path) -> None:
    choice = locate(sdk_of(tmp_path / "sdk", top=True))
    assert choice.scripts == (tmp_path / "sdk" / "enable",)
    assert choice.component == tmp_path / "sdk" / POPLAR
    assert choice.sdk == tmp_path / "sdk"
    assert set(reasons(choice)) == {tmp_path / "sdk" / POPLAR / "enable.sh", tmp_path / "sdk" / POPART / "enable.sh"}
    assert not choice.is_stand_in


def test_an_old_sdk_is_enabled_part_by_part_poplar_first(tmp_path: Path) -> None:
    choice = locate(sdk_of(tmp_path, top=False))
    assert choice.scripts == (tmp_path / POPLAR / "enable.sh", tmp_path / POPART / "enable.sh")
    assert choice.component == tmp_path / POPLAR
    assert "2.5 or earlier" in choice.why


def test_an_old_sdk_without_popart(tmp_path: Path) -> None:
    choice = locate(sdk_of(tmp_path, top=False, popart=False))
    assert choice.scripts == (tmp_path / POPLAR / "enable.sh",)


@pytest.mark.parametrize("name", ["poplar", "3.3.0", "compiler"])
def test_renamed_parts_are_known_by_what_they_hold(tmp_path: Path, name: str) -> None:
    sdk_of(tmp_path, top=True, poplar=name)
    assert locate(tmp_path).component == tmp_path / name


def test_poplars_own_folder_leaves_the_rest_out_and_says_so(tmp_path: Path) -> None:
    sdk_of(tmp_path, top=True)
    choice = locate(tmp_path / POPLAR)
    assert choice.scripts == (tmp_path / POPLAR / "enable.sh",)
    assert set(reasons(choice)) == {tmp_path / "enable", tmp_path / POPART / "enable.sh"}


def test_a_script_is_taken_as_named(tmp_path: Path) -> None:
    sdk_of(tmp_path, top=True)
    assert locate(tmp_path / "enable").component == tmp_path / POPLAR
    part = locate(tmp_path / POPLAR / "enable.sh")
    assert (part.scripts, part.component) == ((tmp_path / POPLAR / "enable.sh",), tmp_path / POPLAR)
    own = locate(file(tmp_path / "site" / "set-up.sh"))
    assert (own.scripts, own.component) == ((tmp_path / "site" / "set-up.sh",), None)
    assert all("was named" in choice.why for choice in (locate(tmp_path / "enable"), own))


def test_popart_alone_is_refused(tmp_path: Path) -> None:
    sdk_of(tmp_path, top=True)
    with pytest.raises(UsageError, match="enables PopART only") as raised:
        locate(tmp_path / POPART / "enable.sh")
    assert f"IPUENV_SDK={tmp_path}" in raised.value.hint
    with pytest.raises(MissingError, match="holds no Poplar SDK") as missing:
        locate(tmp_path / POPART)
    assert f"IPUENV_SDK={tmp_path}" in missing.value.hint


def test_a_folder_around_one_sdk(tmp_path: Path) -> None:
    sdk_of(tmp_path / "poplar_sdk-3.3.0", top=True)
    choice = locate(tmp_path)
    assert choice.scripts == (tmp_path / "poplar_sdk-3.3.0" / "enable",)
    assert f"below '{tmp_path}'" in choice.why


def test_several_sdks_side_by_side_are_listed(tmp_path: Path) -> None:
    for version in ("3.0.0", "3.3.0"):
        sdk_of(tmp_path / version, top=True)
    with pytest.raises(UsageError, match="2 Poplar SDKs were found") as raised:
        locate(tmp_path)
    assert f"'{tmp_path}/3.0.0', '{tmp_path}/3.3.0'" in raised.value.expected
    assert f"IPUENV_SDK={tmp_path}/3.0.0" in raised.value.hint
    assert raised.value.exit_code == 2


def test_an_sdk_put_into_another_is_that_ones_business(tmp_path: Path) -> None:
    sdk_of(sdk_of(tmp_path, top=True) / "old", top=True)
    assert locate(tmp_path).sdk == tmp_path
    sdk_of(sdk_of(tmp_path / "2.5", top=False) / "older", top=False)
    with pytest.raises(UsageError, match="2 Poplar SDKs"):
        locate(tmp_path / "2.5")


def test_several_components_without_a_top_script_are_listed(tmp_path: Path) -> None:
    component(tmp_path / "poplar-2.4")
    component(tmp_path / "poplar-2.5")
    with pytest.raises(UsageError, match="2 Poplar SDKs") as raised:
        locate(tmp_path)
    assert "poplar-2.4', " in raised.value.expected
    assert locate(tmp_path / "poplar-2.5").component == tmp_path / "poplar-2.5"


def test_with_several_components_the_top_script_decides(tmp_path: Path) -> None:
    sdk_of(tmp_path, top=True)
    component(tmp_path / "poplar-2.5")
    choice = locate(tmp_path)
    assert (choice.scripts, choice.component) == ((tmp_path / "enable",), None)


def test_several_poparts_are_listed(tmp_path: Path) -> None:
    sdk_of(tmp_path, top=False)
    file(tmp_path / "popart-2" / "enable.sh")
    with pytest.raises(UsageError, match="2 PopART folders") as raised:
        locate(tmp_path)
    assert POPART in raised.value.expected
    assert POPLAR in raised.value.hint


def test_a_link_to_an_sdk_beside_it_is_no_second_sdk(tmp_path: Path) -> None:
    sdk_of(tmp_path / "poplar_sdk-3.3.0", top=True)
    (tmp_path / "current").symlink_to("poplar_sdk-3.3.0")
    choice = locate(tmp_path)
    assert choice.sdk == tmp_path / "poplar_sdk-3.3.0"
    assert reasons(choice)[tmp_path / "current"] == f"the same SDK as '{choice.sdk}'"
    assert locate(tmp_path / "current").sdk == tmp_path / "current", "a link that was named stays as named"


def test_a_script_that_lies_one_level_deeper(tmp_path: Path) -> None:
    component(tmp_path / "poplar" / POPLAR)
    with pytest.raises(MissingError, match=r"poplar/enable\.sh' does not exist") as raised:
        locate(tmp_path / "poplar" / "enable.sh")
    assert f"one level deeper; name '{tmp_path}/poplar/{POPLAR}/enable.sh'" in raised.value.hint
    assert raised.value.exit_code == 3
    assert locate(tmp_path / "poplar").scripts == (tmp_path / "poplar" / POPLAR / "enable.sh",)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="does not exist"):
        locate(tmp_path / "nowhere")
    with pytest.raises(MissingError, match="holds no Poplar SDK") as raised:
        locate(tmp_path)
    assert "'enable' or 'poplar-*/enable.sh'" in raised.value.expected


@pytest.mark.parametrize("top", [True, False])
def test_an_sdk_without_its_compiler(tmp_path: Path, top: bool) -> None:
    sdk_of(tmp_path, top=top)
    (tmp_path / POPLAR / "bin" / "popc").unlink()
    with pytest.raises(MissingError, match=r"is not whole: '.*bin/popc' is not there"):
        locate(tmp_path)


def test_a_folder_with_a_colon(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has a colon in it") as raised:
        locate(sdk_of(tmp_path / "a:b", top=True))
    assert "PATH" in raised.value.expected


def test_a_relative_name_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sdk_of(tmp_path / "sdk", top=True)
    monkeypatch.chdir(tmp_path)
    assert locate("sdk").scripts == (tmp_path / "sdk" / "enable",)


# -- searched ---------------------------------------------------------------------------------------------------------


def test_the_environment_names_the_component_and_the_sdk_around_it_is_taken(tmp_path: Path) -> None:
    sdk_of(tmp_path / "sdk", top=True)
    sdk_of(tmp_path / "place" / "other", top=True)
    choice = search_in(tmp_path / "w", (tmp_path / "place",), POPLAR_SDK_ENABLED=str(tmp_path / "sdk" / POPLAR))
    assert choice.scripts == (tmp_path / "sdk" / "enable",)
    assert choice.why.startswith("POPLAR_SDK_ENABLED of the environment names")


def test_a_component_among_others_is_taken_alone(tmp_path: Path) -> None:
    component(tmp_path / "opt" / "poplar")
    sdk_of(tmp_path / "opt" / "poplar_sdk", top=True)
    choice = search_in(tmp_path / "w", POPLAR_SDK_ENABLED=str(tmp_path / "opt" / "poplar"))
    assert choice.scripts == (tmp_path / "opt" / "poplar" / "enable.sh",)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("POPLAR_SDK_ENABLED={}", "sdk"),
        ('export POPLAR_SDK_ENABLED="{}"', "my sdk"),
        ("  POPLAR_SDK_ENABLED = '{}'  # the card's", "my sdk"),
    ],
)
def test_the_workspaces_dotenv(tmp_path: Path, line: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    sdk_of(tmp_path / name, top=True)
    others = "not a line\nUNFINISHED='\nOLD_POPLAR_SDK_ENABLED=/x\n#POPLAR_SDK_ENABLED=/y\n"
    file(tmp_path / "w" / ".env", f"{others}{line.format(tmp_path / name / POPLAR)}\nY=$(id)\n")
    choice = search_in(tmp_path / "w" / "inner")
    assert choice.scripts == (tmp_path / name / "enable",)
    assert f"POPLAR_SDK_ENABLED in '{tmp_path}/w/.env' names" in choice.why
    assert not caplog.records


def test_the_environment_comes_before_dotenv(tmp_path: Path) -> None:
    one, two = sdk_of(tmp_path / "one", top=True), sdk_of(tmp_path / "two", top=True)
    file(tmp_path / "w" / ".env", f"{ENABLED}={two / POPLAR}\n")
    choice = search_in(tmp_path / "w", POPLAR_SDK_ENABLED=str(one / POPLAR))
    assert choice.sdk == one
    assert "the environment comes first" in reasons(choice)[two / POPLAR]


def test_a_hint_that_leads_nowhere_is_told_and_the_search_goes_on(tmp_path: Path) -> None:
    sdk_of(tmp_path / "poplar_sdk", top=True)
    choice = search_in(tmp_path / "w", POPLAR_SDK_ENABLED="/gone/poplar")
    assert choice.sdk == tmp_path / "poplar_sdk"
    assert "'/gone/poplar' does not exist" in reasons(choice)[Path("/gone/poplar")]


@pytest.mark.parametrize("where", ["w/poplar_sdk", "poplar_sdk", "home/poplar_sdk", "place/anything", "place/a/poplar"])
def test_the_surroundings_home_and_places(tmp_path: Path, where: str) -> None:
    (tmp_path / "home").mkdir()
    sdk_of(tmp_path / where, top=True)
    choice = search_in(tmp_path / "w", (tmp_path / "place", tmp_path / "place" / "a"), HOME=str(tmp_path / "home"))
    assert choice.sdk == tmp_path / where
    assert choice.why.startswith("it is the only one")


def test_parts_that_lie_openly_in_a_place_are_one_sdk(tmp_path: Path) -> None:
    component(tmp_path / "opt" / "poplar")
    file(tmp_path / "opt" / "popart" / "enable.sh")
    choice = search_in(tmp_path / "w", (tmp_path / "opt", tmp_path / "opt" / "poplar"))
    assert [script.parent.name for script in choice.scripts] == ["poplar", "popart"]
    assert reasons(choice) == {tmp_path / "opt" / "poplar": f"the same SDK as '{tmp_path}/opt'"}


def test_several_in_different_places_are_listed(tmp_path: Path) -> None:
    sdk_of(tmp_path / "w" / "poplar_sdk", top=True)
    sdk_of(tmp_path / "place" / "sdk", top=False)
    with pytest.raises(UsageError, match="2 Poplar SDKs were found around") as raised:
        search_in(tmp_path / "w", (tmp_path / "place",))
    assert f"'{tmp_path}/place/sdk', '{tmp_path}/w/poplar_sdk'" in raised.value.expected


def test_a_stand_in_gives_way_to_a_real_sdk(tmp_path: Path) -> None:
    stand_in = sdk_of(tmp_path / "poplar-stand-in", top=True)
    file(stand_in / "STAND-IN")
    alone = search_in(tmp_path / "w")
    assert alone.is_stand_in
    assert "stand-in" in alone.explain()[-1]
    sdk_of(tmp_path / "place" / "sdk", top=True)
    choice = search_in(tmp_path / "w", (tmp_path / "place",))
    assert choice.sdk == tmp_path / "place" / "sdk"
    assert not choice.is_stand_in
    assert reasons(choice)[stand_in] == "a stand-in gives way to a real SDK"


def test_nothing_found_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no Poplar SDK was found") as raised:
        search_in(tmp_path / "w", (tmp_path / "place",), HOME=str(tmp_path / "home"))
    for place in ("w", "home", "place"):
        assert f"'{tmp_path}/{place}'" in raised.value.expected
    assert "IPUENV_SDK=" in raised.value.hint
    assert "IPUENV_SDK=/path/to/poplar_sdk" in raised.value.hint


def test_explain_reads_as_a_whole(tmp_path: Path) -> None:
    sdk_of(tmp_path, top=True, popart=False)
    assert locate(tmp_path).explain() == (
        f"source '{tmp_path}/enable'",
        f"because '{tmp_path}' has its own 'enable' (SDK 2.6 or later)",
        f"not '{tmp_path}/{POPLAR}/enable.sh': left to 'enable'",
    )


# -- an SDK's entries in an environment -------------------------------------------------------------------------------


def test_what_an_sdk_owns(tmp_path: Path) -> None:
    sdk_of(tmp_path / "real", top=True)
    (tmp_path / "link").symlink_to("real")
    assert owned_folders(tmp_path / "link" / POPLAR) == {
        str(tmp_path / name / part) for name in ("link", "real") for part in (POPLAR, POPART)
    }
    assert owned_folders(Path("/gone/poplar")) == {"/gone/poplar"}
    assert owned_folders(tmp_path) == frozenset(), "an existing folder that is no Poplar owns nothing"
    assert owned_folders(Path("relative")) == frozenset()
    assert owned_folders(None) == frozenset()


def test_without_sdk_takes_out_its_entries_alone() -> None:
    base = {
        ENABLED: "/o/poplar",
        "PATH": "/o/poplar/bin:/bin::/o/poplar2/bin:/o/poplar",
        "CPATH": "/o/poplar/include",
        "PYTHONPATH": ":/mine:",
        "MYPATH": "/o/poplar/bin",
        "OPAL_PREFIX": "/o/poplar",
        "OMPI_CPPFLAGS": "-I/o/poplar2/include",
    }
    before = dict(base)
    assert without_sdk(base, ["/o/poplar"]) == {
        "PATH": "/bin::/o/poplar2/bin",
        "PYTHONPATH": ":/mine:",
        "MYPATH": "/o/poplar/bin",
        "OMPI_CPPFLAGS": "-I/o/poplar2/include",
    }
    assert base == before
    assert without_sdk({"PATH": "/o/poplar/bin"}, []) == {"PATH": "/o/poplar/bin"}
    assert "OMPI_CPPFLAGS" not in without_sdk({"OMPI_CPPFLAGS": "-I/o/poplar/include -x"}, ["/o/poplar"])


def test_a_folder_that_may_not_be_listed_holds_nothing(tmp_path: Path) -> None:
    assert sdk._subfolders(tmp_path / "absent") == []
    with pytest.raises(MissingError):
        search_in(tmp_path / "w", (tmp_path / "absent",))
