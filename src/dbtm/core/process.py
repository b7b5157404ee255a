"""Other processes of this machine."""

import os
import sys
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process of this machine exists."""
    if sys.platform == "win32":  # os.kill would end it there
        import ctypes

        handle = ctypes.windll.kernel32.OpenProcess(0x100000, False, pid)  # SYNCHRONIZE
        if not handle:
            return False
        running = ctypes.windll.kernel32.WaitForSingleObject(handle, 0) == 0x102  # WAIT_TIMEOUT
        ctypes.windll.kernel32.CloseHandle(handle)
        return running
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's process
        return True
    return True


def started(pid: int) -> float | None:
    """A process's start time in seconds since 1970, accurate to about a second; None if unknown."""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return boot + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration, AttributeError):
        return None


def numbering() -> str:
    """An identifier of the scope in which process ids are unique: this boot of the machine, and on Linux this
    container. Empty if unknown.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except (OSError, ValueError):
        return ""
