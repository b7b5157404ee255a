"""Files that a command writes: checked before work starts, and written atomically."""

from collections.abc import Iterable
from pathlib import Path

from dbtm.core import atomic
from dbtm.core.errors import UsageError


def check(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written; None (no file) is fine."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder: give the name of a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}: make it first")
    if path.is_file() and (path.resolve().parent / "manifest.json").is_file():
        raise UsageError(f"{option} {path} belongs to a checkpoint or to prepared data: choose another name")


def check_all(wanted: Iterable[tuple[str, Path | None]], reads: Iterable[tuple[str, Path | None]] = ()) -> None:
    """Refuse files, each (option, path), if one cannot be written, is the same as another, or is an input of the
    command.
    """
    taken = {path.resolve(): option for option, path in reads if path is not None}
    for option, path in wanted:
        check(option, path)
        if path is not None and (other := taken.setdefault(path.resolve(), option)) != option:
            raise UsageError(f"{other} and {option} name the same file {path}: give two different ones")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    atomic.write_bytes(path, text.encode())
