"""Capturing what scripts do, with a real bash, and handing it to real shells."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ipuenv.ground.errors import FailedError
from ipuenv.stages import environment
from ipuenv.stages.environment import SdkEnvironment, capture, popc_version, to_shell
from ipuenv.stages.sdk import SdkChoice, locate

STAND_IN = Path(__file__).parents[2] / "examples" / "poplar-sdk"
ENABLE = """
export POPLAR_SDK_ENABLED="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export PATH="$POPLAR_SDK_ENABLED/bin${PATH:+:$PATH}"
"""
BOOKKEEPING = {"_", "SHLVL", "PWD", "OLDPWD"}


def choice_of(folder: Path, *, before: str = "", after: str = "", script: str = "") -> SdkChoice:
    """An SDK whose script has extra text before and after the enabling lines, or is ``script`` as it stands."""
    (folder / "bin").mkdir(parents=True)
    popc = folder / "bin" / "popc"
    popc.write_text("#!/bin/sh\necho 'POPLAR version 1.2.3 (test)'\necho 'clang version 0'\n")
    popc.chmod(0o755)
    (folder / "enable.sh").write_text(script or f"{before}\n{ENABLE}\n{after}\n", errors="surrogateescape")
    return locate(folder)


@pytest.fixture
def base(tmp_path: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}


def is_running(pid: int) -> bool:
    """Whether a process runs; one that nobody has reaped yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def assert_ends(pid: int) -> None:
    limit = time.monotonic() + 10
    while is_running(pid):
        assert time.monotonic() < limit, f"process {pid} is still running"
        time.sleep(0.01)


# -- the difference ---------------------------------------------------------------------------------------------------


def test_added_changed_and_removed(tmp_path: Path, base: dict[str, str]) -> None:
    base |= {"GONE": "x", "OTHER": "old", "SAME": "same"}
    choice = choice_of(tmp_path / "poplar", after="unset GONE HOME\nexport OTHER=new FRESH=1 SAME=same\nINNER=2")
    captured = capture(choice, base=base)
    assert captured.component == tmp_path / "poplar"
    assert captured.added == {"FRESH": "1", "POPLAR_SDK_ENABLED": str(tmp_path / "poplar")}
    assert captured.changed == {"OTHER": "new", "PATH": f"{tmp_path}/poplar/bin:/usr/bin:/bin"}
    assert captured.removed == ("GONE", "HOME")
    assert captured.notes == ()
    expected = {**captured.added, **captured.changed, "SAME": "same", "LC_ALL": "C.UTF-8"}
    assert captured.apply(base) == expected
    assert captured.apply(base | {"CARGO_TARGET_DIR": "target/x"}) == expected | {"CARGO_TARGET_DIR": "target/x"}


def test_the_process_itself_is_left_alone(tmp_path: Path, base: dict[str, str]) -> None:
    own, folder = dict(os.environ), Path.cwd()
    capture(choice_of(tmp_path / "poplar", after="cd /; export IPUENV_TEST_LEAK=1"), base=base).apply(base)
    assert dict(os.environ) == own
    assert Path.cwd() == folder


def test_values_survive_byte_by_byte(tmp_path: Path, base: dict[str, str]) -> None:
    script = r"""
    export LINES3=$'a\n\nb\n' QUOTES="it's \"so\" \$HOME \\" SPACES='  x  ' CR=$'\r' BYTES=$'\xff\xc3(\x80' EMPTY= EQUALS='a=b=c'
    """
    added = capture(choice_of(tmp_path / "poplar", after=script), base=base).added
    assert added["LINES3"] == "a\n\nb\n"
    assert added["QUOTES"] == 'it\'s "so" $HOME \\'
    assert added["SPACES"] == "  x  "
    assert added["CR"] == "\r"
    assert os.fsencode(added["BYTES"]) == b"\xff\xc3(\x80"
    assert added["EMPTY"] == ""
    assert added["EQUALS"] == "a=b=c"


