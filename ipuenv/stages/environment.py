"""Capturing what the SDK's scripts do to an environment.

One bash dumps its environment, sources the scripts and dumps again; the difference is the result. The scripts see what
they would see in a fresh shell: no options of ours, no question answered, nothing of an SDK that was enabled before.
That a script ended with 0 says nothing (one that refuses does, too), so success is judged by what it left behind.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import signal
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, assert_never

from ipuenv.ground import command
from ipuenv.ground.errors import FailedError
from ipuenv.stages.sdk import ENABLED, LIST_VARIABLES, POPC, SdkChoice, is_file, is_stand_in, owned_folders, without_sdk

CAPTURE_TIMEOUT_S = 60.0
POPC_TIMEOUT_S = 30.0

_STEERS_BASH = frozenset({"BASH_ENV", "ENV", "CDPATH", "SHELLOPTS", "BASHOPTS"})
_BOOKKEEPING = _STEERS_BASH | {"_", "SHLVL", "PWD", "OLDPWD", "PS1", "PS2", "SHELL", "COMP_WORDBREAKS"}
_FUNCTION = "BASH_FUNC_"
_OWN = "_ipuenv_"
_REFUSAL = "already been enabled"
_REPORT_DESCRIPTOR = 100  # scripts use 3 to 9, and bash itself picks from 10 on

# The report: a dump, then status and last command of each script that ended, then a dump; an empty record between them.
# The DEBUG trap tells a `return 4` from a last command that happened to be false; `exec` leaves out EXIT traps, which could
# take away what the variables name.
_CAPTURE = r"""
declare -r _ipuenv_env="$1" _ipuenv_report="$2"
shift 2
_ipuenv_scripts=("$@")
set --
_ipuenv_last=
"$_ipuenv_env" -0 >&"$_ipuenv_report"
printf '\0' >&"$_ipuenv_report"
trap 'builtin printf "%s\0%s\0\0" "exit $?" "${_ipuenv_last:--}" >&"$_ipuenv_report"
  builtin command "$_ipuenv_env" -0 >&"$_ipuenv_report"' EXIT
set -T
trap '[[ ${#BASH_SOURCE[@]} -ne 1 ]] || _ipuenv_last=$BASH_COMMAND' DEBUG
for _ipuenv_script in "${_ipuenv_scripts[@]}"; do
  _ipuenv_last=
  builtin source "$_ipuenv_script"
  builtin printf '%s\0%s\0' "status $?" "${_ipuenv_last:--}" >&"$_ipuenv_report"
done
builtin printf '\0' >&"$_ipuenv_report"
builtin exec "$_ipuenv_env" -0 >&"$_ipuenv_report"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkEnvironment:
    """What an SDK's scripts do to one environment, the base. Undecodable bytes stand as surrogate escapes."""

    sdk: Path
    scripts: tuple[Path, ...]
    component: Path
    """Poplar's own folder, as ``POPLAR_SDK_ENABLED`` names it."""
    is_stand_in: bool
    added: Mapping[str, str]
    """Variables that the base, cleared of any SDK enabled before, does not have."""
    changed: Mapping[str, str]
    """Variables that it has with another value; the new value."""
    removed: tuple[str, ...]
    against: Mapping[str, str]
    """What the base itself held in all of these."""
    digest: str
    """SHA-256 over what the scripts add, change and remove; the same whatever the base had in its lists before."""
    log: str
    """What the scripts printed, stdout and stderr as they came."""
    notes: tuple[str, ...] = ()
    """What a person should know, one sentence each."""

    def apply(self, base: Mapping[str, str]) -> dict[str, str]:
        """``base`` with the SDK enabled. Variables that the capture did not touch may differ from the captured base.

        Raises:
            ValueError: ``base`` differs in a touched variable, so that the captured value does not belong into it.
        """
        touched = (*self.added, *self.changed, *self.removed)
        stale = sorted(name for name in touched if base.get(name) != self.against.get(name))
        if stale:
            raise ValueError(f"the environment was captured against another base: {', '.join(stale)} differ")
        return {name: text for name, text in base.items() if name not in self.removed} | {**self.added, **self.changed}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """What came back from the capturing bash."""

    before: Mapping[str, str]
    endings: tuple[tuple[str, str], ...]
    """Of each script that came to an end: ``status N``, or ``exit N`` if it ended the shell, and its last command."""
    after: Mapping[str, str] | None
    log: str
    exit_code: int
    timed_out: bool


