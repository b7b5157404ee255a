"""Puzzles with exactly one solution and a given number of clues, each a function of (seed, index) alone.

A random full grid is dug: its cells are emptied in random order, each only if the solution stays unique, until the
requested number of clues is left. A stuck dig puts some clues back and continues, and after a while starts from a new
grid. Every random choice comes from a stream keyed by (seed, index, clues), so puzzle i does not depend on the other
puzzles or on the number of workers.

`generate` walks the indices from `first` upwards and skips repeated solutions. With 6.7e21 full 9 x 9 grids none
repeats, so there row r is index `first + r`. There are only 288 full 4 x 4 grids, so for box size 2 only repeated
puzzles are skipped.

Shapes: B puzzles, C cells, N digits, U units.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
from numpy.typing import NDArray

from dbtm.core.errors import UsageError
from dbtm.tasks.compiled_rng import below, fold, shuffle
from dbtm.tasks.sudoku.clues import Clues, clue_range
from dbtm.tasks.sudoku.propagation import copy, is_single, tables, workspace
from dbtm.tasks.sudoku.solver import search, write_digits

DIGS_A_GRID = 24
"""Digs of one full grid, each from the result of the last, before a new grid is drawn (measured: best for 22 clues)."""

_CHUNK = 128

Grids = NDArray[np.uint8]


@numba.njit(nogil=True)
def random_grid(grid, work, found_C, solution_C):
    """A full grid: random digits in the boxes on the diagonal, which do not constrain each other, then a search."""
    digits = grid.units_UN.shape[1]
    box = int(np.sqrt(digits))
    bits_N = 1 << np.arange(digits)
    solutions = 0
    while not solutions:  # for box size 2 some diagonals have no completion
        work.stack_DC[0, :] = (1 << digits) - 1
        queued = 0
        for diagonal in range(box):
            shuffle(bits_N, work.random_1)
            for i in range(digits):
                cell = grid.units_UN[2 * digits + diagonal * (box + 1), i]
                work.stack_DC[0, cell] = bits_N[i]
                work.queue_C[queued] = cell
                queued += 1
        solutions = search(work, queued, grid, 1, found_C)
    write_digits(found_C, solution_C)


@numba.njit(nogil=True)
def _is_forced(cell, bit, puzzle_C, used_U, grid):
    """Whether one cell and its units show that it can only be `bit`: a naked or a hidden single."""
    row, column, square = grid.home_C3[cell]
    full = (1 << grid.units_UN.shape[1]) - 1
    if (used_U[row] | used_U[column] | used_U[square]) == full ^ bit:
        return True
    for unit in grid.home_C3[cell]:
        elsewhere = False
        for other in grid.units_UN[unit]:
            if other != cell and puzzle_C[other] == 0:
                row, column, square = grid.home_C3[other]
                if not (used_U[row] | used_U[column] | used_U[square]) & bit:
                    elsewhere = True
                    break
        if not elsewhere:
            return True
    return False


@numba.njit(nogil=True)
def _has_other_solution(cell, bit, puzzle_C, used_U, grid, work, found_C):
    """Whether the puzzle with `cell` empty has a solution with another digit than `bit` there."""
    full = (1 << grid.units_UN.shape[1]) - 1
    queued = 0
    for c in range(len(puzzle_C)):
        if puzzle_C[c]:
            work.stack_DC[0, c] = 1 << (puzzle_C[c] - 1)
            continue
        row, column, square = grid.home_C3[c]
        mask = full & ~(used_U[row] | used_U[column] | used_U[square])
        if c == cell:
            mask &= ~bit
        work.stack_DC[0, c] = mask
        if is_single(mask):
            work.queue_C[queued] = c
            queued += 1
    return search(work, queued, grid, 1, found_C) > 0


@numba.njit(nogil=True)
def _flip(cell, bit, used_U, grid):
    """Add or remove a digit in the used digits of the cell's three units."""
    for unit in grid.home_C3[cell]:
        used_U[unit] ^= bit


@numba.njit(nogil=True)
def dig(puzzle_C, left, clues, order_C, used_U, grid, work, found_C):
    """Empty cells in the given order while the solution stays unique; the number of clues left.

    One pass is enough: a clue that is needed now is also needed with fewer clues.
    """
    for cell in order_C:
        if left == clues:
            break
        digit = puzzle_C[cell]
        if digit == 0:
            continue
        bit = 1 << (digit - 1)
        puzzle_C[cell] = 0
        _flip(cell, bit, used_U, grid)
        if _is_forced(cell, bit, puzzle_C, used_U, grid) or not _has_other_solution(
            cell, bit, puzzle_C, used_U, grid, work, found_C
        ):
            left -= 1
        else:
            puzzle_C[cell] = digit
            _flip(cell, bit, used_U, grid)
    return left