def test_functions_and_bookkeeping_stay_out(tmp_path: Path, base: dict[str, str]) -> None:
    script = "gc-activate() { echo hi; }; export -f gc-activate\nexport PS1=x SHELLOPTS\nset -a; plain=1\ncd /tmp; cd /"
    captured = capture(choice_of(tmp_path / "poplar", after=script), base=base)
    assert captured.added.keys() == {"POPLAR_SDK_ENABLED", "plain"}
    assert captured.changed.keys() == {"PATH"}
    assert captured.removed == ()


def test_lists_lose_empty_entries_and_repetitions_where_the_script_touched_them(
    tmp_path: Path, base: dict[str, str]
) -> None:
    base |= {"PATH": "/b:/usr/bin:/b::/bin", "CPATH": "/u::/u", "LD_LIBRARY_PATH": ""}
    script = 'export PYTHONPATH="/p:$PYTHONPATH" LD_LIBRARY_PATH="/l:$LD_LIBRARY_PATH" NOLIST="a::a"'
    captured = capture(choice_of(tmp_path / "poplar", after=script), base=base)
    assert captured.changed == {"PATH": f"{tmp_path}/poplar/bin:/b:/usr/bin:/bin", "LD_LIBRARY_PATH": "/l"}
    assert captured.added["PYTHONPATH"] == "/p"
    assert captured.added["NOLIST"] == "a::a"
    assert captured.apply(base)["CPATH"] == "/u::/u"


def test_another_base_is_refused(tmp_path: Path, base: dict[str, str]) -> None:
    captured = capture(choice_of(tmp_path / "poplar", after="export FRESH=1"), base=base)
    with pytest.raises(ValueError, match="PATH"):
        captured.apply(base | {"PATH": "/elsewhere"})
    with pytest.raises(ValueError, match="FRESH"):
        captured.apply(base | {"FRESH": "mine"})


def test_digest_tells_what_the_script_does_and_nothing_else(tmp_path: Path, base: dict[str, str]) -> None:
    choice = choice_of(tmp_path / "poplar", after='export PYTHONPATH="/p:$PYTHONPATH"')
    digest = capture(choice, base=base).digest
    assert len(digest) == 64
    assert capture(choice, base=base | {"PATH": "/other:/bin", "PYTHONPATH": "/mine", "X": "y"}).digest == digest
    assert capture(choice, base=capture(choice, base=base).apply(base)).digest == digest
    (tmp_path / "poplar" / "enable.sh").write_text(ENABLE + 'export CPATH="$CPATH:/end"')
    one, two = (capture(choice, base=base | {"CPATH": text}).digest for text in ("/a", "/b:/c"))
    assert one == two
    for changed in ('export PYTHONPATH="/q:$PYTHONPATH"', 'export PYTHONPATH="$PYTHONPATH:/p"', "unset LC_ALL"):
        (tmp_path / "poplar" / "enable.sh").write_text(ENABLE + changed)
        assert capture(choice, base=base | {"PYTHONPATH": "/mine"}).digest != digest


# -- what the script sees ---------------------------------------------------------------------------------------------


def test_the_script_starts_from_a_sound_shell(tmp_path: Path, base: dict[str, str]) -> None:
    startup = tmp_path / "startup"
    startup.write_text(f"touch {tmp_path}/ran; export FROM_STARTUP=1")
    base |= {
        "BASH_ENV": str(startup),
        "ENV": str(startup),
        "CDPATH": "/usr",
        "SHELLOPTS": "nounset:errexit:noglob",
        "BASHOPTS": "nullglob",
        "BASH_FUNC_cd%%": "() { echo hijacked; }",
    }
    script = (
        'export SEEN="${CDPATH-no}|${BASH_ENV-no}|${ENV-no}|$(type -t cd)|$#|$-|$(shopt -p nullglob)"\necho "$UNSET"'
    )
    captured = capture(choice_of(tmp_path / "poplar", after=script), base=base)
    cdpath, bash_env, env, cd, count, flags, nullglob = captured.added["SEEN"].split("|")
    assert (cdpath, bash_env, env, cd, count) == ("no", "no", "no", "builtin", "0")
    assert not {"u", "e", "f", "i"} & set(flags)
    assert nullglob == "shopt -u nullglob"
    assert not (tmp_path / "ran").exists()
    assert "FROM_STARTUP" not in captured.added
    applied = captured.apply(base)
    assert applied["CDPATH"] == "/usr", "the person's own variables are not the SDK's business"
    assert applied["BASH_FUNC_cd%%"] == "() { echo hijacked; }"


