"""Runs a command for which perf_event_open(2) fails with EPERM: the kernel of a container, made by a seccomp filter."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x00050000, 0x7FFF0000
BPF_LOAD_WORD, BPF_JUMP_IF_EQUAL, BPF_RETURN = 0x20, 0x15, 0x06
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}[os.uname().machine]


def instruction(code: int, jump_true: int, jump_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, value)


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def main() -> None:
    instructions = (
        instruction(BPF_LOAD_WORD, 0, 0, 0)  # the number of the system call
        + instruction(BPF_JUMP_IF_EQUAL, 0, 1, PERF_EVENT_OPEN)
        + instruction(BPF_RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.EPERM)
        + instruction(BPF_RETURN, 0, 0, SECCOMP_RET_ALLOW)
    )
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(instructions) // 8, instructions)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
