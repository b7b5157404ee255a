"""Both solvers, the compiled one and the plain one, against known answers and the slow oracle."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbtm.tasks.sudoku.backtrack import solutions
from dbtm.tasks.sudoku.generate import indexed
from dbtm.tasks.sudoku.puzzle import clash
from dbtm.tasks.sudoku.solver import count_solutions, solve, solve_many

from .oracle import KNOWN, UNSOLVABLE, count, grid, is_solved


def plain_count(puzzle, limit):
    return len(list(islice(solutions(puzzle.tolist()), limit)))


COUNTERS = pytest.mark.parametrize("counter", [count_solutions, plain_count], ids=["compiled", "plain"])


@pytest.mark.parametrize(("puzzle", "solution"), KNOWN)
def test_known_puzzles(puzzle, solution):
    assert count_solutions(grid(puzzle)) == 1
    assert np.array_equal(solve(grid(puzzle)), grid(solution))
    assert list(solutions(grid(puzzle).tolist())) == [grid(solution).tolist()]


def test_no_solution():
    assert solve(grid(UNSOLVABLE)) is None
    assert list(solutions(grid(UNSOLVABLE).tolist())) == []


@COUNTERS
def test_there_are_288_full_grids_of_box_size_2(counter):
    assert counter(np.zeros(16, np.uint8), 1000) == 288


@COUNTERS
@pytest.mark.parametrize("text", ["11" + "0" * 79, "1" + "0" * 9 + "1" + "0" * 70, "1" + "0" * 26 + "1" + "0" * 53])
def test_clashing_clues_have_no_solution(counter, text):
    assert counter(grid(text), 2) == 0


@COUNTERS
@pytest.mark.parametrize("limit", [1, 2, 7])
def test_counting_stops_at_the_limit(counter, limit):
    assert counter(np.zeros(81, np.uint8), limit) == limit


@COUNTERS
@given(clues=st.dictionaries(st.integers(0, 15), st.integers(1, 4), max_size=8))
@settings(deadline=None, max_examples=150)
def test_counts_of_small_grids_equal_the_oracle(counter, clues):
    puzzle = np.zeros(16, np.uint8)
    for cell, digit in clues.items():
        puzzle[cell] = digit
    assert counter(puzzle, 300) == (0 if clash(puzzle) else count(puzzle, 300))


@COUNTERS
def test_counts_of_large_grids_equal_the_oracle(counter):
    """Unique puzzles with two clues taken out have anything from one solution to many."""
    puzzles_BC, _ = indexed(33, 15, seed=5)
    rng = np.random.default_rng(0)
    counts = []
    for puzzle_C in puzzles_BC:
        puzzle_C[rng.choice(np.flatnonzero(puzzle_C), 2, replace=False)] = 0
        counts.append(count(puzzle_C, 20))
        assert counter(puzzle_C, 20) == counts[-1]
    assert len(set(counts)) > 2, "the cases are too alike to tell anything"


def test_many_at_once():
    puzzles = np.stack([grid(KNOWN[0][0]), grid(UNSOLVABLE), np.zeros(81, np.uint8)])
    solutions_BC, counts_B = solve_many(puzzles)
    assert counts_B.tolist() == [1, 0, 2]
    assert np.array_equal(solutions_BC[0], grid(KNOWN[0][1]))
    assert not solutions_BC[1].any()
    assert is_solved(solutions_BC[2])