@pytest.mark.parametrize("name", ["with space", 'it\'s "quoted"', "große Straße 日本", "$HOME `x` \\ *"])
def test_any_folder_name(tmp_path: Path, base: dict[str, str], name: str) -> None:
    captured = capture(choice_of(tmp_path / name), base=base)
    assert captured.component == tmp_path / name
    assert captured.changed["PATH"] == f"{tmp_path}/{name}/bin:/usr/bin:/bin"


def test_scripts_are_sourced_in_order_and_cannot_disturb_each_other(tmp_path: Path, base: dict[str, str]) -> None:
    choice_of(tmp_path / "poplar", after="shift 5; set -- a b; IFS=x; source() { :; }; export ORDER=poplar")
    (tmp_path / "popart").mkdir()
    (tmp_path / "popart" / "enable.sh").write_text("export ORDER=$ORDER-popart")
    choice = locate(tmp_path)
    assert len(choice.scripts) == 2
    assert capture(choice, base=base).added["ORDER"] == "poplar-popart"


def test_the_systems_own_bash_is_used(tmp_path: Path, base: dict[str, str]) -> None:
    for name in ("bash", "env"):
        fake = tmp_path / "fake" / name
        fake.parent.mkdir(exist_ok=True)
        fake.write_text("#!/bin/sh\nexit 9\n")
        fake.chmod(0o755)
    path = f"{tmp_path}/fake:/usr/bin:/bin"
    captured = capture(choice_of(tmp_path / "poplar"), base=base | {"PATH": path})
    assert captured.changed["PATH"] == f"{tmp_path}/poplar/bin:{path}"


def test_without_path_in_the_base(tmp_path: Path) -> None:
    captured = capture(choice_of(tmp_path / "poplar"), base={})
    assert captured.added["PATH"].startswith(f"{tmp_path}/poplar/bin:")


# -- scripts that misbehave -------------------------------------------------------------------------------------------


def test_chatter_is_kept_as_a_log(tmp_path: Path, base: dict[str, str]) -> None:
    script = "printf 'no newline'; echo ' on stderr' >&2; printf 'PATH=/fake\\0X=1'"
    captured = capture(choice_of(tmp_path / "poplar", before=script, after="printf tail"), base=base)
    assert captured.log == "no newline on stderr\nPATH=/fake\0X=1tail"
    assert captured.added.keys() == {"POPLAR_SDK_ENABLED"}


def test_a_question_gets_no_answer(tmp_path: Path, base: dict[str, str]) -> None:
    script = "read -r -p 'Accept the licence? ' ANSWER; export ANSWER=\"got '$ANSWER'\""
    assert capture(choice_of(tmp_path / "poplar", before=script), base=base, timeout_s=20).added["ANSWER"] == "got ''"


@pytest.mark.parametrize("redirect", ["", ">/dev/null 2>&1"])
def test_a_child_left_behind_is_not_waited_for_and_ends(tmp_path: Path, base: dict[str, str], redirect: str) -> None:
    script = f"sleep 600 {redirect} &\necho $! > {tmp_path}/pid"
    began = time.monotonic()
    capture(choice_of(tmp_path / "poplar", after=script), base=base)
    assert time.monotonic() - began < 30
    assert_ends(int((tmp_path / "pid").read_text()))


