"""What a program's log says: both formats of tracing_subscriber, with and without colours."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipuenv.stages.program_log import Phase, ProgramLog, parse, read_log

STAMP = "2026-11-30T05:00:0{}.500000Z"
TEXT = (
    '{}  INFO ipu_codegen.package.phase{{phase="lower_mid"}}: package build phase finished phase="lower_mid" '
    "elapsed_ms=1840 success=true"
)
JSON = (
    '{{"timestamp":"{}","level":"INFO","fields":{{"message":"package build phase finished","phase":"lower_mid",'
    '"elapsed_ms":1840,"success":true}},"span":{{"phase":"lower_mid","name":"ipu_codegen.package.phase"}}}}'
)
COLOURED = (
    "\x1b[2m{}\x1b[0m \x1b[32m INFO\x1b[0m \x1b[1mipu_codegen.package.phase\x1b[0m: package build phase finished "
    '\x1b[3mphase\x1b[0m\x1b[2m=\x1b[0m"lower_mid" \x1b[3melapsed_ms\x1b[0m\x1b[2m=\x1b[0m1840 '
    "\x1b[3msuccess\x1b[0m\x1b[2m=\x1b[0mtrue"
)


@pytest.mark.parametrize("line", [TEXT, JSON, COLOURED])
def test_a_phase_in_every_format(line: str) -> None:
    log = parse([line.format(STAMP.format(1)) + "\n"])
    assert log.phases == (Phase(name="lower_mid", elapsed_ms=1840, success=True),)
    assert log.device_touched == "no"


def test_a_failed_phase_is_told() -> None:
    (phase,) = parse([TEXT.format(STAMP.format(1)).replace("success=true", "success=false")]).phases
    assert not phase.success


@pytest.mark.parametrize(
    "form",
    [
        "{}  INFO {} path=/x",
        '{{"timestamp":"{}","level":"INFO","fields":{{"message":"{}","path":"/x"}}}}',
    ],
)
def test_the_wait_for_the_device_is_measured(form: str) -> None:
    lines = [
        form.format(STAMP.format(1), "waiting for hardware ownership"),
        form.format(STAMP.format(4), "acquired hardware ownership"),
    ]
    log = parse(lines)
    assert log.lock_wait_s == pytest.approx(3.0)
    assert log.device_touched == "yes"
    assert "acquired hardware ownership" in log.evidence


def test_waiting_alone_is_no_touch() -> None:
    log = parse([f"{STAMP.format(1)}  INFO waiting for hardware ownership path=/x"])
    assert (log.device_touched, log.lock_wait_s) == ("no", None)


@pytest.mark.parametrize("line", ["package=P tiles=4 hardwareTest=PASS", "application loaded"])
def test_result_lines_prove_that_the_device_was_used(line: str) -> None:
    assert parse([line]).device_touched == "yes"


@pytest.mark.parametrize("lines", [[], ["some text"], ["{not json", "{}", '{"timestamp": 3}'], ["error: no such file"]])
def test_silence_proves_nothing(lines: list[str]) -> None:
    assert parse(lines) == ProgramLog()


def test_a_log_that_is_missing_or_no_text(tmp_path: Path) -> None:
    assert read_log(tmp_path / "missing") == ProgramLog()
    binary = tmp_path / "run.log"
    binary.write_bytes(b"\xff\x00\xfe\n" + TEXT.format(STAMP.format(1)).encode())
    assert len(read_log(binary).phases) == 1


def test_evidence_is_bounded() -> None:
    assert len(parse(["hardwareTest=" + "x" * 10_000]).evidence) == 200
