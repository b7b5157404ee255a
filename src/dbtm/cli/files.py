"""Files that a command writes: refused before any work is done for them, and there whole or not at all."""

from collections.abc import Iterable
from pathlib import Path

from dbtm.core import atomic
from dbtm.core.errors import UsageError


def check(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written; None, where no file was asked for, is fine."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder: give the name of a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}: make it first")
    if path.is_file() and (path.resolve().parent / "manifest.json").is_file():
        raise UsageError(f"{option} {path} belongs to a checkpoint or to prepared data: choose another name")


def check_all(wanted: Iterable[tuple[str, Path | None]], reads: Iterable[tuple[str, Path | None]] = ()) -> None:
    """Refuse files, (option, path) each, of which one cannot be written, or two are the same, or one is read by the
    command itself: something would be lost.
    """
    taken = {path.resolve(): option for option, path in reads if path is not None}
    for option, path in wanted:
        check(option, path)
        if path is not None and (other := taken.setdefault(path.resolve(), option)) != option:
            raise UsageError(f"{other} and {option} name the same file {path}: give two")


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    atomic.write_bytes(path, text.encode())
