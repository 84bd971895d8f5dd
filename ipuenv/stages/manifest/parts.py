"""The parts of a manifest: what is known about a profile, a build, a recording, an execution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

Status = Literal["pass", "failed", "oom", "rejected", "timeout", "hardware-failed", "interrupted"]
Quality = Literal["good", "usable", "poor"]
IdentityVerdict = Literal["identical", "differs", "no baseline", "not written"]
Touched = Literal["yes", "no", "unknown"]
CommandKind = Literal["record", "package", "functions", "render"]


def _utf8(value: object) -> object:
    # Names that are not UTF-8 reach us with lone surrogates, which JSON cannot carry.
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list | tuple):
        return [_utf8(item) for item in value]
    if isinstance(value, Mapping):
        return {_utf8(key): _utf8(item) for key, item in value.items()}
    return value


Text = Annotated[str, BeforeValidator(_utf8)]
Json = Annotated[JsonValue, BeforeValidator(_utf8)]
RunId = Annotated[str, Field(pattern=r"^[0-9]{8}T[0-9]{6}Z-[A-Za-z0-9._-]+$", max_length=160)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Variables = Annotated[Mapping[Text, Text], AfterValidator(lambda names: dict(sorted(names.items())))]
SortedTexts = Annotated[tuple[Text, ...], AfterValidator(lambda texts: tuple(sorted(texts)))]


class Facts(BaseModel):
    """A part of a manifest: frozen, with no key that is not known, and no number that JSON cannot write."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, serialize_by_alias=True)


class Setting(Facts):
    """One resolved setting of the profile and who set it; ``key`` is its TOML path."""

    key: Text
    value: Json
    source: Text


class Profile(Facts):
    """The profile as it was used; ``notes`` is the template as written."""

    name: Text
    title: Text
    notes: Text = ""
    settings: Annotated[tuple[Setting, ...], AfterValidator(lambda s: tuple(sorted(s, key=lambda e: e.key)))] = ()


class EnvironmentChanges(Facts):
    """What a process got other than its parent had: only what profile, build row and SDK set."""

    added: Variables = Field(default_factory=dict)
    changed: Variables = Field(default_factory=dict)
    removed: SortedTexts = ()


class Command(Facts):
    """A process as it was started; ``sdk_environment`` says whether the SDK's changes came below its own."""

    argv: Annotated[tuple[Text, ...], Field(min_length=1)]
    cwd: Text
    sdk_environment: bool = False
    environment: EnvironmentChanges = EnvironmentChanges()


class Git(Facts):
    """The workspace's revision; ``diff_sha256`` is the hash of the uncommitted changes to tracked files."""

    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")]
    branch: Text | None = None
    dirty: bool = False
    diff_sha256: Sha256 | None = None


class Tools(Facts):
    """Versions as the tools print them; None where a tool was not used or not found."""

    ipuenv: Text
    python: Text | None = None
    rustc: Text | None = None
    cargo: Text | None = None
    perf: Text | None = None


class Host(Facts):
    """The machine of the run."""

    name: Text
    kernel: Text
    cpu_model: Text
    cpus: Count


class Workspace(Facts):
    """The program's current folder; ``bundled`` is ipuenv's stand-in."""

    root: Text
    bundled: bool


class Sdk(Facts):
    """The SDK whose ``scripts`` were sourced, and what that changed; ``stand_in`` is ipuenv's own imitation."""

    root: Text
    scripts: tuple[Text, ...]
    stand_in: bool
    version: Text | None = None
    digest: Sha256 | None = None
    environment: EnvironmentChanges = EnvironmentChanges()


class Build(Facts):
    """A row of ``builds.toml`` and the cargo command made from it; ``artifact`` is the path that cargo reported.

    ``debug``, ``jobs`` and ``rustflags`` are None or empty where cargo's own configuration decides;
    ``rustflags_replaced`` names the settings that our flags put out of force; ``fresh`` says that nothing had to be built.
    """

    row: Text
    target_dir: Text
    cargo_profile: Text
    debug: bool | int | Text | None = None
    jobs: Count | None = None
    rustflags: tuple[Text, ...] = ()
    command: Command | None = None
    artifact: Text | None = None
    rustflags_replaced: Text | None = None
    fresh: bool | None = None


class Executable(Facts):
    """The stored executable that was run from ``path``."""

    name: Text
    path: Text
    sha256: Sha256
    size_bytes: Count
    build_id: Text | None = None


