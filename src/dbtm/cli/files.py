"""Files that a command writes: refused before any work is done for them, and there whole or not at all."""

from pathlib import Path

from dbtm import atomic
from dbtm.errors import UsageError


def check(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written; None, where no file was asked for, is fine."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder: give the name of a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}: make it first")


def write(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    atomic.write_bytes(path, text.encode())