def test_a_script_that_never_ends_is_killed_with_its_group(tmp_path: Path, base: dict[str, str]) -> None:
    script = f"echo working\nsleep 600 &\necho $$ $! > {tmp_path}/pids\ntrap '' TERM HUP INT\nsleep 600"
    with pytest.raises(FailedError, match=r"enable\.sh' did not end within 2 s") as raised:
        capture(choice_of(tmp_path / "poplar", after=script), base=base, timeout_s=2)
    assert raised.value.tail == ("working",)
    for pid in (tmp_path / "pids").read_text().split():
        assert_ends(int(pid))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", "ended the shell with 3, at 'exit 3'"),
        ("return 4", "gave up with 4, at 'return 4'"),
        ("ls /nonexistent || return 2", "gave up with 2, at 'return 2'"),
        ("set -e; false", "ended the shell with 1, at 'false'"),
        ("set -eu\ntrue\necho $NOT_SET", "ended the shell with"),
        ("trap : EXIT; exit 5", r"could not be read \(exit 5\)"),
        ("trap : EXIT; exit 0", r"could not be read \(exit 0\)"),
        ("exec true", r"could not be read \(exit 0\)"),
        ("export BIG=$(printf %300000s)", r"could not be read \(exit 126\)"),
        ("kill -9 $$", r"could not be read \(killed by SIGKILL\)"),
    ],
)
def test_giving_up_is_a_failure_even_with_the_sdk_enabled(
    tmp_path: Path, base: dict[str, str], script: str, message: str
) -> None:
    with pytest.raises(FailedError, match=message) as raised:
        capture(choice_of(tmp_path / "poplar", after=f"echo last words\n{script}"), base=base)
    assert raised.value.tail[0] == "last words"
    assert "bash --noprofile --norc" in raised.value.hint


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("[[ -n $NOT_SET ]] && echo hi", "ended with status 1; its last command was '[[ -n $NOT_SET ]]'"),
        ("inner() { return 7; }; inner", "ended with status 7; its last command was 'inner'"),
        ("if [", "ended with status 2"),
        ("exit 0", "ends the shell that sources it, at 'exit 0'"),
    ],
)
def test_an_odd_ending_with_the_sdk_enabled_is_noted(
    tmp_path: Path, base: dict[str, str], script: str, note: str
) -> None:
    captured = capture(choice_of(tmp_path / "poplar", after=script), base=base)
    assert len(captured.notes) == 1
    assert note in captured.notes[0]
    assert captured.added["POPLAR_SDK_ENABLED"] == str(tmp_path / "poplar")


def test_an_ended_shell_before_the_second_script_is_a_failure(tmp_path: Path, base: dict[str, str]) -> None:
    choice_of(tmp_path / "poplar", after="exit 0")
    (tmp_path / "popart").mkdir()
    (tmp_path / "popart" / "enable.sh").write_text("true")
    with pytest.raises(FailedError, match="ended the shell with 0"):
        capture(locate(tmp_path), base=base)


@pytest.mark.parametrize(
    "script",
    [
        "set -euo pipefail; set -C; IFS=; shopt -s nocasematch; umask 777",
        "exec >/dev/null 2>&1 3<&- 4>/dev/null",
        "printf() { :; }; source() { :; }; exec() { :; }; command() { :; }; env() { :; }; true",
        "PATH=/nowhere; hash -r",
        "return 0",
        "(exit 3); echo $(exit 4)",
        "trap 'echo debug' DEBUG; trap 'echo return' RETURN; trap 'unset FRESH' EXIT",
        "trap 'rm -rf /nowhere' ERR; false; true",
    ],
)
def test_what_a_script_leaves_behind_in_its_shell_does_no_harm(
    tmp_path: Path, base: dict[str, str], script: str
) -> None:
    captured = capture(choice_of(tmp_path / "poplar", after=f"export FRESH=1\n{script}"), base=base)
    assert captured.added == {"FRESH": "1", "POPLAR_SDK_ENABLED": str(tmp_path / "poplar")}


