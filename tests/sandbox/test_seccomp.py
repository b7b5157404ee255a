"""The filter, run by a small interpreter on every system call of both architectures."""

import struct

import pytest

from dbtm.sandbox.child.seccomp import AUDIT_ARCH, CALLS, filter_program

ALLOW, KILL, EPERM = 0x7FFF0000, 0x80000000, 0x00050001
FORBIDDEN = {  # numbers from the kernel's tables, x86_64 and aarch64
    "open": (2, None),
    "openat": (257, 56),
    "socket": (41, 198),
    "connect": (42, 203),
    "clone": (56, 220),
    "clone3": (435, 435),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "ptrace": (101, 117),
    "prctl": (157, 167),
    "unlinkat": (263, 35),
    "mkdirat": (258, 34),
    "mount": (165, 40),
    "unshare": (272, 97),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "process_vm_writev": (311, 271),
    "setrlimit": (160, 164),
    "prlimit64": (302, 261),
}


def interpret(program: bytes, number: int, arch: int) -> int:
    """The kernel's result for one call: loads of 32-bit words, jumps if equal, and returns."""
    data = struct.pack("=II", number, arch)
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    accumulator = at = 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, operand)[0]
        elif code == 0x15:
            at += if_true if accumulator == operand else if_false
        else:
            assert code == 0x06
            return operand


@pytest.mark.parametrize("machine", AUDIT_ARCH)
def test_only_the_listed_calls_pass(machine):
    column = list(AUDIT_ARCH).index(machine)
    program = filter_program(machine)
    passed = {number for number in range(1024) if interpret(program, number, AUDIT_ARCH[machine]) == ALLOW}
    assert passed == {row[column] for row in CALLS.values()}
    for numbers in FORBIDDEN.values():
        if numbers[column] is not None:
            assert interpret(program, numbers[column], AUDIT_ARCH[machine]) == EPERM


@pytest.mark.parametrize("machine", AUDIT_ARCH)
def test_calls_of_another_architecture_end_the_process(machine):
    program = filter_program(machine)
    others = [arch for name, arch in AUDIT_ARCH.items() if name != machine]
    for arch in (*others, 0x40000003, 0):  # 32-bit x86 among them
        assert interpret(program, 1, arch) == KILL


def test_the_second_table_of_x86_64_is_refused():
    """Numbers from 2^30 on are the calls of x32."""
    for number, _ in CALLS.values():
        assert interpret(filter_program("x86_64"), number | 0x40000000, AUDIT_ARCH["x86_64"]) == EPERM


def test_jumps_fit_their_byte():
    assert len(CALLS) < 255
