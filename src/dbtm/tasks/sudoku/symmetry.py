"""The symmetries of Sudoku as augmentation: they keep a puzzle valid and its solution unique.

Relabelled digits, permuted bands and stacks, permuted rows in a band and columns in a stack, and the transpose:
9! * 6^8 * 2 elements for 9 x 9 grids. Each row's element is drawn uniformly from its own key, so an augmented row is a
function of (puzzle, key), independent of its batch.

Shapes: B grids, C cells, N digits (N1: and empty), n lines of a band.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dbtm.tasks.compiled_rng import below, shuffle


@numba.njit(nogil=True)
def _line_order(box, bands_n, within_n, order_N, random_1):
    """A random order of the rows (or columns) that keeps bands (or stacks) together."""
    for i in range(box):
        bands_n[i] = within_n[i] = i
    shuffle(bands_n, random_1)
    for band in range(box):
        shuffle(within_n, random_1)
        for i in range(box):
            order_N[band * box + i] = bands_n[band] * box + within_n[i]


@numba.njit(nogil=True)
def _augment(puzzles_BC, solutions_BC, keys_B, box, new_puzzles_BC, new_solutions_BC):
    digits = box * box
    random_1 = np.empty(1, np.uint64)
    bands_n, within_n = np.arange(box), np.arange(box)
    rows_N, columns_N = np.arange(digits), np.arange(digits)
    new_digit_N1 = np.zeros(digits + 1, np.uint8)
    for row in range(len(keys_B)):
        random_1[0] = keys_B[row]
        for digit in range(1, digits + 1):
            new_digit_N1[digit] = digit
        shuffle(new_digit_N1[1:], random_1)  # entry 0 stays 0: empty is no digit
        _line_order(box, bands_n, within_n, rows_N, random_1)
        _line_order(box, bands_n, within_n, columns_N, random_1)
        row_step, column_step = (1, digits) if below(random_1, 2) else (digits, 1)
        for i in range(digits):
            for j in range(digits):
                old = rows_N[i] * row_step + columns_N[j] * column_step
                new_puzzles_BC[row, i * digits + j] = new_digit_N1[puzzles_BC[row, old]]
                new_solutions_BC[row, i * digits + j] = new_digit_N1[solutions_BC[row, old]]


def augment(
    puzzles_BC: np.ndarray, solutions_BC: np.ndarray, keys_B: np.ndarray
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Every puzzle and its solution under the random symmetry of its uint64 key; new arrays."""
    puzzles_BC = np.ascontiguousarray(puzzles_BC, dtype=np.uint8)
    solutions_BC = np.ascontiguousarray(solutions_BC, dtype=np.uint8)
    new_puzzles_BC, new_solutions_BC = np.empty_like(puzzles_BC), np.empty_like(solutions_BC)
    box = round(puzzles_BC.shape[1] ** 0.25)
    _augment(puzzles_BC, solutions_BC, keys_B.astype(np.uint64), box, new_puzzles_BC, new_solutions_BC)
    return new_puzzles_BC, new_solutions_BC
