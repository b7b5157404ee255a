"""Every reader with the inputs that it is given. `dbtm` reads nothing from elsewhere that is not here."""

import gc
import random
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz import (  # noqa: F401 - they name their targets
    corpus,
    of_commands,
    of_files,
    of_folders,
    of_results,
    of_studio,
)
from tests.fuzz.registry import TARGETS

__all__ = ["TARGETS", "warm_up"]


def warm_up(names: Iterable[str] = TARGETS) -> None:
    """Import and compile what readers need, before processes are forked and their time is counted."""
    from dbtm.tasks.sudoku.csvfile import read  # compiles

    for name in names:
        TARGETS[name].make(random.Random(0))
    if any(name.startswith("dbtm ") for name in names):
        of_commands.warm_up()
    if "studio" in names:
        of_studio.warm_up()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "a.csv")
        path.write_bytes(corpus.puzzles())
        read(path)
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy everything that was made before
