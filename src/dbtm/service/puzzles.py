"""Built-in Sudokus, and new ones with any number of clues."""

from dataclasses import dataclass

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.tasks.sudoku.clues import CLUE_LIMITS
from dbtm.tasks.sudoku.puzzle import check, parse

FEWEST = {3: 22, 2: 4}
"""Fewest clues of new puzzles by box size: a puzzle with fewer takes seconds to generate."""
MOST = {3: 60, 2: 12}
MOST_GUESSES = 100
"""Most guesses of new hard puzzles: those with more take longer than a second to find."""


@dataclass(frozen=True)
class Puzzle:
    """A puzzle with a name; digits in reading order, 0 for empty."""

    name: str
    digits: str


BUILT_IN = (
    Puzzle("hard, 22 clues", "850002400720000009004000000000107002305000900040000000000080070017000000000036040"),
    Puzzle("classic, 30 clues", "530070000600195000098000060800060003400803001700020006060000280000419005000080079"),
    Puzzle("17 clues", "000000010400000000020000000000050407008000300001090000300400200050100000000806000"),
    Puzzle("4 x 4, 4 clues", "1000003004000002"),
)


def read_puzzle(text: str) -> np.ndarray:
    """The cells of a puzzle with exactly one solution."""
    puzzle_C = parse(text)
    check(puzzle_C)
    return puzzle_C


def new_puzzle(clues: int, seed: int, box: int = 3) -> str:
    """The digits of a puzzle with exactly one solution: the same for the same clues, seed and size."""
    if box not in CLUE_LIMITS:
        raise UsageError(f"there are no grids with boxes of {box}: 3 makes 9 x 9, 2 makes 4 x 4")
    if not FEWEST[box] <= clues <= MOST[box]:
        raise UsageError(f"{clues} clues: the number must be from {FEWEST[box]} to {MOST[box]}")
    _check_seed(seed)
    from dbtm.tasks.sudoku.generate import indexed  # imported here because it compiles

    puzzles_BC, _ = indexed(clues, 1, seed, box=box)
    return "".join(map(str, puzzles_BC[0]))


def new_hard_puzzle(guesses: int, seed: int) -> str:
    """The digits of a minimal 9 x 9 puzzle with exactly one solution. A search with naked and hidden singles needs at
    least this many guesses for it. The same guesses and seed give the same puzzle.
    """
    if not 1 <= guesses <= MOST_GUESSES:
        raise UsageError(f"{guesses} guesses: the number must be from 1 to {MOST_GUESSES}")
    _check_seed(seed)
    from dbtm.tasks.sudoku.hard import generate_hard  # compiles, too

    puzzles_BC, _ = generate_hard((guesses, guesses), 1, seed, logic=False)
    return "".join(map(str, puzzles_BC[0]))


def _check_seed(seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed {seed}: give a whole number from 0 to 2^63 - 1")
