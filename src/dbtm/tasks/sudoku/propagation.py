"""The units and peers of a grid, and propagation of candidates by naked and hidden singles.

A cell's candidates are a bitmask (bit d - 1 for digit d).

Shapes: C cells, N digits, U units (rows, columns and boxes), P peers of a cell, D depth of a search.
"""

from functools import lru_cache
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from dbtm.tasks.sudoku.layout import cell_coordinates


class Tables(NamedTuple):
    """The units and peers of a grid of one box size."""

    units_UN: NDArray[np.int16]
    """The cells of every unit."""
    home_C3: NDArray[np.int16]
    """The row, column and box of every cell, as indices into `units_UN`."""
    peers_CP: NDArray[np.int16]
    """The other cells that share a unit with a cell."""


class Workspace(NamedTuple):
    """Memory of a search, allocated once and reused."""

    stack_DC: NDArray[np.int16]
    """Candidates per depth; the caller writes the start to depth 0."""
    branch_D: NDArray[np.int16]
    """The cell tried at each depth."""
    queue_C: NDArray[np.int16]
    """Cells whose known digit must still be removed from their peers."""
    random_1: NDArray[np.uint64]
    """State of the stream that picks which candidate is tried first."""
    guesses_1: NDArray[np.int64]
    """Candidates that all searches have tried so far."""


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
    """New memory for searches over grids of this many cells."""
    return Workspace(
        np.empty((cells + 1, cells), np.int16),
        np.empty(cells + 1, np.int16),
        np.empty(cells, np.int16),
        np.full(1, key, np.uint64),
        np.zeros(1, np.int64),
    )


@numba.njit(nogil=True)
def copy(source, target):
    """`target[:] = source`, without the shape check, whose error message alone takes numba seconds to compile."""
    for i in range(len(target)):
        target[i] = source[i]


@numba.njit(nogil=True)
def is_single(mask):
    """Whether a nonzero mask has exactly one bit."""
    return mask & (mask - 1) == 0


@numba.njit(nogil=True)
def _hidden_singles(candidates_C, queue_C, queued, units_UN):
    """Fix each cell that is a digit's only place in a unit; the new queue length, or -1 on a contradiction."""
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
    """Naked and hidden singles, in place, until nothing changes; False on a contradiction.

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
