"""One trainer per run: a lock on the run's folder, released by the system when its process ends, however it ends."""

import json
import os
import socket
import time
from pathlib import Path
from typing import IO

from dbtm.core.errors import UsageError

NAME = ".lock"


class RunLock:
    """Holds `RUN/.lock`, whose content says who holds it.

    The lock is the system's (flock; on NFS it is kept by the server), so that a killed process leaves none behind and
    the file itself may stay.
    """

    def __init__(self, run: Path):
        self.path = run / NAME
        self.file: IO[str] | None = None

    def take(self) -> "RunLock":
        """Take it, or refuse in a line that names who holds it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = open(self.path, "a+", encoding="utf-8")  # noqa: SIM115 - open as long as the lock is held
        except OSError as error:
            raise UsageError(f"cannot write into {self.path.parent}: {error.strerror}") from None
        if not _lock(file):
            holder = _holder(file)
            file.close()
            raise UsageError(
                f"{self.path.parent} is being trained by another process{holder}: wait for it, or choose another folder"
            )
        file.seek(0)
        file.truncate()
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "since": started}) + "\n")
        file.flush()
        self.file = file
        return self

    def release(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def refuse_if_held(self) -> None:
        """Refuse early, before any work is done, without leaving a trace where the run is new."""
        if self.path.is_file():
            self.take().release()


def _lock(file: IO[str]) -> bool:
    """Whether the lock could be taken; True also on file systems that have no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # ENOLCK, ENOTSUP: no locks here
        return True
    return True


def _holder(file: IO[str]) -> str:
    """Who holds the lock, in words."""
    try:
        file.seek(0)
        values = json.loads(file.read(4096))
        return f" (process {int(values['pid'])} on {str(values['host'])[:80]!r}, since {str(values['since'])[:19]})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
