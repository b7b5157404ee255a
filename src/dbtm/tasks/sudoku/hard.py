"""Hard puzzles: minimal ones, improved until a solver needs a given number of guesses.

A full grid is dug until no clue can be removed. Then the puzzle climbs: a few clues are put back at random and it is
dug again in another order; the new puzzle is kept if it takes at least as many guesses. Each puzzle draws its target
from a range, so that a pool has all efforts. A stuck climb starts again from a new grid. As in `generate`, a puzzle is
a function of (seed, index) alone.

Shapes: B puzzles, C cells.
"""

import math
from collections.abc import Callable

import numba
import numpy as np

from dbtm.tasks.compiled_rng import below, fold, shuffle
from dbtm.tasks.sudoku.clues import check_effort
from dbtm.tasks.sudoku.effort import mean_guesses
from dbtm.tasks.sudoku.generate import Grids, dig, in_chunks, random_grid, restore
from dbtm.tasks.sudoku.propagation import copy, tables, workspace

RESTORED = 4  # clues put back per step of a climb (measured: fewer get stuck, more lose the progress)
PATIENCE = 150  # steps without a gain before a climb starts from a new grid (measured)
SEARCHES = 2  # per measured effort: the noise lets a climb accept slightly worse puzzles, which helps


@numba.njit(nogil=True)
def _climb(target, logic, grid, work, used_U, order_C, found_C, solution_C, best_C):
    """A minimal puzzle of at least this effort, in `best_C`; False if the climb gets stuck below it."""
    cells = len(best_C)
    random_grid(grid, work, found_C, solution_C)
    copy(solution_C, best_C)
    used_U[:] = (1 << grid.units_UN.shape[1]) - 1
    shuffle(order_C, work.random_1)
    left = dig(best_C, cells, 0, order_C, used_U, grid, work, found_C)
    effort = mean_guesses(best_C, SEARCHES, logic, grid, work, found_C)
    puzzle_C, before_U, waited = best_C.copy(), used_U.copy(), 0
    while effort < target and waited < PATIENCE:
        copy(best_C, puzzle_C)
        copy(used_U, before_U)
        shuffle(order_C, work.random_1)
        restore(puzzle_C, solution_C, RESTORED, order_C, used_U, grid)
        shuffle(order_C, work.random_1)
        after = dig(puzzle_C, left + RESTORED, 0, order_C, used_U, grid, work, found_C)
        now = mean_guesses(puzzle_C, SEARCHES, logic, grid, work, found_C)
        waited = 0 if now > effort else waited + 1
        if now >= effort:
            copy(puzzle_C, best_C)
            effort, left = now, after
        else:
            copy(before_U, used_U)
    return effort >= target


@numba.njit(nogil=True)
def _climb_chunk(seed, first, low, high, logic, grid, puzzles_BC, solutions_BC):
    base = fold(fold(fold(seed, low), high), np.int64(logic))
    cells = puzzles_BC.shape[1]
    used_U, order_C = np.empty(len(grid.units_UN), np.int64), np.arange(cells)
    found_C = np.empty(cells, np.int16)
    for row in range(len(puzzles_BC)):
        work = workspace(cells, fold(base, first + row))
        share = below(work.random_1, 1 << 20) / (1 << 20)
        target = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        while not _climb(target, logic, grid, work, used_U, order_C, found_C, solutions_BC[row], puzzles_BC[row]):
            continue
        order_C[:] = np.arange(cells)  # a puzzle must not depend on the one before


def generate_hard(
    effort: tuple[int, int],
    n: int,
    seed: int,
    logic: bool = True,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> tuple[Grids, Grids]:
    """`n` minimal 9 x 9 puzzles and their solutions, uint8 (n, 81) each, 0 for empty.

    Each takes the solver (with the rules of `logic`, or with singles only) at least a number of guesses drawn
    log-uniformly from `effort`.
    """
    check_effort(effort, 3)

    def make(first: int, count: int) -> tuple[Grids, Grids]:
        puzzles_BC, solutions_BC = np.zeros((2, count, 81), np.uint8)
        _climb_chunk(np.uint64(seed), first, *effort, logic, tables(3), puzzles_BC, solutions_BC)
        return puzzles_BC, solutions_BC

    made: list[tuple[Grids, Grids]] = []
    for chunk in in_chunks(make, 0, n, workers, size=8):
        made.append(chunk)
        if progress is not None:
            progress(sum(len(puzzles_BC) for puzzles_BC, _ in made))
    puzzles, solutions = zip(*made, strict=True)
    return np.concatenate(puzzles), np.concatenate(solutions)
