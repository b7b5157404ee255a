"""Every reader with the inputs that it is given. `dbtm` reads nothing from elsewhere that is not here."""

import random
import tempfile
from pathlib import Path

from tests.fuzz import corpus, of_commands, of_files, of_folders  # noqa: F401 - they name their targets
from tests.fuzz.registry import TARGETS

__all__ = ["TARGETS", "warm_up"]


def warm_up() -> None:
    """Import and compile what readers need, before processes are forked and their time is counted."""
    from dbtm.tasks.sudoku.csvfile import read  # compiles

    for each in TARGETS.values():
        each.make(random.Random(0))
    of_commands.warm_up()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "a.csv")
        path.write_bytes(corpus.puzzles())
        read(path)