def test_a_base_that_puts_bash_into_posix_mode(tmp_path: Path, base: dict[str, str]) -> None:
    script = "export MODE=$(shopt -po posix)"
    captured = capture(choice_of(tmp_path / "poplar", after=script), base=base | {"POSIXLY_CORRECT": "y"})
    assert captured.added["MODE"] == "set -o posix"
    assert captured.changed["PATH"] == f"{tmp_path}/poplar/bin:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("true", "ended without enabling an SDK"),
        ("export POPLAR_SDK_ENABLED=", "ended without enabling an SDK"),
        ("POPLAR_SDK_ENABLED=/somewhere", "ended without enabling an SDK"),
        ("export POPLAR_SDK_ENABLED=/somewhere", "enabled '/somewhere'"),
        (ENABLE + "echo ERROR: A Poplar SDK has already been enabled.", "found a Poplar SDK enabled"),
        (ENABLE + 'mv "$POPLAR_SDK_ENABLED/bin/popc" "$POPLAR_SDK_ENABLED/popc"', "has no 'bin/popc'"),
    ],
)
def test_success_is_what_the_environment_shows(tmp_path: Path, base: dict[str, str], script: str, message: str) -> None:
    with pytest.raises(FailedError, match=message) as raised:
        capture(choice_of(tmp_path / "poplar", script=f"echo last words\n{script}\n"), base=base)
    assert raised.value.tail[0] == "last words"
    assert raised.value.expected
    assert raised.value.hint


def test_a_script_that_enables_another_sdk(tmp_path: Path, base: dict[str, str]) -> None:
    other = choice_of(tmp_path / "other").scripts[0]
    with pytest.raises(FailedError, match=r"poplar/enable\.sh' enabled '.*/other'$") as raised:
        capture(choice_of(tmp_path / "poplar", script=f"source '{other}'\n"), base=base)
    assert raised.value.expected == f"'{tmp_path}/poplar'"


# -- an SDK that was enabled before -----------------------------------------------------------------------------------


def test_the_same_sdk_enabled_before(base: dict[str, str]) -> None:
    choice = locate(STAND_IN)
    first = capture(choice, base=base)
    again = capture(choice, base=first.apply(base))
    assert again.notes == ()
    assert again.apply(first.apply(base)) == first.apply(base)
    assert (again.added, again.changed, again.digest) == (first.added, first.changed, first.digest)


@pytest.mark.parametrize("value", ["the component", ""])
def test_the_variable_set_without_the_paths(base: dict[str, str], value: str) -> None:
    choice = locate(STAND_IN)
    assert choice.component is not None
    trap = base | {"POPLAR_SDK_ENABLED": str(choice.component) if value else ""}
    captured = capture(choice, base=trap)
    assert len(captured.notes) == 1
    assert "the script would have refused" in captured.notes[0]
    assert captured.log == ""
    assert captured.apply(trap) == capture(choice, base=base).apply(base)


def test_entries_left_behind_without_the_variable(base: dict[str, str]) -> None:
    choice = locate(STAND_IN)
    fresh = capture(choice, base=base)
    left = fresh.apply(base)
    del left["POPLAR_SDK_ENABLED"]
    again = capture(choice, base=left)
    assert again.apply(left) == fresh.apply(base)
    assert again.digest == fresh.digest


def test_another_sdk_enabled_before(tmp_path: Path, base: dict[str, str]) -> None:
    other = tmp_path / "other sdk"
    shutil.copytree(STAND_IN, other)
    base |= {"PYTHONPATH": "/mine"}
    before = capture(locate(other), base=base).apply(base)
    before |= {"PATH": f"{tmp_path}/venv/bin:{before['PATH']}", "PKG_CONFIG_PATH": f"{before['POPLAR_SDK_ENABLED']}/pc"}
    captured = capture(locate(STAND_IN), base=before)
    assert len(captured.notes) == 1
    assert f"named another SDK, '{before['POPLAR_SDK_ENABLED']}'" in captured.notes[0]
    after = captured.apply(before)
    assert not [name for name, text in after.items() if str(other) in text]
    assert after["PATH"] == f"{captured.component}/bin:{tmp_path}/venv/bin:/usr/bin:/bin"
    assert after["PYTHONPATH"].endswith(":/mine")
    assert captured.removed == ("PKG_CONFIG_PATH",)
    assert captured.digest == capture(locate(STAND_IN), base=base).digest


