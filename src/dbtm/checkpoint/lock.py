"""One trainer per run: a lock on the run's folder, released when its process ends in any way."""

import errno
import json
import os
import socket
import sys
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from dbtm.core import process
from dbtm.core.errors import UsageError

NAME = ".lock"
HELD = ".lock-held"  # the fallback's file
BEAT = 10.0  # seconds between heartbeats of the holder
STALE = 6 * BEAT  # a holder without a heartbeat for so long, by the file system's clock, is dead
_NO_LOCKS = {getattr(errno, name, None) for name in ("ENOLCK", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL")}


class NoLocksError(OSError):
    """The system or the file system has no locks."""


class RunLock:
    """Holds `RUN/.lock`, which names its holder.

    The lock is the system's (flock; on NFS the server keeps it), so a killed process releases it, and the file itself
    may stay. Without such locks, one process creates `RUN/.lock-held` and touches it as long as it lives; see `_Held`.
    """

    def __init__(self, run: Path):
        self.path = run / NAME
        self.file: IO[str] | None = None
        self.held: _Held | None = None

    def take(self, warn: bool = True) -> "RunLock":
        """Acquire it, or raise an error that names the holder; `warn` if the system has no locks."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = open(self.path, "a+", encoding="utf-8")  # noqa: SIM115 - open as long as the lock is held
        except OSError as error:
            raise UsageError(f"cannot write into {self.path.parent}: {error.strerror}") from None
        try:
            if not _lock(file):
                self._refuse(file)
        except NoLocksError as error:
            file.close()
            if warn:
                print(
                    f"warning: {self.path.parent} cannot be locked by the system ({error}): {HELD} is used instead; "
                    f"other machines must wait {STALE:.0f} seconds if this run is killed",
                    file=sys.stderr,
                )
            self._take_file()
            return self
        file.seek(0)
        file.truncate()
        file.write(json.dumps(_myself()) + "\n")
        file.flush()
        self.file = file
        return self

    def _take_file(self) -> None:
        held = _Held(self.path.with_name(HELD))
        try:
            if not held.take():
                with open(held.path, encoding="utf-8", errors="replace") as file:
                    self._refuse(file)
        except OSError as error:
            raise UsageError(f"cannot write into {self.path.parent}: {error.strerror}") from None
        self.held = held

    def _refuse(self, file: IO[str]) -> None:
        holder = _holder(file)
        file.close()
        raise UsageError(
            f"{self.path.parent} is being trained by another process{holder}: wait for it, or choose another folder"
        )

    def release(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None
        if self.held is not None:
            self.held.release()
            self.held = None

    def refuse_if_held(self) -> None:
        """Refuse early, before any work starts; leaves no files in a new run."""
        if self.path.is_file():
            self.take(warn=False).release()

    def check(self) -> None:
        """Refuse to continue if another process took over the lock because this one was stalled for too long."""
        if self.held is not None and not self.held.is_mine():
            raise UsageError(
                f"{self.path.parent} was taken over by another process while this one was stalled: this one stops "
                "writing to it"
            )


def _lock(file: IO[str]) -> bool:
    """Whether the system's lock was acquired; NoLocksError if it has none."""
    try:
        import fcntl
    except ImportError:
        return _lock_windows(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise NoLocksError(error.strerror) from None
        raise
    return True


def _lock_windows(file: IO[str]) -> bool:
    """Windows locks a range of bytes, which others cannot read: use one far behind the holder's name."""
    try:
        import msvcrt
    except ImportError:
        raise NoLocksError("neither fcntl nor msvcrt is available") from None
    file.flush()
    os.lseek(file.fileno(), 1 << 20, os.SEEK_SET)
    try:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EDEADLK, errno.EAGAIN):
            return False
        raise NoLocksError(error.strerror) from None
    return True


def _myself() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}


def _holder(file: IO[str]) -> str:
    """The holder of the lock, in words."""
    try:
        file.seek(0)
        values = json.loads(file.read(4096))
        return f" (process {int(values['pid'])} on {str(values['host'])[:80]!r}, since {str(values['since'])[:19]})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


class _Held:
    """A lock without system locks: a file that only one process can create (O_EXCL, also over a network).

    Its holder touches it every few seconds. It is free if its holder ran on this machine and is gone, or if it was not
    touched for a while, by the file system's clock, which all machines share. Of several processes that find it free,
    one renames it; a holder that was stalled for longer finds another's name in the file and stops writing
    (`RunLock.check`).
    """

    def __init__(self, path: Path):
        self.path = path
        self.mine = json.dumps(_myself() | {"among": process.numbering(), "key": uuid.uuid4().hex}) + "\n"
        self.ended = threading.Event()

    def take(self) -> bool:
        if not self._create():
            found = self._read()
            if not self._abandoned(found):
                return False
            self._set_aside(found)
            if not self._create():
                return False
        threading.Thread(target=self._live, name="run lock", daemon=True).start()
        return True

    def release(self) -> None:
        self.ended.set()
        if self.is_mine():
            self.path.unlink(missing_ok=True)

    def _create(self) -> bool:
        try:
            descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(self.mine)
        return True

    def _read(self) -> str:
        """The holder's text; empty if the file is gone."""
        with suppress(OSError):
            return self.path.read_text(encoding="utf-8", errors="replace")
        return ""

    def _abandoned(self, found: str) -> bool:
        """Whether the holder is dead, as far as this machine can tell."""
        with suppress(ValueError, KeyError, TypeError):  # damaged, or not written yet: decide by age
            note = json.loads(found)
            here = process.numbering()
            if here and note["among"] == here and not process.alive(int(note["pid"])):
                return True
        try:
            return self._now() - self.path.stat().st_mtime > STALE
        except FileNotFoundError:
            return True

    def _now(self) -> float:
        """The time of the file system, whose server may have another clock."""
        probe = self.path.with_name(f"{HELD}-{uuid.uuid4().hex}")
        probe.touch()
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)

    def _set_aside(self, found: str) -> None:
        """Remove the abandoned file; one that another process has created since is put back."""
        aside = self.path.with_name(f"{HELD}-{uuid.uuid4().hex}")
        with suppress(OSError):
            os.rename(self.path, aside)  # of several processes one succeeds
            if aside.read_text(encoding="utf-8", errors="replace") != found:
                os.link(aside, self.path)
        aside.unlink(missing_ok=True)

    def is_mine(self) -> bool:
        return self._read() == self.mine

    def _live(self) -> None:
        while not self.ended.wait(BEAT):
            if self.is_mine():
                with suppress(OSError):
                    os.utime(self.path)
