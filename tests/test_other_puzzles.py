"""The makers of benchmarks/other_puzzles.py make puzzles, and so do those it took from elsewhere."""

from random import Random

import numpy as np
import pytest

from dbtm.tasks.sudoku.puzzle import parse
from dbtm.tasks.sudoku.solver import count_solutions
from tests.scripts import load_script

others = load_script("other_puzzles")


@pytest.mark.parametrize("make", others.MAKERS, ids=lambda make: make.__name__)
def test_a_made_puzzle_has_one_solution_and_depends_on_its_seed_alone(make):
    first, again, other = (make(Random(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert count_solutions(first) == 1
    assert 17 <= np.count_nonzero(first) < 60


def test_clues_are_where_the_maker_says():
    symmetric = others.symmetric(Random(3)) > 0
    assert np.array_equal(symmetric, symmetric[::-1])
    minimal = others.minimal(Random(3))
    for cell in np.flatnonzero(minimal):
        without = minimal.copy()
        without[cell] = 0
        assert count_solutions(without) > 1


@pytest.mark.parametrize("name", others.PUBLISHED)
def test_published_ones_have_one_solution(name):
    assert count_solutions(parse(others.PUBLISHED[name])) == 1
