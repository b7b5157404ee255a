"""The filter on system calls: it allows those that Python needs to compute and print; all others fail with EPERM.

A filter is a small program for the kernel's packet-filter machine: it checks the architecture and the number of every
system call. Opening, linking, sockets, processes, signals, tracing, mounting, limits and sleeping are not allowed.
"""

import struct

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# One row per call: its number on x86_64 and on aarch64.
CALLS = {
    "write": (1, 64),  # to open pipes; nothing else can be opened
    "close": (3, 57),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "getpid": (39, 172),
    "exit": (60, 93),
    "gettimeofday": (96, 169),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
}

_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
_FAIL_WITH_EPERM = 0x00050000 | 1


def filter_program(machine: str) -> bytes:
    """The filter as an array of struct sock_filter (u16 code, u8 if true, u8 if false, u32 operand)."""
    numbers = [row[list(AUDIT_ARCH).index(machine)] for row in CALLS.values()]
    steps = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_IF_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),  # another architecture's calls have other numbers
        (_LOAD, 0, 0, _NUMBER),
        *((_JUMP_IF_EQUAL, len(numbers) - i, 0, number) for i, number in enumerate(numbers)),
        (_RETURN, 0, 0, _FAIL_WITH_EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