@numba.njit(nogil=True)
def restore(puzzle_C, solution_C, count, order_C, used_U, grid):
    """Put `count` clues back: the first empty cells in the given order."""
    for cell in order_C:
        if count == 0:
            break
        if puzzle_C[cell] == 0:
            puzzle_C[cell] = solution_C[cell]
            _flip(cell, 1 << (solution_C[cell] - 1), used_U, grid)
            count -= 1


@numba.njit(nogil=True)
def _generate_one(key, fewest, most, box, grid, puzzle_C, solution_C):
    """The puzzle of one key, written to `puzzle_C` and `solution_C`."""
    cells = len(puzzle_C)
    work = workspace(cells, key)
    found_C = np.empty(cells, np.int16)
    used_U = np.empty(len(grid.units_UN), np.int64)
    order_C = np.arange(cells)
    clues = fewest + below(work.random_1, most - fewest + 1)
    restored = 2 * box  # measured: fewer leave digs stuck, more repeat work
    while True:
        random_grid(grid, work, found_C, solution_C)
        copy(solution_C, puzzle_C)
        used_U[:] = (1 << (box * box)) - 1
        left = cells
        for _ in range(DIGS_A_GRID):
            shuffle(order_C, work.random_1)
            left = dig(puzzle_C, left, clues, order_C, used_U, grid, work, found_C)
            if left == clues:
                return
            shuffle(order_C, work.random_1)
            restore(puzzle_C, solution_C, restored, order_C, used_U, grid)
            left += restored


@numba.njit(nogil=True)
def _generate_chunk(seed, first, fewest, most, box, grid, puzzles_BC, solutions_BC):
    base = fold(fold(fold(seed, box), fewest), most)
    for row in range(len(puzzles_BC)):
        key = fold(base, first + row)
        _generate_one(key, fewest, most, box, grid, puzzles_BC[row], solutions_BC[row])


def indexed(clues: Clues, n: int, seed: int, first: int = 0, box: int = 3) -> tuple[Grids, Grids]:
    """Puzzles and solutions, (n, C) each, of the indices from `first` on, with repeats, on this thread."""
    fewest, most = clue_range(clues, box)
    if not 0 <= seed < 2**64:
        raise UsageError(f"seed {seed} is out of range: use an integer from 0 to 2^64 - 1")
    puzzles_BC, solutions_BC = np.zeros((2, n, box**4), np.uint8)
    _generate_chunk(np.uint64(seed), first, fewest, most, box, tables(box), puzzles_BC, solutions_BC)
    return puzzles_BC, solutions_BC


def in_chunks(
    make: Callable[[int, int], tuple[Grids, Grids]], first: int, n: int, workers: int, size: int = _CHUNK
) -> Iterator[tuple[Grids, Grids]]:
    """`make(index, count)` for the indices first to first + n in order, in parallel chunks.

    Threads are enough, since compiled code runs without the interpreter's lock. Chunks come back in order, so the
    result does not depend on the number of workers. The first chunk, which compiles for seconds, runs in the calling
    thread, so that Ctrl-C stops it at once.
    """
    starts = range(first, first + n, size)

    def make_from(begin: int) -> tuple[Grids, Grids]:
        return make(begin, min(size, first + n - begin))

    if workers == 1:
        yield from map(make_from, starts)
        return
    yield from map(make_from, starts[:1])
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(make_from, starts[1:])


def generate(
    clues: Clues,
    n: int,
    seed: int,
    first: int = 0,
    box: int = 3,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> tuple[Grids, Grids]:
    """`n` puzzles and their solutions, uint8 (n, C) each, 0 for empty.

    `clues` is an exact count, or a range (fewest, most) from which each puzzle draws its own. Indices are walked from
    `first` on, without repeats (see the module's docstring). `progress` is called with the number of puzzles so far.
    Raises a UsageError for invalid arguments, or if there are no `n` different puzzles.
    """
    puzzles: list[Grids] = []
    solutions: list[Grids] = []
    seen: set[bytes] = set()
    walked = n
    while len(puzzles) < n:
        before = len(puzzles)
        make = lambda begin, count: indexed(clues, count, seed, begin, box)  # noqa: E731
        for puzzles_BC, solutions_BC in in_chunks(make, first, walked, workers):
            for puzzle_C, solution_C in zip(puzzles_BC, solutions_BC):
                key = (puzzle_C if box == 2 else solution_C).tobytes()
                if key not in seen and len(puzzles) < n:
                    seen.add(key)
                    puzzles.append(puzzle_C)
                    solutions.append(solution_C)
            if progress is not None:
                progress(len(puzzles))
        first += walked
        if len(puzzles) < n and len(puzzles) - before < walked // 50:
            raise UsageError(f"found only {len(puzzles)} different puzzles with these clues: use fewer than {n}")
        walked = max(n - len(puzzles), 1024)  # if there are repeats, they are frequent
    return np.array(puzzles).reshape(n, box**4), np.array(solutions).reshape(n, box**4)
