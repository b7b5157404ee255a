"""How hard a puzzle is: the guesses that a solver needs to find its solution and to prove that there is no other.

With singles alone the guesses grow with everything that a person would call difficult; with the rules of `logic` only
what those rules do not see is left. Which candidate is tried first is drawn at random: efforts are means over a few
searches, from a stream that depends on the puzzle's place alone.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dbtm.tasks.sudoku.propagation import tables, workspace
from dbtm.tasks.sudoku.solver import search, start

SEARCHES = 4


@numba.njit(nogil=True)
def mean_guesses(puzzle_C, searches, logic, grid, work, found_C):
    """Guesses per search for both solutions that a puzzle might have."""
    before = work.guesses_1[0]
    for _ in range(searches):
        search(work, start(puzzle_C, work), grid, 2, found_C, logic)
    return (work.guesses_1[0] - before) / searches


@numba.njit(nogil=True)
def _efforts(puzzles_BC, searches, logic, grid, efforts_B):
    cells = puzzles_BC.shape[1]
    found_C = np.empty(cells, np.int16)
    for row in range(len(puzzles_BC)):
        work = workspace(cells, np.uint64(row))
        efforts_B[row] = mean_guesses(puzzles_BC[row], searches, logic, grid, work, found_C)


def efforts(puzzles_BC: np.ndarray, logic: bool = False, searches: int = SEARCHES) -> NDArray[np.float64]:
    """The effort of every puzzle, (B,): 0 where the solver never has to guess."""
    puzzles_BC = np.ascontiguousarray(puzzles_BC, dtype=np.uint8)
    efforts_B = np.zeros(len(puzzles_BC))
    _efforts(puzzles_BC, searches, logic, tables(round(puzzles_BC.shape[1] ** 0.25)), efforts_B)
    return efforts_B
