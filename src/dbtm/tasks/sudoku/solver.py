"""A compiled Sudoku solver that counts solutions: fast enough to prove millions of puzzles unique.

A cell's candidates are a bitmask (bit d - 1 for digit d). Naked and hidden singles are propagated until nothing moves;
then the cell with the fewest candidates is tried, depth first. For a single puzzle typed by a user,
`puzzle.check` is the better choice: it needs no compilation.

Shapes: B grids, C cells, N digits, U units (rows, columns and boxes), P peers of a cell, D depth of the search.
"""

from functools import lru_cache
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from dbtm.tasks.sudoku.layout import cell_coordinates
from dbtm.tasks.sudoku.rng import below


class Tables(NamedTuple):
    """What touches what in a grid of one box size."""

    units_UN: NDArray[np.int16]
    """The cells of every unit."""
    home_C3: NDArray[np.int16]
    """The row, column and box of every cell, as indices into `units_UN`."""
    peers_CP: NDArray[np.int16]
    """The other cells that share a unit with a cell."""


class Workspace(NamedTuple):
    """Memory of one search, allocated once and used for many."""

    stack_DC: NDArray[np.int16]
    """Candidates at every depth; depth 0 is where a caller puts the start."""
    branch_D: NDArray[np.int16]
    """The cell that was tried at every depth."""
    queue_C: NDArray[np.int16]
    """Cells whose digit is known and has still to be taken from their peers."""
    random_1: NDArray[np.uint64]
    """State of the stream that picks which candidate is tried first."""


@lru_cache
def tables(box: int) -> Tables:
    """The tables of a box size."""
    home_C3 = cell_coordinates(box) + box * box * np.arange(3)
    units_UN = np.stack([np.flatnonzero((home_C3 == unit).any(axis=1)) for unit in range(3 * box * box)])
    shares_CC = (home_C3[:, None, :] == home_C3[None, :, :]).any(axis=2)
    np.fill_diagonal(shares_CC, False)
    peers_CP = np.stack([np.flatnonzero(shares_C) for shares_C in shares_CC])
    return Tables(units_UN.astype(np.int16), home_C3.astype(np.int16), peers_CP.astype(np.int16))


@numba.njit(nogil=True)
def workspace(cells, key):
    """Fresh memory for searches over grids of so many cells."""
    return Workspace(
        np.empty((cells + 1, cells), np.int16),
        np.empty(cells + 1, np.int16),
        np.empty(cells, np.int16),
        np.full(1, key, np.uint64),
    )


@numba.njit(nogil=True)
def copy(source, target):
    """`target[:] = source`, without the shape check, whose error message alone takes numba seconds to compile."""
    for i in range(len(target)):
        target[i] = source[i]


@numba.njit(nogil=True)
def is_single(mask):
    """Whether a mask that is not 0 has one bit."""
    return mask & (mask - 1) == 0


@numba.njit(nogil=True)
def _hidden_singles(candidates_C, queue_C, queued, units_UN):
    """Fix every cell that alone in its unit can take some digit; the new queue length, or -1 on a contradiction."""
    full = (1 << units_UN.shape[1]) - 1
    for unit in range(units_UN.shape[0]):
        once, twice, fixed = 0, 0, 0
        for cell in units_UN[unit]:
            mask = candidates_C[cell]
            twice |= once & mask
            once |= mask
            if is_single(mask):
                fixed |= mask
        if once != full:
            return -1
        hidden = once & ~twice & ~fixed
        if hidden == 0:
            continue
        for cell in units_UN[unit]:
            only = candidates_C[cell] & hidden
            if only:
                if not is_single(only):
                    return -1
                candidates_C[cell] = only
                queue_C[queued] = cell
                queued += 1
    return queued


@numba.njit(nogil=True)
def propagate(candidates_C, queue_C, queued, grid):
    """Naked and hidden singles, in place, until nothing moves; False on a contradiction.

    The queue's first `queued` cells have just become single. A cell is queued once, so the queue never overflows.
    """
    head = 0
    while True:
        while head < queued:
            cell = queue_C[head]
            head += 1
            bit = candidates_C[cell]
            for peer in grid.peers_CP[cell]:
                mask = candidates_C[peer]
                if mask & bit:
                    mask ^= bit
                    if mask == 0:
                        return False
                    candidates_C[peer] = mask
                    if is_single(mask):
                        queue_C[queued] = peer
                        queued += 1
        queued = _hidden_singles(candidates_C, queue_C, queued, grid.units_UN)
        if queued < 0:
            return False
        if head == queued:
            return True


@numba.njit(nogil=True)
def _bits(mask):
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@numba.njit(nogil=True)
def _fewest_candidates(candidates_C):
    """The first cell with the fewest candidates among the open ones, or -1 where every cell is fixed."""
    best, fewest = -1, 1 << 14
    for cell in range(len(candidates_C)):
        mask = candidates_C[cell]
        if not is_single(mask):
            count = _bits(mask)
            if count < fewest:
                best, fewest = cell, count
                if count == 2:
                    break
    return best


@numba.njit(nogil=True)
def _random_bit(mask, random_1):
    for _ in range(below(random_1, _bits(mask))):
        mask &= mask - 1
    return mask & -mask


@numba.njit(nogil=True)
def search(work, queued, grid, limit, found_C):
    """Count the solutions of `work.stack_DC[0]`, up to `limit`; the last one found is left in `found_C` as masks.

    The first `queued` cells of the queue are singles that have not been propagated yet. Whoever runs out of options at
    one depth returns to the depth above, where the tried candidate has already been taken out.
    """
    count, depth = 0, 0
    while True:
        if propagate(work.stack_DC[depth], work.queue_C, queued, grid):
            cell = _fewest_candidates(work.stack_DC[depth])
            if cell >= 0:
                bit = _random_bit(work.stack_DC[depth, cell], work.random_1)
                copy(work.stack_DC[depth], work.stack_DC[depth + 1])
                work.stack_DC[depth, cell] ^= bit
                work.branch_D[depth] = cell
                depth += 1
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
    """A solution of every puzzle, (B, C), and how many it has counted up to `limit`, (B,); no solution leaves zeros."""
    puzzles_BC = np.ascontiguousarray(puzzles_BC, dtype=np.uint8)
    solutions_BC = np.zeros_like(puzzles_BC)
    counts_B = np.zeros(len(puzzles_BC), dtype=np.int64)
    _solve_many(puzzles_BC, tables(round(puzzles_BC.shape[1] ** 0.25)), limit, solutions_BC, counts_B)
    return solutions_BC, counts_B


def count_solutions(grid_C: np.ndarray, limit: int = 2) -> int:
    """Solutions of one grid (0 for empty), counted up to `limit`."""
    return int(solve_many(np.asarray(grid_C)[None], limit)[1][0])


def solve(grid_C: np.ndarray) -> NDArray[np.uint8] | None:
    """A solution of one grid, or None where it has none."""
    solutions_1C, counts_1 = solve_many(np.asarray(grid_C)[None], limit=1)
    return solutions_1C[0] if counts_1[0] else None
