"""Puzzles as a CSV file: a header `puzzle,solution`, then one puzzle per line as digits in reading order, 0 for empty.

Reading is strict: a file with a bad row is refused, and the error names its line. The solution column may be missing:
the puzzles are then solved, and each must have exactly one solution.
"""

import csv
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dbtm.core import atomic
from dbtm.core.errors import UsageError
from dbtm.core.reading import at_once
from dbtm.tasks.sudoku.propagation import tables
from dbtm.tasks.sudoku.puzzle import clash, violation
from dbtm.tasks.sudoku.solver import solve_many

Grids = NDArray[np.uint8]


def write(path: str | Path, puzzles_BC: np.ndarray, solutions_BC: np.ndarray) -> None:
    """Write puzzles and solutions atomically."""
    rows = (f"{_text(p_C)},{_text(s_C)}\n" for p_C, s_C in zip(puzzles_BC, solutions_BC))
    atomic.write_bytes(Path(path), "".join(["puzzle,solution\n", *rows]).encode("ascii"))


def _text(grid_C: np.ndarray) -> str:
    return (grid_C + ord("0")).astype(np.uint8).tobytes().decode("ascii")


def read(path: str | Path) -> tuple[Grids, Grids]:
    """Puzzles and solutions, uint8 (B, C) each; a UsageError names the file and the first bad line."""
    path = Path(path)
    lines, puzzles_BC, solutions_BC = _read_grids(path)
    if solutions_BC is None:
        return puzzles_BC, _solve(path, lines, puzzles_BC)
    _check_solutions(path, lines, puzzles_BC, solutions_BC)
    return puzzles_BC, solutions_BC


def _read_grids(path: Path) -> tuple[list[int], Grids, Grids | None]:
    """Line numbers, puzzles and, if the file has them, solutions."""
    lines: list[int] = []
    grids: list[list[Grids]] = []
    for line, row in _rows(path):
        cells = len(grids[0][0]) if grids else None
        names = ("puzzle", "solution")[: len(row)]
        grids.append([_grid(text, f"{path}, line {line}", name, cells) for name, text in zip(names, row)])
        lines.append(line)
    if not grids:
        raise UsageError(f"{path} has no puzzles: write a header 'puzzle,solution' and one puzzle per line")
    puzzles_BC, *solutions = (np.stack(column) for column in zip(*grids))
    return lines, puzzles_BC, solutions[0] if solutions else None


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and columns of each row below the header, without empty lines."""
    try:
        with open(path, encoding="utf-8-sig", newline="", opener=at_once) as file:
            reader = csv.reader(file)
            columns = [name.strip().lower() for name in next(reader, [])]
            if columns not in (["puzzle", "solution"], ["puzzle"]):
                raise UsageError(f"{path}: line 1 must be the header 'puzzle,solution' (or 'puzzle' alone)")
            for row in filter(None, reader):
                if len(row) != len(columns):
                    where = f"{path}, line {reader.line_num}: found {len(row)} columns"
                    raise UsageError(f"{where}, expected {len(columns)} ({','.join(columns)})")
                yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _grid(text: str, where: str, name: str, cells: int | None) -> Grids:
    """One column's digits, where . counts as 0; all grids of a file have the same number of cells."""
    text = text.strip().replace(".", "0")
    if len(text) not in (16, 81) or len(text) != (cells or len(text)):
        raise UsageError(f"{where}: the {name} has {len(text)} characters, expected {cells or '81 (or 16 for 4 x 4)'}")
    digits = "01234" if len(text) == 16 else "0123456789"
    strange = text.translate({ord(digit): None for digit in digits})
    if strange:
        place = f"{strange[0]!r} at character {text.index(strange[0]) + 1} of the {name}"
        raise UsageError(f"{where}: {place}: use 1 to {digits[-1]}, and 0 for an empty cell")
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8) - ord("0")


def _check_solutions(path: Path, lines: list[int], puzzles_BC: Grids, solutions_BC: Grids) -> None:
    """Refuse solutions that break a rule or change a clue, and puzzles with several solutions."""
    digits = math.isqrt(puzzles_BC.shape[1])
    units_BUN = solutions_BC[:, tables(math.isqrt(digits)).units_UN]
    right_B = (np.sort(units_BUN, axis=2) == np.arange(1, digits + 1)).all(axis=(1, 2))
    right_B &= ((puzzles_BC == 0) | (puzzles_BC == solutions_BC)).all(axis=1)
    for row in np.flatnonzero(~right_B):
        broken = violation(solutions_BC[row], puzzles_BC[row])
        raise UsageError(f"{path}, line {lines[row]}: the solution is wrong: {broken}")
    _solve(path, lines, puzzles_BC)


def _solve(path: Path, lines: list[int], puzzles_BC: Grids) -> Grids:
    """The solution of each puzzle; one with none, or several, is refused."""
    solutions_BC, counts_B = solve_many(puzzles_BC)
    for row in np.flatnonzero(counts_B != 1):
        reason = "several solutions: look for a missing clue"
        if counts_B[row] == 0:
            reason = f"no solution: {clash(puzzles_BC[row]) or 'look for a mistyped clue'}"
        raise UsageError(f"{path}, line {lines[row]}: the puzzle has {reason}")
    return solutions_BC
