"""Finds folders of one kind below given folders."""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

DEPTH = 3  # levels below the given folder


def find_folders(places: Iterable[Path], is_one: Callable[[Path], bool], most: int) -> dict[str, Path]:
    """{name: folder} of the folders of a kind at or under some places, up to a limit.

    Links to folders are not followed: only folders inside the given places are listed.
    """
    named: dict[str, Path] = {}
    below = ((place, folder) for place in places for folder in _under(place, is_one, DEPTH))
    for place, folder in islice(below, most):
        inside = folder.relative_to(place).as_posix()
        name = folder.resolve().name if inside == "." else inside
        while name in named and named[name] != folder:
            name += "'"
        named[name] = folder
    return named


def _under(folder: Path, is_one: Callable[[Path], bool], depth: int) -> Iterator[Path]:
    if is_one(folder):
        yield folder
        return
    if depth:
        try:
            inside = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
        except OSError:
            return
        for path in inside:
            if not Path(path).name.startswith("."):
                yield from _under(Path(path), is_one, depth - 1)
