"""What the tests compare with: known puzzles, and a slow solver that shares no code or idea with the package's."""

import numpy as np

WIKIPEDIA = (
    "530070000600195000098000060800060003400803001700020006060000280000419005000080079",
    "534678912672195348198342567859761423426853791713924856961537284287419635345286179",
)
HARD = (
    "800000000003600000070090200050007000000045700000100030001000068008500010090000400",
    "812753649943682175675491283154237896369845721287169534521974368438526917796318452",
)
SEVENTEEN_CLUES = (
    "000000010400000000020000000000050407008000300001090000300400200050100000000806000",
    "693784512487512936125963874932651487568247391741398625319475268856129743274836159",
)
KNOWN = [WIKIPEDIA, HARD, SEVENTEEN_CLUES]
# The first puzzle with one more clue that clashes with none, but is not what stands in the solution.
UNSOLVABLE = "531" + WIKIPEDIA[0][3:]
# No solution either, and the reason lies deep: a naive search takes minutes to find out.
IMPOSSIBLE = "000005080000601043000000000010500000000106000300000005530000061000000004000000000"


def grid(text: str) -> np.ndarray:
    """Digits as an array."""
    return np.array([int(character) for character in text], dtype=np.uint8)


def options(cells: list[int], cell: int) -> set[int]:
    """The digits that no cell in the same row, column or box holds."""
    size = round(len(cells) ** 0.5)
    box = round(size**0.5)
    row, column = divmod(cell, size)
    taken = set()
    for other, digit in enumerate(cells):
        r, c = divmod(other, size)
        if r == row or c == column or (r // box, c // box) == (row // box, column // box):
            taken.add(digit)
    return set(range(1, size + 1)) - taken


def count(puzzle, limit: int) -> int:
    """Solutions of a puzzle whose clues do not clash, counted up to `limit`."""
    cells = [int(digit) for digit in puzzle]
    empty = {cell: options(cells, cell) for cell, digit in enumerate(cells) if digit == 0}
    if not empty:
        return 1
    cell = min(empty, key=lambda cell: len(empty[cell]))
    total = 0
    for digit in empty[cell]:
        cells[cell] = digit
        total += count(cells, limit - total)
        if total >= limit:
            break
    return total


def is_solved(cells) -> bool:
    """Whether every cell is the only option there once it is taken out."""
    cells = [int(digit) for digit in cells]
    return all(options([*cells[:i], 0, *cells[i + 1 :]], i) == {digit} for i, digit in enumerate(cells))
