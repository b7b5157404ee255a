"""Puzzles for those who have none: each has exactly one solution."""

import pytest

from dbtm.core.errors import UsageError
from dbtm.service.puzzles import BUILT_IN, new_puzzle, read_puzzle


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