def test_an_sdk_that_is_no_longer_there_goes_and_a_folder_that_is_none_stays(
    tmp_path: Path, base: dict[str, str]
) -> None:
    choice = choice_of(tmp_path / "poplar")
    gone = capture(choice, base=base | {"POPLAR_SDK_ENABLED": "/gone/poplar", "PATH": "/gone/poplar/bin:/bin"})
    assert gone.changed["PATH"] == f"{tmp_path}/poplar/bin:/bin"
    usr = capture(choice, base=base | {"POPLAR_SDK_ENABLED": "/usr"})
    assert usr.changed["PATH"] == f"{tmp_path}/poplar/bin:/usr/bin:/bin"
    assert "which is no SDK's folder" in usr.notes[0]


def test_another_sdk_whose_variables_the_new_one_does_not_set(tmp_path: Path, base: dict[str, str]) -> None:
    other = choice_of(
        tmp_path / "old", after='export OPAL_PREFIX="$POPLAR_SDK_ENABLED" CPATH="$POPLAR_SDK_ENABLED/i:/u"'
    )
    before = capture(other, base=base).apply(base)
    captured = capture(choice_of(tmp_path / "new"), base=before)
    assert captured.removed == ("OPAL_PREFIX",)
    assert captured.changed["CPATH"] == "/u"


# -- popc -------------------------------------------------------------------------------------------------------------


def test_popc_version(tmp_path: Path, base: dict[str, str]) -> None:
    captured = capture(choice_of(tmp_path / "poplar"), base=base)
    assert popc_version(captured, base=base) == "POPLAR version 1.2.3 (test)"
    popc = tmp_path / "poplar" / "bin" / "popc"
    popc.write_text("#!/bin/sh\n")
    with pytest.raises(FailedError, match="printed nothing"):
        popc_version(captured, base=base)
    popc.write_text("#!/bin/sh\necho wrong system >&2; exit 9\n")
    with pytest.raises(FailedError, match="exit 9") as raised:
        popc_version(captured, base=base)
    assert raised.value.tail == ("wrong system",)


def test_popc_runs_in_the_captured_environment(tmp_path: Path, base: dict[str, str]) -> None:
    captured = capture(choice_of(tmp_path / "poplar", after="export FRESH=1"), base=base)
    (tmp_path / "poplar" / "bin" / "popc").write_text('#!/bin/sh\necho "$FRESH $POPLAR_SDK_ENABLED"\n')
    assert popc_version(captured, base=base) == f"1 {tmp_path}/poplar"


# -- shells -----------------------------------------------------------------------------------------------------------

SHELLS = {
    "bash": ("--noprofile", "--norc", "-c", 'eval "$1"; exec /usr/bin/env -0', "bash"),
    "zsh": ("-f", "-c", 'eval "$1"; exec /usr/bin/env -0', "zsh"),
    "fish": ("--no-config", "-c", "printf %s $argv[1] | source; exec /usr/bin/env -0"),
}
NASTY = {
    "QUOTES": "it's \"so\" $HOME `id` \\ \\' !! ~ # * {a,b} (x) <y> ;&|",
    "LINES3": "a\n\n b\r\n",
    "EDGES": "  \t x \t ",
    "DASH": "-e",
    "EMPTY": "",
    "UNICODE": "große Straße 日本 \u200b\ue000\uf680 \U0001f600",
    "MIXED": "é" + os.fsdecode(b"\xff\xfe\xc3") + "(1'\\2",
    "BYTES": os.fsdecode(bytes(range(1, 256))),
    "LIST_PATH": "/a b:/c::/d",
    **{f"BYTE_{number}": os.fsdecode(bytes([number])) for number in range(1, 256)},
    **{f"DIGITS_{number}": os.fsdecode(bytes([number])) + "07f" for number in (1, 10, 27, 255)},
}