def capture(choice: SdkChoice, *, base: Mapping[str, str], timeout_s: float = CAPTURE_TIMEOUT_S) -> SdkEnvironment:
    """Source the chosen scripts in a bash of their own and tell what they do to ``base``.

    ``base`` has to be the environment that the result is applied to; this process's own is neither read nor changed.
    Processes that the scripts leave behind in their group are ended.

    Raises:
        FailedError: a script failed, refused, hung, or enabled something else than ``choice`` says.
        MissingError: there is no bash.
    """
    enabled = base.get(ENABLED)
    sound = {name: text for name, text in base.items() if name not in _STEERS_BASH and not name.startswith(_FUNCTION)}
    old = owned_folders(Path(enabled) if enabled else None)
    start = without_sdk(sound, old | owned_folders(choice.component))
    report = _source(choice.scripts, start, timeout_s)
    after = _judged(report, choice, timeout_s)
    component = _enabled_component(after, choice, report.log)
    raw = {name: after.get(name) for name in sorted(report.before.keys() | after.keys()) if _is_theirs(name)}
    difference = {name: text for name, text in raw.items() if text != report.before.get(name)}
    final = {name: _tidied(name, text) for name, text in difference.items()}
    left = {name: start.get(name) for name in base if base[name] != start.get(name) and _is_theirs(name)}
    outcome = dict(sorted((left | final).items()))
    return SdkEnvironment(
        sdk=choice.sdk,
        scripts=choice.scripts,
        component=component,
        is_stand_in=choice.is_stand_in or is_stand_in(component),
        added={name: text for name, text in outcome.items() if text is not None and name not in start},
        changed={name: text for name, text in outcome.items() if text is not None and name in start},
        removed=tuple(name for name, text in outcome.items() if text is None),
        against={name: base[name] for name in outcome if name in base},
        digest=_digest(difference, report.before),
        log=report.log,
        notes=(*_about_before(base, component), *_about_endings(report, choice)),
    )


def popc_version(environment: SdkEnvironment, *, base: Mapping[str, str]) -> str:
    """The first line of ``popc --version``, by which releases are told apart.

    Raises:
        FailedError: popc failed, printed nothing, or did not end in time.
        MissingError: it cannot be started.
    """
    argv = (str(environment.component / POPC), "--version")
    ended = command.run(argv, env=environment.apply(base), timeout_s=POPC_TIMEOUT_S)
    command.check(ended, what=f"'{argv[0]} --version'", hint="see whether the SDK is for this machine's system")
    lines = ended.stdout_text.strip().splitlines()
    if not lines:
        what, expected = f"'{argv[0]} --version' printed nothing", "a line 'POPLAR version ...'"
        raise FailedError(what, expected=expected, hint="unpack the SDK again")
    return lines[0].rstrip()


# -- the bash ----------------------------------------------------------------------------------------------------------


def _source(scripts: Sequence[Path], start: Mapping[str, str], timeout_s: float) -> _Report:
    bash, env = _program("bash", start), _program("env", start)
    with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as report:
        descriptor = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, _REPORT_DESCRIPTOR)
        try:
            child = command.start(
                (bash, "--noprofile", "--norc", "-c", _CAPTURE, bash, env, str(descriptor), *map(str, scripts)),
                env=start,
                stdout=log,
                stderr=log,
                pass_fds=(descriptor,),
            )
            timed_out = _await(child, timeout_s)
        finally:
            os.close(descriptor)
        return _read_report(_content(report), os.fsdecode(_content(log)), child.process.returncode, timed_out=timed_out)


def _await(child: command.Child, timeout_s: float) -> bool:
    """Wait for the child, not for whoever holds its descriptors; True if the time ran out and its group was killed."""
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        child.signal_group(signal.SIGKILL)

    timer = threading.Timer(timeout_s, expire)
    with command.running(child):
        timer.start()
        try:
            child.process.wait()
        finally:
            timer.cancel()
    return expired.is_set()


