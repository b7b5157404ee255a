"""Limits on the number of clues and on the effort of puzzles.

A separate module, so that reading a configuration does not import numba.
"""

from dbtm.core.errors import UsageError

CLUE_LIMITS = {2: (4, 16), 3: (20, 81)}
"""Fewest and most clues for each box size. 4 x 4 puzzles need 4; below 20, digging a 9 x 9 grid takes too long."""

MOST_EFFORT = 1000
"""Most guesses; beyond this a climb takes minutes."""

Clues = int | tuple[int, int]


def clue_range(clues: Clues, box: int) -> tuple[int, int]:
    """The fewest and most clues in `clues`; a UsageError if no puzzle of this box size has that many."""
    if box not in CLUE_LIMITS:
        raise UsageError(f"box size {box} is not supported: use 3 (9 x 9 grids) or 2 (4 x 4 grids)")
    fewest, most = (clues, clues) if isinstance(clues, int) else clues
    lowest, highest = CLUE_LIMITS[box]
    if not lowest <= fewest <= most <= highest:
        asked = f"{fewest}" if fewest == most else f"{fewest}-{most}"
        how = f"use {lowest} to {highest}" + (", fewest first" if fewest > most else "")
        raise UsageError(f"cannot make puzzles with {asked} clues at box size {box}: {how}")
    return fewest, most


def check_effort(effort: tuple[int, int], box: int) -> None:
    """Refuse a range of efforts out of reach."""
    low, high = effort
    if box != 3:
        raise UsageError(f"there are no hard puzzles of box size {box}: use 9 x 9 grids (box size 3)")
    if not 1 <= low <= high <= MOST_EFFORT:
        raise UsageError(f"efforts of {low}-{high} guesses cannot be made: use 1 to {MOST_EFFORT}, fewest first")
