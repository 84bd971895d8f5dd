"""The stand-in SDK treats an environment as the real one's scripts are known to do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

SDK = Path(__file__).parents[2] / "examples" / "poplar-sdk"
LISTS = ("CMAKE_PREFIX_PATH", "CPATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
REFUSAL = "ERROR: A Poplar SDK has already been enabled."


def part(sdk: Path, name: str) -> Path:
    (found,) = sdk.glob(f"{name}-ubuntu_20_04-3.3.0+*-*")
    return found


POPLAR, POPART = part(SDK, "poplar"), part(SDK, "popart")


def bash(
    script: str, *arguments: str | Path, base: Mapping[str, str] | None = None, cwd: Path | None = None
) -> tuple[dict[str, str], str, int]:
    """What a bash exports after ``script``, what it printed on stdout, and the status of the script's last command."""
    program = shutil.which("bash")
    assert program is not None, "bash is not installed; the stand-in cannot be tested without it"
    text = f"{script}\nstatus=$?; printf '\\n--\\n'; /usr/bin/env -0; exit $status"
    done = subprocess.run(
        [program, "--noprofile", "--norc", "-c", text, "bash", *map(str, arguments)],
        env={"PATH": "/usr/bin:/bin", **(base or {})},
        cwd=cwd,
        capture_output=True,
        check=False,
    )
    printed, _, dump = done.stdout.partition(b"\n--\n")
    records = (record.partition(b"=") for record in dump.split(b"\0") if record)
    exported = {os.fsdecode(name): os.fsdecode(value) for name, _, value in records}
    return exported, os.fsdecode(printed), done.returncode


def expected_lists(*folders: tuple[Path, bool]) -> dict[str, str]:
    """The lists that each folder, the last sourced first, leaves behind."""
    return {
        "CMAKE_PREFIX_PATH": ":".join(str(folder) for folder, _ in folders),
        "CPATH": ":".join(f"{folder}/include" for folder, _ in folders),
        "LIBRARY_PATH": ":".join(f"{folder}/lib" for folder, _ in folders),
        "LD_LIBRARY_PATH": ":".join(f"{folder}/lib" for folder, _ in folders),
        "PYTHONPATH": ":".join(
            f"{folder}/python" + (f":{folder}/lib/python" if is_poplar else "") for folder, is_poplar in folders
        ),
    }


def test_the_folder_is_shaped_like_an_sdk() -> None:
    for path in ("bin/popc", "bin/ipu/tile_bootloader_cc_ipu21.elf", "lib/python", "include", "python", "enable.sh"):
        assert (POPLAR / path).exists(), path
    for path in ("lib", "include", "python", "enable.sh"):
        assert (POPART / path).exists(), path
    assert (SDK / "enable").is_file()
    assert not (SDK / "enable.sh").exists()


def test_it_says_what_it_is() -> None:
    assert (SDK / "STAND-IN").is_file()
    texts = [
        SDK / "README.md",
        SDK / "STAND-IN",
        SDK / "enable",
        POPLAR / "enable.sh",
        POPART / "enable.sh",
        POPLAR / "bin" / "popc",
    ]
    for path in texts:
        assert "stand-in" in path.read_text().lower(), path


def test_enable_enables_both() -> None:
    exported, printed, status = bash('source "$1"', SDK / "enable")
    expected = expected_lists((POPART, False), (POPLAR, True))
    assert {name: exported[name] for name in expected} == expected
    assert exported["PATH"] == f"{POPLAR}/bin:/usr/bin:/bin"
    assert exported["OPAL_PREFIX"] == exported["POPLAR_SDK_ENABLED"] == str(POPLAR)
    assert exported.keys() - expected.keys() - {"_", "SHLVL", "PWD"} == {"PATH", "OPAL_PREFIX", "POPLAR_SDK_ENABLED"}
    assert (printed, status) == ("", 0)


