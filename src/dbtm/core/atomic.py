"""Atomic file writes: a file is complete or absent, even if the process is killed."""

import os
from pathlib import Path

from dbtm.core.errors import UsageError


def write_bytes(path: Path, data: bytes) -> None:
    """Write under a temporary name, sync, then rename: a reader or a crash never sees half a file.

    A link stays a link, and its target is written. Devices and pipes are written directly.
    """
    open_already = path.is_relative_to("/dev/fd") or str(path) in ("/dev/stdout", "/dev/stderr")
    if path.exists() and (open_already or not path.is_file()):
        return _append(path, data)
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _append(path: Path, data: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's renames, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
