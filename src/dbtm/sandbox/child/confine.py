"""Lock this process in, as far as the system lets it; returns the names of the means that took hold."""

import os
import sys

try:  # imported now: once locked in, nothing can be loaded
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]
try:
    from . import linux
except (ImportError, OSError, TypeError):  # a Python without ctypes, or a libc that cannot be had by ctypes.CDLL(None)
    linux = None  # type: ignore[assignment]

NOBODY = 65534


def confine(cpu_seconds: int, memory_bytes: int) -> list[str]:
    """From here on: no new files, processes or privileges, and little time and memory. There is no way back."""
    on_linux = linux is not None and sys.platform == "linux"
    means = linux.separate() if on_linux else []
    means += _become_nobody()
    means += _limit(cpu_seconds, memory_bytes)
    if on_linux:
        means += linux.drop()
    return means


def _become_nobody() -> list[str]:
    """Root gives itself up: its files and processes are out of reach, and limits on processes count for it too."""
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
    """Limits on the process, hard ones: they cannot be raised again."""
    if resource is None:
        return []
    wanted = {
        "RLIMIT_CPU": (cpu_seconds, cpu_seconds + 1),  # a signal that says why, then one that cannot be caught
        "RLIMIT_AS": (memory_bytes, memory_bytes),
        "RLIMIT_FSIZE": (0, 0),
        "RLIMIT_NPROC": (0, 0),
        "RLIMIT_NOFILE": (0, 0),  # pipes that are open stay; nothing more can be opened
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_MEMLOCK": (0, 0),
        "RLIMIT_MSGQUEUE": (0, 0),
    }
    held = []
    for name, pair in wanted.items():
        try:
            resource.setrlimit(getattr(resource, name), pair)
            held.append(name.removeprefix("RLIMIT_").lower())
        except (AttributeError, ValueError, OSError):  # not every system has or grants every limit
            pass
    return [f"limits ({', '.join(held)})"] if held else []
