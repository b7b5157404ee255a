"""Confinement on Linux: namespaces, an empty root folder, no privileges, a system-call filter.

Each step reports whether it is active and does not depend on the others. Only libc is called, through ctypes.
"""

import ctypes
import os
import sys

from .seccomp import AUDIT_ARCH, filter_program

_NEW_USER, _NEW_NETWORK, _NEW_IPC = 0x10000000, 0x40000000, 0x08000000
_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 1, 4, 22, 38
_SECCOMP_FILTER = 2
_KILL = 9
_CAPABILITIES_V3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def separate() -> list[str]:
    """Namespaces without network, and the working folder as the root of the file system."""
    root = os.geteuid() == 0  # root needs no user namespace, and could not become nobody in one
    means = []
    if _libc.unshare(_NEW_NETWORK | _NEW_IPC | (0 if root else _NEW_USER)) == 0:
        means.append("namespaces")
    try:
        os.chroot(".")
        os.chdir("/")
        means.append("empty root")
    except OSError:
        pass
    return means


def drop() -> list[str]:
    """Die with the parent, refuse tracers, gain no privileges, drop all capabilities, and only compute and print."""
    means = []
    _prctl(_SET_DEATH_SIGNAL, _KILL)
    _prctl(_SET_DUMPABLE, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()) == 0:
        means.append("no capabilities")
    machine = os.uname().machine if sys.maxsize > 2**32 else "32 bits"
    if _prctl(_SET_NO_NEW_PRIVILEGES, 1) == 0 and machine in AUDIT_ARCH:
        steps = filter_program(machine)
        program = _Filter(len(steps) // 8, steps)
        if _libc.prctl(_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(program), 0, 0) == 0:
            means.append("seccomp")
    return means


def _prctl(option: int, value: int) -> int:
    unused = ctypes.c_ulong(0)
    return _libc.prctl(option, ctypes.c_ulong(value), unused, unused, unused)
