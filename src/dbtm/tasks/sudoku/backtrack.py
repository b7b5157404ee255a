"""A solver in plain Python for one puzzle: it takes milliseconds, while compiling `solver` takes seconds.

Candidates are bitmasks (bit d - 1 for digit d). After naked and hidden singles it branches on a digit with only two
places in some unit, or else on the cell with the fewest candidates: taking the branch with fewer options solves
even hard puzzles without a solution in a fraction of a second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dbtm.tasks.sudoku.layout import cell_coordinates

Masks = list[int]
Options = list[tuple[int, int]]
"""Pairs (cell, bit), one of which is true."""


@dataclass(frozen=True)
class _Tables:
    full: int
    """The mask of all digits."""
    units: list[list[int]]
    """The cells of every row, column and box."""
    peers: list[list[int]]
    """The other cells that share a unit with a cell."""


@lru_cache
def _tables(box: int) -> _Tables:
    coordinates_C3 = cell_coordinates(box)
    units = [np.flatnonzero(axis_C == index).tolist() for axis_C in coordinates_C3.T for index in range(box * box)]
    shares_CC = (coordinates_C3[:, None, :] == coordinates_C3[None, :, :]).any(axis=2)
    peers = [
        [other for other in np.flatnonzero(row_C).tolist() if other != cell] for cell, row_C in enumerate(shares_CC)
    ]
    return _Tables((1 << box * box) - 1, units, peers)


def _is_single(mask: int) -> bool:
    return mask & (mask - 1) == 0


def _naked_singles(masks: Masks, queue: list[int], tables: _Tables) -> bool:
    """Remove the digits of queued cells, and of cells that become single, from their peers; False on contradiction."""
    while queue:
        cell = queue.pop()
        for peer in tables.peers[cell]:
            if masks[peer] & masks[cell]:
                masks[peer] ^= masks[cell]
                if masks[peer] == 0:
                    return False
                if _is_single(masks[peer]):
                    queue.append(peer)
    return True


def _count_places(masks: Masks, unit: list[int]) -> tuple[int, int, int]:
    """The digits with at least one place in a unit, those with exactly one open place, and those with two."""
    once = twice = thrice = fixed = 0
    for cell in unit:
        mask = masks[cell]
        thrice |= twice & mask
        twice |= once & mask
        once |= mask
        if _is_single(mask):
            fixed |= mask
    return once, once & ~twice & ~fixed, twice & ~thrice


def _reduce(masks: Masks, queue: list[int], tables: _Tables) -> Options | None:
    """Propagate in place; the options to branch on: none if the grid is full, None on a contradiction."""
    while True:
        if not _naked_singles(masks, queue, tables):
            return None
        pair: Options = []
        for unit in tables.units:
            once, hidden, two = _count_places(masks, unit)
            if once != tables.full:
                return None
            for cell in unit if hidden else ():
                if masks[cell] & hidden:
                    masks[cell] &= hidden
                    if not _is_single(masks[cell]):
                        return None
                    queue.append(cell)
            if queue:
                break
            if two and not pair:
                bit = two & -two
                pair = [(cell, bit) for cell in unit if masks[cell] & bit]
        if not queue:
            return pair or _cell_options(masks)


def _cell_options(masks: Masks) -> Options:
    """The candidates of the open cell with the fewest; none if no cell is open."""
    open_cells = [cell for cell, mask in enumerate(masks) if not _is_single(mask)]
    if not open_cells:
        return []
    cell = min(open_cells, key=lambda cell: masks[cell].bit_count())
    return [(cell, 1 << shift) for shift in range(masks[cell].bit_length()) if masks[cell] >> shift & 1]


def _search(masks: Masks, queue: list[int], tables: _Tables) -> Iterator[Masks]:
    options = _reduce(masks, queue, tables)
    if options is None:
        return
    if not options:
        yield masks
    for cell, bit in options:
        branch = masks.copy()
        branch[cell] = bit
        yield from _search(branch, [cell], tables)


def solutions(puzzle: Sequence[int]) -> Iterator[list[int]]:
    """Iterate over the solutions of a grid (0 for empty), found lazily."""
    box = round(len(puzzle) ** 0.25)
    tables = _tables(box)
    masks = [1 << digit - 1 if digit else tables.full for digit in puzzle]
    clues = [cell for cell, digit in enumerate(puzzle) if digit]
    for solution in _search(masks, clues, tables):
        yield [mask.bit_length() for mask in solution]
