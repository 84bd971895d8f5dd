"""The manifest's text: stable, strict, and clear about what it cannot read."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ipuenv.ground.errors import UsageError
from ipuenv.stages import manifest
from ipuenv.stages.manifest import text as manifest_text

STORED = Path(__file__).parent / "manifest-1.json"
"""A run of format 1. It must be readable for ever; write it anew only while format 1 is unreleased."""

RUN_ID = "20261130T101502Z-3f2a91c-dirty-indexed"
WORKSPACE = "/srv/ana/ipu stack"
STAGED = f"/srv/ana/artifacts/compiler-perf/flamegraph/.{RUN_ID}.partial"


def sample() -> manifest.RunManifest:
    """A run of two variants: one that passed, recorded and timed, and one that failed before it wrote its output."""
    run = manifest.RunManifest(
        run_id=RUN_ID,
        collection="compiler-perf/flamegraph",
        label="indexed",
        sweep_id="20261130T101500Z-7c1e",
        started_at=datetime(2026, 11, 30, 10, 15, 2, tzinfo=UTC),
        profile=manifest.Profile(
            name="attention-compiler",
            title="SigLIP attention compiler",
            notes="batch {batch}; {threads} Rayon workers",
            settings=(
                manifest.Setting(key="svg.image-width", value=1800, source="profiles/attention-compiler.toml"),
                manifest.Setting(key="record.frequency", value=99, source="default"),
            ),
        ),
        workspace=manifest.Workspace(root=WORKSPACE, bundled=False),
        git=manifest.Git(revision="3f2a91c" + "0" * 33, branch="main", dirty=True, diff_sha256="d" * 64),
        sdk=manifest.Sdk(
            root="/opt/poplar_sdk",
            scripts=("/opt/poplar_sdk/poplar/enable.sh",),
            stand_in=False,
            version="3.3.0 (de1f8de2a7)",
            digest="5" * 64,
            environment=manifest.EnvironmentChanges(
                added={"POPLAR_SDK_ENABLED": "/opt/poplar_sdk/poplar"},
                changed={"PATH": "/opt/poplar_sdk/poplar/bin:/usr/bin"},
            ),
        ),
        tools=manifest.Tools(ipuenv="0.1.0", python="3.11.7", rustc="1.95.0", cargo="1.95.0", perf="6.1.192"),
        host=manifest.Host(name="epyc7", kernel="6.18.44", cpu_model="AMD EPYC 7543", cpus=32),
        baseline_run="20261101T080000Z-aaaaaaa",
        planned=("16threads", "4threads"),
        variants=(passed(), failed()),
        stage_durations_s={"sdk": 0.4, "build": 61.5},
        remarks=("the SDK had been enabled before",),
    )
    return manifest.with_commands(run)


def build() -> manifest.Build:
    return manifest.Build(
        row="flamegraph",
        target_dir="target/flamegraph",
        cargo_profile="release",
        debug=True,
        jobs=16,
        rustflags=("-C", "target-cpu=native", "-C", "force-frame-pointers=yes"),
        command=manifest.Command(
            argv=(
                "cargo",
                "build",
                "-p",
                "ipu-tests",
                "--bin",
                "ipu-trivial-test",
                "--release",
                "--message-format=json",
            ),
            cwd=WORKSPACE,
            sdk_environment=True,
            environment=manifest.EnvironmentChanges(
                added={
                    "RUSTFLAGS": "-C target-cpu=native -C force-frame-pointers=yes",
                    "CARGO_TARGET_DIR": f"{WORKSPACE}/target/flamegraph",
                    "CARGO_PROFILE_RELEASE_DEBUG": "true",
                },
                removed=("CARGO_ENCODED_RUSTFLAGS",),
            ),
        ),
        artifact=f"{WORKSPACE}/target/flamegraph/release/ipu-trivial-test",
        fresh=False,
    )


def program(variant_id: str, threads: int) -> manifest.Command:
    return manifest.Command(
        argv=(
            f"/srv/ana/artifacts/.blobs/sha256/ee/{'e' * 64}/ipu-trivial-test",
            "c600-init.ipucfg",
            "--device-lock",
            f"{WORKSPACE}/artifacts/layout-sweep/device.lock",
            "--package",
            f"{STAGED}/{variant_id}/model.ipuexe",
            "--inspect-exchanges",
        ),
        cwd=WORKSPACE,
        environment=manifest.EnvironmentChanges(added={"RAYON_NUM_THREADS": str(threads), "NO_COLOR": "1"}),
    )


def passed() -> manifest.VariantManifest:
    return manifest.VariantManifest(
        run_id=RUN_ID,
        id="16threads",
        axes={"threads": 16, "batch": 1, "build": "flamegraph"},
        notes="batch 1; 16 Rayon workers; it's CPU samples, not IPU execution",
        status="pass",
        run_dir=f"{STAGED}/16threads",
        build=build(),
        program=program("16threads", 16),
        executable=manifest.Executable(
            name="ipu-trivial-test",
            path=f"/srv/ana/artifacts/.blobs/sha256/ee/{'e' * 64}/ipu-trivial-test",
            sha256="e" * 64,
            size_bytes=12_345_678,
            build_id="3f9a" * 10,
        ),
        output=manifest.Output(
            file="model.ipuexe",
            depends_on=("batch",),
            sha256="a" * 64,
            size_bytes=8_400_000,
            others=manifest.Identity.judge("a" * 64, {"4threads": None}),
            baseline=manifest.Identity.judge("a" * 64, {"20261101T080000Z-aaaaaaa/16threads": "a" * 64}),
        ),
        recording=manifest.Recording(
            file="perf.data",
            events_used=("cpu-clock",),
            frequency_hz=99,
            call_graph="fp",
            samples=31_874,
            lost=3,
            truncated=12,
            with_unknown=40,
            unknown_frames=(
                manifest.UnknownFrames(dso="[vdso]", frames=4),
                manifest.UnknownFrames(dso="/usr/lib/libfoo.so", frames=1200, reason="stripped"),
            ),
            quality="usable",
            reasons=("3 samples were lost",),
        ),
        executions=(
            manifest.Execution(
                kind="recorded",
                status="pass",
                exit_code=0,
                wall_s=105.0,
                user_s=370.7,
                system_s=2.25,
                peak_rss_bytes=3_135_000_000,
            ),
            *(
                manifest.Execution(
                    kind="timed",
                    status="pass",
                    exit_code=0,
                    wall_s=wall_s,
                    user_s=360.0,
                    system_s=2.0,
                    peak_rss_bytes=3_130_000_000,
                )
                for wall_s in (104.0, 101.0, 103.0)
            ),
        ),
        phases=(
            manifest.Phase(name="plan_kernels", elapsed_ms=61234.5, success=True),
            manifest.Phase(name="emit_tile_code", elapsed_ms=880.25, success=True),
        ),
        device=manifest.Device(
            touched="no", evidence="exchange inspection finished; device not opened", lock_wait_s=0.0
        ),
        parallelism=manifest.Parallelism(
            mean_busy_threads=3.6,
            serial_fraction=0.27,
            threads=(
                manifest.ThreadShare(tid=4121, name="ipu-trivial-tes", share=0.31),
                manifest.ThreadShare(tid=4122, share=0.05),
            ),
        ),
        hot_functions=(
            manifest.HotFunction(
                name="<rayon::iter::Map<I, F> as rayon::iter::ParallelIterator>::drive",
                self_samples=900,
                total_samples=20_000,
            ),
            manifest.HotFunction(name="Cost::operator||(Cost const&) const", self_samples=120, total_samples=130),
        ),
        views={
            "full": manifest.View(file="attention-compiler.svg", total_samples=31_874, frames=5120),
            "functions": manifest.View(
                file="attention-compiler-functions.svg", total_samples=31_874, frames=2048, inline=False
            ),
            "work": manifest.View(
                file="attention-compiler-work.svg", total_samples=31_874, frames=800, elide=("rayon::*",)
            ),
        },
        svg=manifest.Svg(image_width=1800, min_width=0.2, deterministic=True),
        stage_durations_s={"record": 106.5, "symbolize": 3.5},
    )


def failed() -> manifest.VariantManifest:
    return manifest.VariantManifest(
        run_id=RUN_ID,
        id="4threads",
        axes={"threads": 4, "batch": 1, "build": "flamegraph"},
        notes="batch 1; 4 Rayon workers",
        status="failed",
        status_reason="exit 101: thread 'main' panicked | see run.log",
        run_dir=f"{STAGED}/4threads",
        build=build(),
        program=program("4threads", 4),
        output=manifest.Output(
            file="model.ipuexe",
            depends_on=("batch",),
            others=manifest.Identity.judge(None, {"16threads": "a" * 64}),
            baseline=manifest.Identity.judge(None, {}),
        ),
        executions=(
            manifest.Execution(
                kind="recorded",
                status="failed",
                exit_code=101,
                wall_s=0.5,
                user_s=0.25,
                system_s=0.125,
                peak_rss_bytes=50_000_000,
            ),
        ),
    )


def value_of(data: bytes) -> dict[str, Any]:
    value = json.loads(data)
    assert isinstance(value, dict)
    return value


def test_the_stored_format_1_is_what_we_read_and_write() -> None:
    stored = STORED.read_bytes()
    assert manifest.load(stored) == sample()
    assert manifest.dump(sample()) == stored


def test_equal_facts_give_equal_bytes_whatever_order_they_came_in() -> None:
    forward = manifest.EnvironmentChanges(added={"A": "1", "B": "2"}, removed=("X", "Y"))
    backward = manifest.EnvironmentChanges(added={"B": "2", "A": "1"}, removed=("Y", "X"))
    assert forward.model_dump_json() == backward.model_dump_json()
    data = manifest.dump(sample())
    assert manifest.dump(manifest.load(data)) == data
    assert value_of(data)["schema"] == 1
    settings = value_of(data)["profile"]["settings"]
    assert [entry["key"] for entry in settings] == ["record.frequency", "svg.image-width"]
    unknown = value_of(data)["variants"][0]["recording"]["unknown_frames"]
    assert [entry["frames"] for entry in unknown] == [1200, 4]


def test_a_variant_comes_back_alone() -> None:
    assert manifest.load_variant(manifest.dump(passed())) == passed()


def test_the_json_schema_accepts_what_we_write_and_refuses_a_misspelling() -> None:
    schema = manifest.json_schema()
    value = value_of(manifest.dump(sample()))
    jsonschema.validate(value, schema)
    value["variants"][0]["stauts"] = "pass"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, schema)


def test_facts_are_frozen() -> None:
    with pytest.raises(ValidationError):
        sample().label = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("data", "what", "expected", "hint"),
    [
        (b"{", "is not JSON", "that ipuenv wrote", "ipuenv flamegraph"),
        (b"\xff\xfe", "is not JSON", "that ipuenv wrote", "ipuenv flamegraph"),
        (b"[" * 100_000, "is not JSON", "that ipuenv wrote", "ipuenv flamegraph"),
        (b"[1]", "no JSON object", "that ipuenv wrote", "ipuenv flamegraph"),
        (b"{}", "names no schema", '"schema": 1', "a run's folder"),
        (b'{"schema": "1"}', "unknown schema '1'", "from 1 to 1", "ipuenv flamegraph"),
        (b'{"schema": true}', "unknown schema True", "from 1 to 1", "ipuenv flamegraph"),
        (b'{"schema": 0}', "unknown schema 0", "from 1 to 1", "ipuenv flamegraph"),
        (b'{"schema": 2}', "newer ipuenv (schema 2)", "schema 1 or older", "--upgrade ipuenv"),
        (b'{"schema": 1}', "is damaged: run_id: Field required", "schema 1", "ipuenv flamegraph"),
    ],
)
def test_what_cannot_be_read_is_told_in_three_beats(data: bytes, what: str, expected: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        manifest.load(data, origin="some/manifest.json")
    assert caught.value.what.startswith("'some/manifest.json' ")
    assert what in caught.value.what
    assert expected in caught.value.expected
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("where", "value", "told"),
    [
        (("variants", 0, "status"), "passed", "variants.0.status"),
        (("variants", 0, "recording", "samples"), "12", "variants.0.recording.samples"),
        (("variants", 0, "recording", "samples"), -1, "variants.0.recording.samples"),
        (("variants", 0, "executions", 0, "wall_s"), math.nan, "wall_s"),
        (("variants", 0, "id"), "../../etc", "variants.0.id"),
        (("run_id",), "20261130T101502Z-$(id)", "run_id"),
        (("git", "revision"), "HEAD; rm -rf /", "git.revision"),
        (("started_at",), "2026-11-30T10:15:02", "started_at"),
        (("extra",), 1, "extra"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(where: tuple[str | int, ...], value: object, told: str) -> None:
    whole: Any = value_of(manifest.dump(sample()))
    at = whole
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    with pytest.raises(UsageError, match=r"is damaged") as caught:
        manifest.load(json.dumps(whole).encode())
    assert told in caught.value.what


def test_all_problems_are_told_at_once() -> None:
    value = value_of(manifest.dump(sample()))
    del value["host"]
    value["label"] = 7
    with pytest.raises(UsageError) as caught:
        manifest.load(json.dumps(value).encode())
    assert "host: " in caught.value.what
    assert "label: " in caught.value.what


def test_an_older_schema_is_brought_up_to_date_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(value: dict[str, Any]) -> dict[str, Any]:
        name = value.pop("name")
        return {**value, "label": name, "schema": 2}

    def second(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "label": value["label"].upper(), "schema": 1}  # 1 is what today's models accept

    monkeypatch.setattr(manifest_text, "SCHEMA", 3)
    monkeypatch.setattr(manifest_text, "_UPGRADES", {1: first, 2: second})
    value = value_of(manifest.dump(sample()))
    value["name"] = value.pop("label")
    assert manifest.load(json.dumps(value).encode()).label == "INDEXED"


def test_there_is_an_upgrade_from_every_older_schema() -> None:
    assert sorted(manifest_text._UPGRADES) == list(range(1, manifest.SCHEMA))


@given(st.text(), st.dictionaries(st.text(), st.text(), max_size=3))
def test_any_text_comes_back_as_it_was(name: str, variables: dict[str, str]) -> None:
    changed = passed().model_copy(
        update={"remarks": (name,), "build": build().model_copy(update={"rustflags": (name,)})},
    )
    changed = changed.model_copy(
        update={
            "program": manifest.Command(
                argv=(name,), cwd=name, environment=manifest.EnvironmentChanges(added=variables)
            )
        }
    )
    assert manifest.load_variant(manifest.dump(changed)) == changed


def test_text_that_is_not_utf8_is_shown_instead_of_refused() -> None:
    command = manifest.Command(argv=("prog", "caf\udce9"), cwd="/tmp/\udcff")
    assert command.argv[1] == "caf\\udce9"
    setting = manifest.Setting(key="run.args", value=["\udce9", {"\udce9": 1}], source="environment")
    assert setting.value == ["\\udce9", {"\\udce9": 1}]
    changed = passed().model_copy(update={"program": command})
    assert manifest.load_variant(manifest.dump(changed)) == changed


@pytest.mark.parametrize(
    ("own", "others", "verdict", "against", "differing"),
    [
        (None, {"a": "1"}, "not written", (), ()),
        ("1", {}, "no baseline", (), ()),
        ("1", {"a": None}, "no baseline", (), ()),
        ("1", {"b": "1", "a": "1", "c": None}, "identical", ("a", "b"), ()),
        ("1", {"b": "1", "a": "2"}, "differs", ("a", "b"), ("a",)),
    ],
)
def test_identity(
    own: str | None, others: dict[str, str | None], verdict: str, against: tuple[str, ...], differing: tuple[str, ...]
) -> None:
    identity = manifest.Identity.judge(own, others)
    assert (identity.verdict, identity.against, identity.differing) == (verdict, against, differing)


def test_a_run_is_complete_when_all_that_was_planned_ended_by_itself() -> None:
    run = sample()
    assert run.complete
    assert run.passed
    assert not run.model_copy(update={"planned": (*run.planned, "1threads")}).complete
    interrupted = failed().model_copy(update={"status": "interrupted"})
    assert not run.model_copy(update={"variants": (passed(), interrupted)}).complete
    assert not run.model_copy(update={"variants": (failed(),), "planned": ()}).passed


def test_the_store_is_imported_without_pydantic() -> None:
    code = "import sys, ipuenv.stages.store, ipuenv.front.pages; sys.exit('pydantic' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