def _program(name: str, start: Mapping[str, str]) -> str:
    """The system's own program rather than whatever lies first on the search path."""
    path = f"{os.defpath}:{start['PATH']}" if start.get("PATH") else os.defpath
    return str(command.find(name, path=path))


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _read_report(data: bytes, log: str, exit_code: int, *, timed_out: bool) -> _Report:
    before, _, rest = data.partition(b"\0\0")
    middle, separator, after = rest.partition(b"\0\0")
    fields = [os.fsdecode(field) for field in middle.split(b"\0")] if middle else []
    return _Report(
        before=_dump(before),
        endings=tuple(zip(fields[::2], fields[1::2], strict=False)),
        after=_dump(after) if separator and after.endswith(b"\0") else None,
        log=log,
        exit_code=exit_code,
        timed_out=timed_out,
    )


def _dump(data: bytes) -> dict[str, str]:
    records = (record.partition(b"=") for record in data.split(b"\0") if record)
    return {os.fsdecode(name): os.fsdecode(text) for name, _, text in records}


# -- after: judging what came back -------------------------------------------------------------------------------------


def _judged(report: _Report, choice: SdkChoice, timeout_s: float) -> Mapping[str, str]:
    """The environment that the scripts left, if they came to their ends."""
    tail = report.log.splitlines()
    if report.timed_out:
        script = choice.scripts[min(len(report.endings), len(choice.scripts) - 1)]
        raise FailedError(
            f"'{script}' did not end within {timeout_s:g} s and was killed, with all that it had started",
            expected="a script that sets variables, asks nothing and ends",
            hint=_by_hand(script),
            tail=tail,
        )
    for script, (ending, last) in zip(choice.scripts, report.endings, strict=False):
        kind, number = ending.split()
        returned = kind == "status" and number != "0" and last.split()[0] == "return"
        if returned or (kind == "exit" and (number != "0" or script != choice.scripts[-1])):
            raise FailedError(
                f"'{script}' {'gave up' if returned else 'ended the shell'} with {number}, at '{last}'",
                expected="it to run to its end",
                hint=_by_hand(script),
                tail=tail,
            )
    if report.after is None or report.exit_code != 0:
        raise FailedError(
            f"the environment after '{choice.scripts[-1]}' could not be read ({command.ending(report.exit_code)})",
            expected="a script that leaves the shell running",
            hint=_by_hand(choice.scripts[-1]),
            tail=tail,
        )
    return report.after


def _enabled_component(after: Mapping[str, str], choice: SdkChoice, log: str) -> Path:
    script, enabled, tail = choice.scripts[0], after.get(ENABLED), log.splitlines()
    if _REFUSAL in log:
        raise FailedError(
            f"'{script}' found a Poplar SDK enabled, though none was when it began",
            expected="a script that enables one SDK once",
            hint="name an SDK's own script or folder rather than a script that enables several",
            tail=tail,
        )
    if not enabled:
        raise FailedError(
            f"'{script}' ended without enabling an SDK",
            expected=f"{ENABLED} to be set",
            hint=_by_hand(script),
            tail=tail,
        )
    component = Path(enabled)
    if choice.component is not None and os.path.realpath(component) != os.path.realpath(choice.component):
        raise FailedError(
            f"'{script}' enabled '{enabled}'",
            expected=f"'{choice.component}'",
            hint="name the SDK that you mean by its own folder",
            tail=tail,
        )
    if not is_file(component / POPC):
        raise FailedError(
            f"'{script}' enabled '{enabled}', which has no '{POPC}'",
            expected="Poplar's own folder",
            hint="unpack the SDK again, or name another one",
            tail=tail,
        )
    return component


