"""Confine this process as far as the system supports it; the names of the active means are returned."""

import os
import sys

try:  # imported now: nothing can be loaded once confined
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]
try:
    from . import linux
except (ImportError, OSError, TypeError):  # a Python without ctypes, or without libc in ctypes.CDLL(None)
    linux = None  # type: ignore[assignment]

NOBODY = 65534


def confine(cpu_seconds: int, memory_bytes: int) -> list[str]:
    """Irreversibly deny new files, processes and privileges, and limit time and memory."""
    on_linux = linux is not None and sys.platform == "linux"
    means = linux.separate() if on_linux else []
    means += _become_nobody()
    means += _limit(cpu_seconds, memory_bytes)
    if on_linux:
        means += linux.drop()
    return means


def _become_nobody() -> list[str]:
    """Replace root by nobody: root's files and processes are out of reach, and limits on processes apply."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return []
    try:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    except OSError:
        return []
    return ["user nobody"]


def _limit(cpu_seconds: int, memory_bytes: int) -> list[str]:
    """Hard limits on the process, which cannot be raised again."""
    if resource is None:
        return []
    wanted = {
        "RLIMIT_CPU": (cpu_seconds, cpu_seconds + 1),  # first SIGXCPU, which names the reason, then SIGKILL
        "RLIMIT_AS": (memory_bytes, memory_bytes),
        "RLIMIT_FSIZE": (0, 0),
        "RLIMIT_NPROC": (0, 0),
        "RLIMIT_NOFILE": (0, 0),  # open pipes stay; nothing else can be opened
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_MEMLOCK": (0, 0),
        "RLIMIT_MSGQUEUE": (0, 0),
    }
    held = []
    for name, pair in wanted.items():
        try:
            resource.setrlimit(getattr(resource, name), pair)
            held.append(name.removeprefix("RLIMIT_").lower())
        except (AttributeError, ValueError, OSError):  # some systems lack or deny some limits
            pass
    return [f"limits ({', '.join(held)})"] if held else []
