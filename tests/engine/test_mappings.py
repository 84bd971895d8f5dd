"""Address spaces and thread names over time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ipuenv.engine.mappings import AddressSpace, Mapping, Tasks
from ipuenv.engine.perfdata import Comm, Fork, Mmap, TaskRecord


def mmap(time: int, start: int, length: int, path: str, pid: int = 1, pgoff: int = 0) -> Mmap:
    return Mmap(
        time=time, pid=pid, start=start, length=length, pgoff=pgoff, path=path, build_id="", is_kernel=pid == -1
    )


def comm(time: int, name: str, pid: int = 1, tid: int | None = None, *, is_exec: bool = False) -> Comm:
    return Comm(time=time, pid=pid, tid=pid if tid is None else tid, comm=name, is_exec=is_exec)


def path_at(tasks: Tasks, pid: int, time: int, address: int) -> str | None:
    space = int(tasks.spaces_at(np.array([pid]), np.array([time], np.uint64))[0])
    mapping = tasks.spaces[space].at(address) if space >= 0 else None
    return mapping.path if mapping else None


def comm_at(tasks: Tasks, tid: int, time: int) -> str | None:
    index = int(tasks.comms_at(np.array([tid]), np.array([time], np.uint64))[0])
    return tasks.comms[index] if index >= 0 else None


def tasks_of(*records: TaskRecord, build_ids: dict[str, str] | None = None) -> Tasks:
    return Tasks(records, build_ids or {})


def test_a_mapping_holds_until_another_covers_it() -> None:
    tasks = tasks_of(mmap(10, 0x1000, 0x1000, "old"), mmap(20, 0x1800, 0x1000, "new"))
    assert path_at(tasks, 1, 15, 0x1900) == "old"
    assert path_at(tasks, 1, 25, 0x1900) == "new"
    assert path_at(tasks, 1, 25, 0x1100) == "old"


def test_a_program_that_replaces_another_has_its_own_space_and_names_the_thread() -> None:
    begins = (comm(10, "program", is_exec=True), mmap(11, 0x1000, 0x1000, "program"))
    tasks = tasks_of(mmap(0, 0x1000, 0x1000, "shell"), comm(0, "sh"), *begins)
    assert (path_at(tasks, 1, 5, 0x1000), comm_at(tasks, 1, 5)) == ("shell", "sh")
    assert (path_at(tasks, 1, 15, 0x1000), comm_at(tasks, 1, 15)) == ("program", "program")


def test_while_execve_runs_the_address_it_was_called_from_is_still_known() -> None:
    begins = (comm(10, "program", is_exec=True), mmap(12, 0x8000, 0x1000, "program"))
    tasks = tasks_of(mmap(0, 0x1000, 0x1000, "shell"), *begins)
    assert (path_at(tasks, 1, 11, 0x1000), path_at(tasks, 1, 13, 0x1000)) == ("shell", "shell")
    assert (path_at(tasks, 1, 5, 0x8000), path_at(tasks, 1, 13, 0x8000)) == (None, "program")


def test_a_process_that_perf_found_running_has_its_own_mappings_only() -> None:
    fork = Fork(time=0, pid=2, parent_pid=1, tid=2, parent_tid=1, is_synthesized=True)
    tasks = tasks_of(mmap(0, 0x1000, 0x1000, "parent"), comm(0, "parent"), fork, mmap(0, 0x8000, 0x1000, "own", pid=2))
    assert (path_at(tasks, 2, 5, 0x1000), path_at(tasks, 2, 5, 0x8000)) == (None, "own")


def test_a_forked_process_starts_with_its_parents_mappings_and_name() -> None:
    fork = Fork(time=10, pid=2, parent_pid=1, tid=2, parent_tid=1)
    later = mmap(20, 0x1000, 0x1000, "parent's own")
    tasks = tasks_of(mmap(0, 0x1000, 0x1000, "both"), comm(0, "parent"), fork, later)
    assert path_at(tasks, 2, 30, 0x1000) == "both"
    assert path_at(tasks, 1, 30, 0x1000) == "parent's own"
    assert comm_at(tasks, 2, 30) == "parent"


def test_a_thread_shares_its_process_and_inherits_the_name() -> None:
    fork = Fork(time=10, pid=1, parent_pid=1, tid=7, parent_tid=1)
    tasks = tasks_of(comm(0, "main"), fork, comm(20, "worker", tid=7))
    assert (comm_at(tasks, 7, 15), comm_at(tasks, 7, 25), comm_at(tasks, 1, 25)) == ("main", "worker", "main")
    assert len(tasks.spaces) == 0


def test_a_process_that_mapped_nothing_has_no_space() -> None:
    assert path_at(tasks_of(), 9, 0, 0x1000) is None


def test_build_ids_come_from_the_record_or_from_the_table() -> None:
    tasks = tasks_of(mmap(0, 0x1000, 0x1000, "program"), build_ids={"program": "abcd"})
    assert tasks.spaces[0].mappings[0].build_id == "abcd"


def test_kernel_mappings_stand_apart() -> None:
    tasks = tasks_of(mmap(0, 1 << 63, 0x1000, "[kernel.kallsyms]_text", pid=-1))
    assert [mapping.path for mapping in tasks.kernel_mappings] == ["[kernel.kallsyms]_text"]
    assert not tasks.spaces


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)), max_size=25))
def test_any_order_of_mappings_shows_the_newest_at_every_address(ranges: list[tuple[int, int]]) -> None:
    """Checked against an array of pages."""
    space, pages = AddressSpace(), [""] * 64
    for index, (start, length) in enumerate(ranges):
        path = f"file {index}"
        space.insert(Mapping(start=start, end=start + length, pgoff=start * 3, path=path, build_id=""))
        pages[start : start + length] = [path] * length
    for page, expected in enumerate(pages):
        found = space.at(page)
        assert (found.path if found else "") == expected
        if found:
            first = next(start for index, (start, _) in enumerate(ranges) if f"file {index}" == found.path)
            assert found.file_offset(page) == page - first + first * 3
