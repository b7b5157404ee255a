"""A compiled Sudoku solver that counts solutions: fast enough to prove millions of puzzles unique.

Naked and hidden singles are propagated until nothing changes, optionally with the rules of `logic`; then the cell with
the fewest candidates is tried, depth first. For a single puzzle of a user use `puzzle.check`, which needs no
compilation.

Shapes: B grids, C cells.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dbtm.tasks.compiled_rng import below
from dbtm.tasks.sudoku.logic import bit_count, eliminate
from dbtm.tasks.sudoku.propagation import copy, is_single, propagate, tables, workspace


@numba.njit(nogil=True)
def _fewest_candidates(candidates_C):
    """The first open cell with the fewest candidates, or -1 if every cell is fixed."""
    best, fewest = -1, 1 << 14
    for cell in range(len(candidates_C)):
        mask = candidates_C[cell]
        if not is_single(mask):
            count = bit_count(mask)
            if count < fewest:
                best, fewest = cell, count
                if count == 2:
                    break
    return best


@numba.njit(nogil=True)
def _random_bit(mask, random_1):
    for _ in range(below(random_1, bit_count(mask))):
        mask &= mask - 1
    return mask & -mask


@numba.njit(nogil=True)
def narrow(candidates_C, queue_C, queued, grid, logic):
    """Singles and, if `logic` is true, the rules of `logic`, until nothing changes; False on a contradiction."""
    while propagate(candidates_C, queue_C, queued, grid):
        if not logic:
            return True
        queued = eliminate(candidates_C, queue_C, grid)
        if queued <= 0:
            return queued == 0
    return False


@numba.njit(nogil=True)
def search(work, queued, grid, limit, found_C, logic=False):
    """Count the solutions of `work.stack_DC[0]`, up to `limit`; the last one found is left in `found_C` as masks.

    The first `queued` cells of the queue are singles that have not been propagated yet. Without options left
    at one depth, the search returns to the depth above, where the tried candidate is already removed.
    """
    count, depth = 0, 0
    while True:
        if narrow(work.stack_DC[depth], work.queue_C, queued, grid, logic):
            cell = _fewest_candidates(work.stack_DC[depth])
            if cell >= 0:
                bit = _random_bit(work.stack_DC[depth, cell], work.random_1)
                copy(work.stack_DC[depth], work.stack_DC[depth + 1])
                work.stack_DC[depth, cell] ^= bit
                work.branch_D[depth] = cell
                depth += 1
                work.guesses_1[0] += 1
                work.stack_DC[depth, cell] = bit
                work.queue_C[0] = cell
                queued = 1
                continue
            copy(work.stack_DC[depth], found_C)
            count += 1
            if count == limit:
                return count
        if depth == 0:
            return count
        depth -= 1
        cell = work.branch_D[depth]
        work.queue_C[0] = cell
        queued = 1 if is_single(work.stack_DC[depth, cell]) else 0


@numba.njit(nogil=True)
def start(digits_C, work):
    """Write a grid (0 for empty) to depth 0 of the stack; the number of clues, which are queued."""
    full = (1 << int(np.sqrt(len(digits_C)))) - 1
    queued = 0
    for cell in range(len(digits_C)):
        work.stack_DC[0, cell] = full
        if digits_C[cell]:
            work.stack_DC[0, cell] = 1 << (digits_C[cell] - 1)
            work.queue_C[queued] = cell
            queued += 1
    return queued


@numba.njit(nogil=True)
def write_digits(masks_C, digits_C):
    """Single-bit masks as digits."""
    for cell in range(len(masks_C)):
        digit, mask = 0, masks_C[cell]
        while mask:
            mask >>= 1
            digit += 1
        digits_C[cell] = digit


@numba.njit(nogil=True)
def _solve_many(puzzles_BC, grid, limit, solutions_BC, counts_B):
    cells = puzzles_BC.shape[1]
    work = workspace(cells, np.uint64(0))
    found_C = np.empty(cells, np.int16)
    for row in range(len(puzzles_BC)):
        counts_B[row] = search(work, start(puzzles_BC[row], work), grid, limit, found_C)
        if counts_B[row]:
            write_digits(found_C, solutions_BC[row])


def solve_many(puzzles_BC: np.ndarray, limit: int = 2) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A solution of each puzzle, (B, C), zeros if there is none, and the number of solutions up to `limit`, (B,)."""
    puzzles_BC = np.ascontiguousarray(puzzles_BC, dtype=np.uint8)
    solutions_BC = np.zeros_like(puzzles_BC)
    counts_B = np.zeros(len(puzzles_BC), dtype=np.int64)
    _solve_many(puzzles_BC, tables(round(puzzles_BC.shape[1] ** 0.25)), limit, solutions_BC, counts_B)
    return solutions_BC, counts_B


def count_solutions(grid_C: np.ndarray, limit: int = 2) -> int:
    """Solutions of one grid (0 for empty), counted up to `limit`."""
    return int(solve_many(np.asarray(grid_C)[None], limit)[1][0])


def solve(grid_C: np.ndarray) -> NDArray[np.uint8] | None:
    """A solution of one grid, or None if it has none."""
    solutions_1C, counts_1 = solve_many(np.asarray(grid_C)[None], limit=1)
    return solutions_1C[0] if counts_1[0] else None