def _about_before(base: Mapping[str, str], component: Path) -> list[str]:
    """What to say about a ``POPLAR_SDK_ENABLED`` that was set before."""
    enabled = base.get(ENABLED)
    if enabled is None:
        return []
    if enabled and os.path.realpath(enabled) != os.path.realpath(component):
        if owned_folders(Path(enabled)):
            return [f"{ENABLED} named another SDK, '{enabled}': its entries were taken out first"]
        return [f"{ENABLED} was set to '{enabled}', which is no SDK's folder: it was left aside"]
    if enabled and {f"{folder}/bin" for folder in owned_folders(component)} & set(base.get("PATH", "").split(":")):
        return []
    trap = f"{ENABLED} was set to '{enabled}', but the SDK's bin was not on PATH: the script would have refused, "
    return [trap + "so the variable was taken out before it was sourced"]


def _about_endings(report: _Report, choice: SdkChoice) -> list[str]:
    """Endings that did no harm but would surprise someone who sources the scripts by hand."""
    remarks = []
    for script, (ending, last) in zip(choice.scripts, report.endings, strict=False):
        if ending == "exit 0":
            remarks.append(f"'{script}' ends the shell that sources it, at '{last}'")
        elif ending != "status 0":
            remarks.append(f"'{script}' enabled the SDK but ended with {ending}; its last command was '{last}'")
    return remarks


def _by_hand(script: Path) -> str:
    return f"see what it does by hand: bash --noprofile --norc, then: source {_quoted_posix(str(script))}"


# -- the difference ----------------------------------------------------------------------------------------------------


def _is_theirs(name: str) -> bool:
    """Whether a difference in this variable is the scripts' doing and can be told to any shell and program."""
    return name.isascii() and name.isidentifier() and name not in _BOOKKEEPING and not name.startswith(_OWN)


def _tidied(name: str, text: str | None) -> str | None:
    """A list without empty entries and repetitions; anything else as it is."""
    if name not in LIST_VARIABLES or not text:
        return text
    return ":".join(dict.fromkeys(entry for entry in text.split(":") if entry))


def _digest(difference: Mapping[str, str | None], before: Mapping[str, str]) -> str:
    rows = [[name, *_edit(name, text, before.get(name))] for name, text in sorted(difference.items())]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _edit(name: str, text: str | None, old: str | None) -> list[str | None]:
    """A change without the part of a list that was there before."""
    if name not in LIST_VARIABLES or text is None:
        return ["is", text]
    entries, kept = text.split(":"), old.split(":") if old else []
    if kept and entries[-len(kept) :] == kept:
        entries = entries[: -len(kept)]
    elif kept and entries[: len(kept)] == kept:
        return ["ends with", *filter(None, entries[len(kept) :])]
    return ["begins with", *filter(None, entries)]


# -- for shells --------------------------------------------------------------------------------------------------------


def to_shell(environment: SdkEnvironment, dialect: Literal["posix", "fish"] = "posix") -> str:
    """Lines that make a shell with the captured base enable the SDK: ``posix`` for bash and zsh, ``fish`` for fish.

    One printable line per variable, sorted; to be read by ``eval "$(...)"`` or ``... | source``.
    """
    texts = sorted({**environment.added, **environment.changed}.items())
    if dialect == "posix":
        lines = [f"export {name}={_quoted_posix(text)}" for name, text in texts]
        lines += [f"unset -v {name}" for name in environment.removed]
    elif dialect == "fish":
        lines = [f"set -gx {name} {_quoted_fish(text)}" for name, text in texts]
        lines += [f"set -eg {name}" for name in environment.removed]
    else:
        assert_never(dialect)
    return "".join(f"{line}\n" for line in lines)


def _quoted_posix(text: str) -> str:
    if text.isprintable():
        return "'" + text.replace("'", "'\\''") + "'"
    runs = itertools.groupby(text.replace("\\", "\\\\").replace("'", "\\'"), str.isprintable)
    return "$'" + "".join("".join(run) if plain else _bytes(run, "\\{:03o}") for plain, run in runs) + "'"


def _quoted_fish(text: str) -> str:
    runs = itertools.groupby(text.replace("\\", "\\\\").replace("'", "\\'"), str.isprintable)
    return "".join("'" + "".join(run) + "'" if plain else _bytes(run, "\\X{:02x}") for plain, run in runs) or "''"


def _bytes(run: Iterable[str], form: str) -> str:
    return "".join(form.format(byte) for byte in os.fsencode("".join(run)))