def test_the_parts_prepend_to_what_is_there() -> None:
    inherited = dict.fromkeys(LISTS, "/mine")
    exported, _, _ = bash('source "$1"; source "$2"', POPLAR / "enable.sh", POPART / "enable.sh", base=inherited)
    expected = expected_lists((POPART, False), (POPLAR, True))
    assert {name: exported[name] for name in LISTS} == {name: f"{expected[name]}:/mine" for name in LISTS}


def test_poplar_alone() -> None:
    exported, _, _ = bash('source "$1"', POPLAR / "enable.sh")
    expected = expected_lists((POPLAR, True))
    assert {name: exported[name] for name in LISTS} == expected


def test_popart_alone_leaves_an_empty_entry_no_path_and_no_mark() -> None:
    exported, _, _ = bash('source "$1"', POPART / "enable.sh")
    assert exported["PYTHONPATH"] == f"{POPART}/python:"
    assert exported["CPATH"] == f"{POPART}/include"
    assert exported["PATH"] == "/usr/bin:/bin"
    assert "POPLAR_SDK_ENABLED" not in exported


def test_popart_twice_repeats_its_entries() -> None:
    exported, _, _ = bash('source "$1"; source "$1"', POPART / "enable.sh")
    assert exported["CPATH"] == f"{POPART}/include:{POPART}/include"


@pytest.mark.parametrize("script", [SDK / "enable", POPLAR / "enable.sh"])
@pytest.mark.parametrize("enabled", [str(POPLAR), "/another/poplar", ""])
def test_it_refuses_with_status_0_and_changes_nothing(script: Path, enabled: str) -> None:
    exported, printed, status = bash('source "$1"', script, base={"POPLAR_SDK_ENABLED": enabled})
    assert printed.splitlines()[0] == REFUSAL
    assert enabled in printed.splitlines()[1]
    assert status == 0
    assert exported["PATH"] == "/usr/bin:/bin"
    assert exported.keys() - {"_", "SHLVL", "PWD"} == {"PATH", "POPLAR_SDK_ENABLED"}


def test_under_nounset_poplar_survives_and_popart_alone_does_not() -> None:
    exported, _, status = bash('set -u; source "$1"', SDK / "enable")
    assert (exported["POPLAR_SDK_ENABLED"], status) == (str(POPLAR), 0)
    exported, _, status = bash('set -u; source "$1"', POPART / "enable.sh")
    assert (exported, status) == ({}, 127)


def test_run_as_a_program_it_does_nothing() -> None:
    exported, printed, status = bash('bash "$1"', SDK / "enable")
    assert (printed, status) == ("", 0)
    assert "POPLAR_SDK_ENABLED" not in exported


def test_cdpath_spoils_a_relative_name() -> None:
    name = f"{POPLAR.name}/enable.sh"
    exported, _, status = bash('source "$1"', name, cwd=SDK, base={"CDPATH": str(SDK)})
    assert (exported["POPLAR_SDK_ENABLED"], status) == (f"{POPLAR}\n{POPLAR}", 0)


def test_a_path_with_spaces_and_a_link_stay_as_they_are(tmp_path: Path) -> None:
    shutil.copytree(SDK, tmp_path / "große SDKs" / "it's 3.3")
    link = tmp_path / "a link"
    link.symlink_to(tmp_path / "große SDKs" / "it's 3.3")
    exported, _, _ = bash('source "$1"; popc --version > "$2"', link / "enable", tmp_path / "version")
    assert exported["POPLAR_SDK_ENABLED"] == str(link / POPLAR.name)
    assert (tmp_path / "version").read_text().startswith("POPLAR version")


def test_popc_answers_as_the_real_one_and_compiles_nothing() -> None:
    popc = POPLAR / "bin" / "popc"
    assert os.access(popc, os.X_OK)
    done = subprocess.run([popc, "--version"], capture_output=True, text=True, check=True)
    version, clang = done.stdout.splitlines()
    assert version == "POPLAR version 3.3.0 (stand-in)"
    assert clang.startswith("clang version ")
    failed = subprocess.run([popc, "x.cpp"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "stand-in" in failed.stderr
