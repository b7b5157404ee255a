"""Files that are there whole or not at all, whenever the process is killed."""

import os
from pathlib import Path

from dbtm.errors import UsageError


def write_bytes(path: Path, data: bytes) -> None:
    """Write under a temporary name, sync, then rename: neither a reader nor a crash ever sees half a file."""
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


def sync(path: Path) -> None:
    """What was written to a file, or renamed in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