class Identity(Facts):
    """Whether an output's bytes equal those of the named others."""

    verdict: IdentityVerdict
    against: SortedTexts = ()
    differing: SortedTexts = ()

    @classmethod
    def judge(cls, sha256: str | None, others: Mapping[str, str | None]) -> Identity:
        """Compare a hash with those of others; an other without a hash (None) is not compared."""
        known = {name: other for name, other in others.items() if other is not None}
        if sha256 is None:
            return cls(verdict="not written")
        if not known:
            return cls(verdict="no baseline")
        differing = tuple(name for name, other in known.items() if other != sha256)
        return cls(verdict="differs" if differing else "identical", against=tuple(known), differing=differing)


class Output(Facts):
    """The file that must be byte-identical; ``file`` is below the variant's folder, hash and size None if unwritten."""

    file: Text
    depends_on: SortedTexts = ()
    sha256: Sha256 | None = None
    size_bytes: Count | None = None
    others: Identity
    baseline: Identity


class UnknownFrames(Facts):
    """Frames of one DSO that have no symbol, counted in every sample, and why."""

    dso: Text
    frames: Count
    reason: Text = ""


class Recording(Facts):
    """What perf recorded. ``event_asked`` is None where perf chose.

    ``program_pid`` is the program's process, which perf was attached to before its exec.
    ``truncated`` counts samples whose stack was cut short, ``with_unknown`` those with a frame that has no symbol.
    """

    file: Text | None = None
    event_asked: Text | None = None
    events_used: tuple[Text, ...] = ()
    frequency_hz: Count
    call_graph: Text
    program_pid: Count | None = None
    mmap_pages: Count | None = None
    samples: Count
    lost: Count = 0
    truncated: Count = 0
    with_unknown: Count = 0
    unknown_frames: Annotated[
        tuple[UnknownFrames, ...], AfterValidator(lambda u: tuple(sorted(u, key=lambda e: (-e.frames, e.dso))))
    ] = ()
    quality: Quality
    reasons: tuple[Text, ...] = ()
    command: Command | None = None


class Execution(Facts):
    """One execution of the program; ``exit_code`` is negative for a signal, None when it never ended by itself."""

    kind: Literal["recorded", "timed"]
    status: Status
    exit_code: int | None
    wall_s: Seconds
    user_s: Seconds
    system_s: Seconds
    peak_rss_bytes: Count


class Phase(Facts):
    """A phase that the program logged. Phases may nest."""

    name: Text
    elapsed_ms: Annotated[float, Field(ge=0)]
    success: bool


class Device(Facts):
    """Whether the program used the device, the line that says so, and the lock around it."""

    touched: Touched = "unknown"
    evidence: Text = ""
    lock: Text | None = None
    holder: Literal["program", "ipuenv"] | None = None
    lock_wait_s: Seconds | None = None


class ThreadShare(Facts):
    """A thread's share of all threads' CPU time."""

    tid: int
    name: Text = ""
    share: Fraction


class Parallelism(Facts):
    """How busy the threads were: the parts of the time in which about one thread was busy, and in which none was."""

    mean_busy_threads: Annotated[float, Field(ge=0)]
    serial_fraction: Fraction
    idle_fraction: Fraction = 0.0
    threads: tuple[ThreadShare, ...] = ()


class HotFunction(Facts):
    """A function's own samples, and those of everything it called with them."""

    name: Text
    self_samples: Count
    total_samples: Count


class View(Facts):
    """A picture; ``file`` is below the variant's folder, ``elide`` the patterns it leaves out."""

    file: Text
    total_samples: Count
    frames: Count
    inline: bool = True
    elide: tuple[Text, ...] = ()


class Svg(Facts):
    """How pictures are drawn; widths in pixels."""

    image_width: Count = 1200
    min_width: Annotated[float, Field(ge=0)] = 0.1
    deterministic: bool = True


class ReproductionCommand(Facts):
    """A bash script that makes a part of the run again; ``folder`` is where to start it, ``.`` the run's own folder."""

    kind: CommandKind
    title: Text
    folder: Text
    script: Text


class FileEntry(Facts):
    """A stored file; ``path`` is below the folder that its manifest lies in."""

    path: Text
    size_bytes: Count
    sha256: Sha256


SortedFiles = Annotated[tuple[FileEntry, ...], AfterValidator(lambda files: tuple(sorted(files, key=lambda e: e.path)))]
