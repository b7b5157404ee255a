"""Rules beyond singles that people use: locked candidates, and subsets of two or three cells or digits.

A locked candidate: if a digit's places in a box all lie in one line, it is removed from the rest of the line, and vice
versa. A naked subset: if two (three) cells of a unit have only two (three) digits together, these are removed from its
other cells. A hidden subset is the same with cells and digits exchanged. None of them guesses.
"""

import numba
import numpy as np


@numba.njit(nogil=True)
def bit_count(mask):
    """The number of bits that are set."""
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@numba.njit(nogil=True)
def eliminate(candidates_C, queue_C, grid):
    """Apply the cheapest rule that removes something, in place: the number of cells that become single and are queued;
    0 if no rule applies, -1 on a contradiction.

    Removals that leave cells open allow further ones: the rules are repeated until one makes a single or none removes
    anything.
    """
    while True:
        before_C = candidates_C.copy()
        if not _locked(candidates_C, grid):
            _subsets(candidates_C, grid)
        queued, changed = 0, False
        for cell in range(len(candidates_C)):
            mask = candidates_C[cell]
            if mask != before_C[cell]:
                changed = True
                if mask == 0:
                    return -1
                if mask & (mask - 1) == 0:
                    queue_C[queued] = cell
                    queued += 1
        if queued or not changed:
            return queued


@numba.njit(nogil=True)
def _locked(candidates_C, grid):
    """Locked candidates of every box and line that meet; whether anything was removed."""
    digits = grid.units_UN.shape[1]
    removed = False
    for box in range(2 * digits, 3 * digits):
        for axis in range(2):
            for line in range(axis * digits, (axis + 1) * digits):
                shared, in_box, in_line = 0, 0, 0
                for cell in grid.units_UN[box]:
                    if grid.home_C3[cell, axis] == line:
                        shared |= candidates_C[cell]
                    else:
                        in_box |= candidates_C[cell]
                if shared == 0:  # they do not meet
                    continue
                for cell in grid.units_UN[line]:
                    if grid.home_C3[cell, 2] != box:
                        in_line |= candidates_C[cell]
                pointing, claiming = shared & ~in_box & in_line, shared & ~in_line & in_box
                for cell in grid.units_UN[line] if pointing else grid.units_UN[line][:0]:
                    if grid.home_C3[cell, 2] != box and candidates_C[cell] & pointing:
                        candidates_C[cell] &= ~pointing
                        removed = True
                for cell in grid.units_UN[box] if claiming else grid.units_UN[box][:0]:
                    if grid.home_C3[cell, axis] != line and candidates_C[cell] & claiming:
                        candidates_C[cell] &= ~claiming
                        removed = True
    return removed


@numba.njit(nogil=True)
def _subsets(candidates_C, grid):
    """Naked and hidden subsets of every unit."""
    units, digits = grid.units_UN.shape
    cells_N, places_N = np.empty(digits, np.int64), np.empty(digits, np.int64)
    for unit in range(units):
        for i in range(digits):
            cells_N[i] = candidates_C[grid.units_UN[unit, i]]
        if _narrow_subsets(cells_N):
            for i in range(digits):
                candidates_C[grid.units_UN[unit, i]] = cells_N[i]
        _transpose(cells_N, places_N)
        if _narrow_subsets(places_N):
            _transpose(places_N, cells_N)
            for i in range(digits):
                candidates_C[grid.units_UN[unit, i]] = cells_N[i]


@numba.njit(nogil=True)
def _transpose(rows_N, columns_N):
    """A square matrix of bits, one mask a row, by its columns."""
    for column in range(len(columns_N)):
        mask = 0
        for row in range(len(rows_N)):
            mask |= (rows_N[row] >> column & 1) << row
        columns_N[column] = mask


@numba.njit(nogil=True)
def _narrow_subsets(masks_N):
    """If two or three masks have only as many bits together, remove these from all others; whether that changed
    anything.
    """
    n, removed = len(masks_N), False
    for a in range(n):
        if not 2 <= bit_count(masks_N[a]) <= 3:
            continue
        for b in range(a + 1, n):
            pair = masks_N[a] | masks_N[b]
            if bit_count(masks_N[b]) < 2 or bit_count(pair) > 3:
                continue
            if bit_count(pair) == 2:
                removed |= _keep_from_others(masks_N, pair, a, b, b)
                continue
            for c in range(b + 1, n):
                if bit_count(masks_N[c]) >= 2 and masks_N[c] | pair == pair:
                    removed |= _keep_from_others(masks_N, pair, a, b, c)
    return removed


@numba.njit(nogil=True)
def _keep_from_others(masks_N, bits, a, b, c):
    """Remove bits from all masks but three; whether that changed anything."""
    removed = False
    for i in range(len(masks_N)):
        if i not in (a, b, c) and masks_N[i] & bits:
            masks_N[i] &= ~bits
            removed = True
    return removed
