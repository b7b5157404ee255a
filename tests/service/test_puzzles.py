"""Puzzles for those who have none: each has exactly one solution."""

import pytest

from dbtm.core.errors import UsageError
from dbtm.service.puzzles import BUILT_IN, new_hard_puzzle, new_puzzle, read_puzzle


@pytest.mark.parametrize("puzzle", BUILT_IN, ids=lambda puzzle: puzzle.name)
def test_built_in_ones_have_one_solution_and_the_clues_that_they_say(puzzle):
    cells = read_puzzle(puzzle.digits)
    assert f"{(cells > 0).sum()} clues" in puzzle.name


@pytest.mark.parametrize(("clues", "box"), [(4, 2), (12, 2), (22, 3), (60, 3)])
def test_new_ones_have_one_solution_and_the_clues_asked_for(clues, box):
    cells = read_puzzle(new_puzzle(clues, 7, box))
    assert ((cells > 0).sum(), len(cells)) == (clues, box**4)


@pytest.mark.parametrize(("clues", "seed", "box"), [(21, 0, 3), (61, 0, 3), (3, 0, 2), (30, -1, 3), (30, 0, 4)])
def test_others_are_refused(clues, seed, box):
    with pytest.raises(UsageError):
        new_puzzle(clues, seed, box)


def filled_by_singles(cells: list[int]) -> list[int]:
    """A 9 x 9 grid after naked and hidden singles, as a person would pencil them in; 0 where a guess is needed."""
    units = [[9 * i + j for j in range(9)] for i in range(9)] + [[9 * j + i for j in range(9)] for i in range(9)]
    units += [[27 * a + 3 * b + 9 * i + j for i in range(3) for j in range(3)] for a in range(3) for b in range(3)]
    while True:
        open_to = {
            cell: set(range(1, 10)) - {cells[other] for unit in units if cell in unit for other in unit}
            for cell in range(81)
            if not cells[cell]
        }
        found = {cell: digits.pop() for cell, digits in open_to.items() if len(digits) == 1}
        for unit in units if not found else ():
            for digit in range(1, 10):
                places = [cell for cell in unit if digit in open_to.get(cell, ())]
                if len(places) == 1:
                    found[places[0]] = digit
        if not found:
            return cells
        cells = [found.get(cell, digit) for cell, digit in enumerate(cells)]


@pytest.mark.parametrize("guesses", [1, 30])
def test_hard_ones_cannot_be_filled_by_singles(guesses):
    cells = read_puzzle(new_hard_puzzle(guesses, 3)).tolist()
    assert 0 in filled_by_singles(cells)
    assert 0 not in filled_by_singles(read_puzzle(new_puzzle(45, 3)).tolist()), "the oracle can fill an easy one"
    assert new_hard_puzzle(guesses, 3) == new_hard_puzzle(guesses, 3)
    for cell in filter(lambda cell: cells[cell], range(0, 81, 5)):
        with pytest.raises(UsageError, match="several solutions"):
            read_puzzle("".join(map(str, [*cells[:cell], 0, *cells[cell + 1 :]])))


@pytest.mark.parametrize(("guesses", "seed"), [(0, 0), (101, 0), (5, -1)])
def test_other_hard_ones_are_refused(guesses, seed):
    with pytest.raises(UsageError):
        new_hard_puzzle(guesses, seed)
