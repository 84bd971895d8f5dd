"""What the reader does not serve: refused by name, with what to do instead; or left out, and told."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ipuenv.engine import recording
from ipuenv.engine.perfevents import CallGraph
from ipuenv.ground.errors import UsageError
from tests.engine.test_perfdata import CALLCHAIN, IP, PERIOD, TID, TIME, Attr, File, chains, record, sample

CHAINED = IP | TID | TIME | CALLCHAIN | PERIOD
BRANCH_STACK, REGS_USER, STACK_USER = 1 << 11, 1 << 12, 1 << 13
CALL_STACK, USER_BRANCHES = 1 << 11, 1 << 0

REFUSED = {
    CallGraph.DWARF: (Attr(sample_type=CHAINED | REGS_USER | STACK_USER), "--call-graph dwarf"),
    CallGraph.LBR: (Attr(sample_type=CHAINED | BRANCH_STACK, branches=CALL_STACK | USER_BRANCHES), "--call-graph lbr"),
    CallGraph.DEFERRED: (Attr(flags=1 << 10 | 1 << 18 | 1 << 38), "--call-graph fp,defer"),
}


@pytest.mark.parametrize("call_graph", REFUSED)
def test_call_graphs_that_are_not_chains_of_addresses_are_refused(call_graph: CallGraph) -> None:
    attr, option = REFUSED[call_graph]
    with pytest.raises(UsageError, match=option) as caught:
        File(sample(1, [1]), [attr]).read()
    assert "--call-graph fp" in caught.value.hint
    assert caught.value.expected


def test_a_deferred_chain_is_refused_whatever_the_event_says() -> None:
    with pytest.raises(UsageError, match="deferred"):
        File(sample(1, [1]) + record(22, struct.pack("<QQQ", 1, 1, 0x10))).read()


def test_user_registers_and_branches_beside_a_frame_pointer_chain_are_no_obstacle() -> None:
    attr = Attr(sample_type=CHAINED | REGS_USER | BRANCH_STACK, branches=USER_BRANCHES)
    assert chains(File(sample(1, [1, 2]), [attr]).read()) == [[1, 2]]


@pytest.mark.parametrize("records", [b"", record(9, struct.pack("<QiiQQ", 1, 7, 7, 1, 1))])
def test_a_recording_without_call_chains_says_how_to_record(records: bytes) -> None:
    with pytest.raises(UsageError, match=r"no call chains \(event 'cpu-clock'\)") as caught:
        File(records, [Attr(sample_type=IP | TID | TIME | PERIOD)]).read()
    assert "--call-graph fp" in caught.value.hint


def auxtrace(payload: bytes) -> bytes:
    """The trace follows the record and is not part of its size."""
    return record(71, struct.pack("<QQQIIII", len(payload), 0, 0, 0, 7, 0, 0)) + payload


def test_aux_traces_alone_are_refused() -> None:
    with pytest.raises(UsageError, match="AUX traces") as caught:
        File(auxtrace(bytes(64)), [Attr(sample_type=IP | TID | TIME)]).read()
    assert "-e cycles" in caught.value.hint


def test_aux_traces_beside_samples_are_left_out_and_told() -> None:
    payload = struct.pack("<IHH", 9, 2, 8) * 10
    data = File(sample(1, [1]) + auxtrace(payload) + sample(2, [2])).read()
    assert chains(data) == [[1], [2]]
    assert data.remarks == ("left out: 80 bytes of AUX traces (Intel PT, ARM SPE)",)
    assert not data.is_partial


def test_one_file_of_a_folder_is_refused() -> None:
    with pytest.raises(UsageError, match="--threads"):
        File(sample(1, [1]), features={24: bytes(8)}).read()


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder") as caught:
        recording.read(tmp_path)
    assert "--threads" in caught.value.hint
