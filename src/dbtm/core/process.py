"""Other processes of this machine."""

import os
import sys
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process of this machine exists."""
    if sys.platform == "win32":  # where os.kill would end it
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
    except OSError:  # someone else's process
        return True
    return True


def started(pid: int) -> float | None:
    """When a process started, in seconds since 1970 and to about a second; None where that is not known."""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return boot + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration, AttributeError):
        return None


def numbering() -> str:
    """A name for what process numbers are unique in: this start of this machine, and on Linux this container. Empty
    where it is not known.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except (OSError, ValueError):
        return ""
