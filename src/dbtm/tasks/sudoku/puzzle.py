"""One puzzle from a user: read it, check it, and judge an answer. Pure Python, nothing to compile.

Every error is a `UsageError` of one line that says how to correct it.
"""

from functools import lru_cache
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from dbtm.core.errors import UsageError
from dbtm.tasks.sudoku.backtrack import solutions
from dbtm.tasks.sudoku.layout import cell_coordinates

Grid = NDArray[np.uint8]

_CELLS, _BETWEEN, _FRAME = "0123456789.", " \t\r|", " \t\r|-+"
_BOX_OF_CELLS = {16: 2, 81: 3}
_HOW_TO_WRITE = "write 81 characters (16 for 4 x 4), a digit for a clue and 0 or . for an empty cell"


def parse(text: str) -> Grid:
    """The cells of a puzzle, (81,) or (16,), 0 for empty.

    Cells may stand in one line or one line per row; spaces and `|` between them are ignored, and so are lines of only
    `-`, `+` and `|`.
    """
    text, lines = text.removeprefix("\ufeff"), []
    if text.lower().startswith("puzzle"):
        raise UsageError("this is a CSV of puzzles: use `dbtm eval sudoku`; `dbtm solve` takes one puzzle")
    for number, line in enumerate(text.splitlines(), start=1):
        allowed = _BETWEEN if any(character in _CELLS for character in line) else _FRAME
        for column, character in enumerate(line, start=1):
            if character not in _CELLS + allowed:
                where = f"line {number}, character {column}"
                raise UsageError(f"{where}: {character!r} does not belong in a puzzle: {_HOW_TO_WRITE}")
        cells = line.translate({ord(stroke): None for stroke in _FRAME})
        if cells:
            lines.append((number, cells))
    values = [int(cell.replace(".", "0")) for _, cells in lines for cell in cells]
    if len(values) not in _BOX_OF_CELLS:
        raise UsageError(_wrong_length(lines))
    size = _BOX_OF_CELLS[len(values)] ** 2
    if max(values) > size:
        raise UsageError(
            f"{max(values)} is not a digit of a {size} x {size} grid: use 1 to {size}, and 0 or . for empty"
        )
    return np.array(values, dtype=np.uint8)


def _wrong_length(lines: list[tuple[int, str]]) -> str:
    """Why the lines are not a grid; names the rows of wrong length if they are few."""
    for size in (9, 4):
        odd = [(number, len(cells)) for number, cells in lines if len(cells) != size]
        if len(lines) == size and len(odd) < size:
            number, length = odd[0]
            return f"line {number} has {length} cells, not {size}: {_HOW_TO_WRITE}"
    count = sum(len(cells) for _, cells in lines)
    return f"the puzzle has {count} cells, not 81 or 16: {_HOW_TO_WRITE}"


@lru_cache
def _units(box: int) -> list[tuple[str, list[int]]]:
    """Every row, column and box with its name and its cells."""
    coordinates_C3 = cell_coordinates(box)
    return [
        (f"{kind} {index + 1}", np.flatnonzero(coordinates_C3[:, axis] == index).tolist())
        for axis, kind in enumerate(("row", "column", "box"))
        for index in range(box * box)
    ]


def cell_name(cell: int, box: int) -> str:
    """`row 3 column 7`, counted from 1."""
    row, column = divmod(cell, box * box)
    return f"row {row + 1} column {column + 1}"


def clash(grid_C: np.ndarray) -> str | None:
    """The first rule that the filled cells break, such as `row 3 has two 5s, at columns 2 and 7`; None for none."""
    box = _BOX_OF_CELLS[len(grid_C)]
    for name, cells in _units(box):
        for first, second in combinations(cells, 2):
            if grid_C[first] == grid_C[second] != 0:
                return f"{name} has two {grid_C[first]}s, at {_places(name, first, second, box)}"
    return None


def _places(unit: str, first: int, second: int, box: int) -> str:
    """The places of two cells of a named unit, in as few words as possible."""
    (row_1, column_1), (row_2, column_2) = divmod(first, box * box), divmod(second, box * box)
    if unit.startswith("row"):
        return f"columns {column_1 + 1} and {column_2 + 1}"
    if unit.startswith("column"):
        return f"rows {row_1 + 1} and {row_2 + 1}"
    return f"{cell_name(first, box)} and {cell_name(second, box)}"


def violation(solution_C: np.ndarray, puzzle_C: np.ndarray) -> str | None:
    """The first thing that is wrong with an answer: a cell left empty, a clue changed, a rule broken; None if right."""
    box = _BOX_OF_CELLS[len(puzzle_C)]
    for cell, (value, clue) in enumerate(zip(solution_C, puzzle_C)):
        if not 1 <= value <= box * box:
            return f"{cell_name(cell, box)} is empty"
        if clue and value != clue:
            return f"{cell_name(cell, box)} is {value}, but the clue there is {clue}"
    return clash(solution_C)


def check(puzzle_C: np.ndarray) -> Grid:
    """The one solution of a puzzle; a UsageError if clues clash or there is no solution or more than one."""
    box = _BOX_OF_CELLS[len(puzzle_C)]
    broken = clash(puzzle_C)
    if broken:
        raise UsageError(f"the clues clash: {broken}; change one of them, or empty it with 0 or .")
    first_two = list(islice(solutions(puzzle_C.tolist()), 2))
    if not first_two:
        raise UsageError("the puzzle has no solution: look for a mistyped clue")
    if len(first_two) == 2:
        one, other = first_two
        cell = next(cell for cell in range(len(one)) if one[cell] != other[cell])
        choice = f"{cell_name(cell, box)} can be {one[cell]} or {other[cell]}"
        raise UsageError(f"the puzzle has several solutions ({choice}): look for a missing clue")
    return np.array(first_two[0], dtype=np.uint8)
