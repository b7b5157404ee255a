"""Difficulty of a puzzle: the guesses that a solver needs to find its solution and to prove that it is unique.

With singles only, the guesses grow with all that a person finds difficult; with the rules of `logic` they count only
what those rules do not solve. The first candidate to try is random: efforts are means over a few searches, from a
stream that depends only on the puzzle's index.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dbtm.tasks.sudoku.propagation import tables, workspace
from dbtm.tasks.sudoku.solver import search, start

SEARCHES = 4


@numba.njit(nogil=True)
def mean_guesses(puzzle_C, searches, logic, grid, work, found_C):
    """Guesses per search for up to two solutions of a puzzle."""
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
    """The effort of each puzzle, (B,): 0 if the solver never has to guess."""
    puzzles_BC = np.ascontiguousarray(puzzles_BC, dtype=np.uint8)
    efforts_B = np.zeros(len(puzzles_BC))
    _efforts(puzzles_BC, searches, logic, tables(round(puzzles_BC.shape[1] ** 0.25)), efforts_B)
    return efforts_B
