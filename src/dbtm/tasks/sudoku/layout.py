"""The token layout of a Sudoku: `[BOS] puzzle [BOS] solution`, each grid row by row with separators between.

For box size n the grid has N = n * n digits and C = N * N cells. For n = 3 this is the paper's layout: V = 12 tokens
(0 empty, 1-9 digits, 10 row separator, 11 BOS), 89 tokens per grid, L = 180, prompt 91. The whole solution half is
generated, so a model also has to copy the clues and place the separators.

Shapes: B rows, L tokens, C cells of one grid.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

PUZZLE, SOLUTION, BOS, SEPARATOR = range(4)
"""The segment ids in the last column of `Layout.position_ids`."""


def cell_coordinates(box: int) -> NDArray[np.int64]:
    """Row, column and box id of every cell in reading order, (C, 3)."""
    digits = box * box
    row_C, column_C = np.divmod(np.arange(digits * digits), digits)
    return np.stack([row_C, column_C, row_C // box * box + column_C // box], axis=1)


@dataclass(frozen=True)
class Layout:
    """The token layout of one box size; box = 3 is the ordinary 9 x 9 grid."""

    box: int = 3

    @property
    def digits(self) -> int:
        """N: digits, rows, columns and boxes."""
        return self.box * self.box

    @property
    def cells(self) -> int:
        """C: cells of one grid."""
        return self.digits * self.digits

    @property
    def separator(self) -> int:
        """Token id of the row separator."""
        return self.digits + 1

    @property
    def bos(self) -> int:
        """Token id of BOS."""
        return self.digits + 2

    @property
    def vocab(self) -> int:
        """V: empty, the digits, separator, BOS."""
        return self.digits + 3

    @property
    def grid_length(self) -> int:
        """Tokens of one written grid: its cells and the separators between its rows."""
        return self.cells + self.digits - 1

    @property
    def length(self) -> int:
        """L: tokens of a whole sequence."""
        return 2 * (1 + self.grid_length)

    @property
    def prompt_length(self) -> int:
        """Tokens that are given: everything up to and with the second BOS."""
        return self.length - self.grid_length

    @cached_property
    def puzzle_positions(self) -> NDArray[np.int64]:
        """Position of every puzzle cell in the sequence, (C,)."""
        cell_C = np.arange(self.cells)
        return 1 + cell_C + cell_C // self.digits

    @cached_property
    def solution_positions(self) -> NDArray[np.int64]:
        """Position of every solution cell in the sequence, (C,)."""
        return self.puzzle_positions + self.length // 2

    @cached_property
    def _blank(self) -> NDArray[np.int64]:
        """The sequence with every cell empty, (L,)."""
        blank_L = np.full(self.length, self.separator, dtype=np.int64)
        blank_L[[0, self.length // 2]] = self.bos
        blank_L[self.puzzle_positions] = blank_L[self.solution_positions] = 0
        return blank_L

    def encode(self, puzzles_BC: np.ndarray, solutions_BC: np.ndarray | None = None) -> NDArray[np.int64]:
        """Tokens (B, L); without solutions the cells of the second half are left empty."""
        tokens_BL = np.tile(self._blank, (len(puzzles_BC), 1))
        tokens_BL[:, self.puzzle_positions] = puzzles_BC
        if solutions_BC is not None:
            tokens_BL[:, self.solution_positions] = solutions_BC
        return tokens_BL

    def decode(self, tokens_BL: np.ndarray) -> NDArray[np.uint8]:
        """Cells of the solution half, (B, C); any token but a digit reads as empty. Separators are ignored."""
        cells_BC = np.asarray(tokens_BL)[:, self.solution_positions]
        return np.where(cells_BC <= self.digits, cells_BC, 0).astype(np.uint8)

    def prompt_mask(self) -> NDArray[np.bool_]:
        """True where the token is given, (L,)."""
        return np.arange(self.length) < self.prompt_length

    def position_ids(self) -> NDArray[np.int64]:
        """Row, column, box and segment id of every position, (L, 4).

        Rows, columns and boxes count from 0; N stands for "not a cell" (BOS and separators). Segments are
        `PUZZLE`, `SOLUTION`, `BOS`, `SEPARATOR`.
        """
        ids_L4 = np.full((self.length, 4), self.digits, dtype=np.int64)
        ids_L4[:, 3] = np.where(self._blank == self.bos, BOS, SEPARATOR)
        for segment, positions_C in ((PUZZLE, self.puzzle_positions), (SOLUTION, self.solution_positions)):
            ids_L4[positions_C, :3] = cell_coordinates(self.box)
            ids_L4[positions_C, 3] = segment
        return ids_L4
