"""Files that are there whole or not at all, whenever the process is killed."""

import os
from pathlib import Path

from dbtm.core.errors import UsageError


def write_bytes(path: Path, data: bytes) -> None:
    """Write under a temporary name, sync, then rename: neither a reader nor a crash ever sees half a file.

    A link stays a link to the file that is written. A device or a pipe takes what it is given.
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
    """What was written to a file, or renamed in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
