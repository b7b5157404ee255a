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


def numbering() -> str:
    """A name for what process numbers are unique in: this start of this machine, and on Linux this container. Empty
    where it is not known.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except (OSError, ValueError):
        return ""
