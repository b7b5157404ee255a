"""Files that a command writes: refused before any work is done for them, and there whole or not at all."""

import os
from pathlib import Path

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
    """Write under a temporary name, then rename: a reader never sees half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