def evaluated(shell: str, text: str, base: dict[str, str]) -> dict[str, str]:
    """The environment of a real shell after it read ``text``."""
    path = shutil.which(shell)
    assert path is not None, f"{shell} is not installed; the shells' text cannot be tested without it"
    done = subprocess.run(
        [path, *SHELLS[shell], text], env=base, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert done.stderr == b""
    records = (record.partition(b"=") for record in done.stdout.split(b"\0") if record)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in records}


def assert_evaluates(shell: str, captured: SdkEnvironment, base: dict[str, str]) -> None:
    """A shell that reads the text has what the record promises, beside what the shell itself exports."""
    text = to_shell(captured, "fish" if shell == "fish" else "posix")
    own = {name: value for name, value in evaluated(shell, "", base).items() if name not in base}
    found = {name: value for name, value in evaluated(shell, text, base).items() if name not in BOOKKEEPING}
    assert found == {name: value for name, value in own.items() if name not in BOOKKEEPING} | captured.apply(base)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_that_reads_the_text_gets_the_environment(tmp_path: Path, base: dict[str, str], shell: str) -> None:
    other = tmp_path / "it's another"
    shutil.copytree(STAND_IN, other)
    base |= {"GONE": "1", "POPLAR_SDK_ENABLED": str(other / "poplar"), "PKG_CONFIG_PATH": f"{other}/poplar/pc"}
    script = (
        r"""unset GONE; export LINES3=$'a\n\nb\n' QUOTES="it's \"\\" BYTES=$'\xff\xc3(\x80'; f() { :; }; export -f f"""
    )
    captured = capture(choice_of(tmp_path / "große poplar's", after=script), base=base)
    assert_evaluates(shell, captured, base)
    assert captured.removed == ("GONE", "PKG_CONFIG_PATH")


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
@pytest.mark.parametrize("shell", SHELLS)
def test_no_value_is_too_nasty(base: dict[str, str], shell: str, locale: str) -> None:
    base |= {"LC_ALL": locale}
    made = SdkEnvironment(
        sdk=STAND_IN,
        scripts=(),
        component=STAND_IN,
        is_stand_in=True,
        added=NASTY,
        changed={},
        removed=("ABSENT",),
        against={},
        digest="",
        log="",
    )
    assert all(line.isprintable() for line in to_shell(made).split("\n"))
    assert all(line.isprintable() for line in to_shell(made, "fish").split("\n"))
    assert_evaluates(shell, made, base)


def test_the_text_is_one_sorted_line_per_variable(tmp_path: Path, base: dict[str, str]) -> None:
    captured = capture(choice_of(tmp_path / "poplar", after="export A=$'1\\n2' EMPTY=; unset LC_ALL"), base=base)
    folder = tmp_path / "poplar"
    assert to_shell(captured).splitlines() == [
        "export A=$'1\\0122'",
        "export EMPTY=''",
        f"export PATH='{folder}/bin:/usr/bin:/bin'",
        f"export POPLAR_SDK_ENABLED='{folder}'",
        "unset -v LC_ALL",
    ]
    assert to_shell(captured, "fish").splitlines()[:2] == ["set -gx A '1'\\X0a'2'", "set -gx EMPTY ''"]


# -- the stand-in -----------------------------------------------------------------------------------------------------


def test_the_stand_in_says_so(base: dict[str, str], tmp_path: Path) -> None:
    captured = capture(locate(STAND_IN), base=base)
    assert captured.is_stand_in
    assert "stand-in" in popc_version(captured, base=base)
    assert capture(locate(STAND_IN / "enable"), base=base).is_stand_in
    wrapper = tmp_path / "wrapper.sh"
    wrapper.write_text(f"source '{STAND_IN}/enable'")
    assert capture(locate(wrapper), base=base).is_stand_in
    assert not capture(choice_of(tmp_path / "poplar"), base=base).is_stand_in


def test_records_cannot_be_changed(base: dict[str, str]) -> None:
    captured = capture(locate(STAND_IN), base=base)
    with pytest.raises(dataclasses.FrozenInstanceError):
        captured.digest = "x"  # type: ignore[misc]
    assert environment.CAPTURE_TIMEOUT_S == 60
