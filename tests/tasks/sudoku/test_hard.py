"""Logic never loses a solution, efforts are what a plain search counts, and hard puzzles are as hard as asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbtm.core.errors import UsageError
from dbtm.tasks.sudoku.effort import efforts
from dbtm.tasks.sudoku.generate import generate, indexed
from dbtm.tasks.sudoku.hard import generate_hard
from dbtm.tasks.sudoku.logic import eliminate
from dbtm.tasks.sudoku.propagation import propagate, tables, workspace
from dbtm.tasks.sudoku.puzzle import clash
from dbtm.tasks.sudoku.solver import count_solutions, search, start

from .oracle import KNOWN, UNSOLVABLE, count, grid, is_solved


def count_with_logic(puzzle_C, limit):
    work = workspace(len(puzzle_C), np.uint64(1))
    found_C = np.empty(len(puzzle_C), np.int16)
    return search(work, start(puzzle_C, work), tables(round(len(puzzle_C) ** 0.25)), limit, found_C, True)


@given(clues=st.dictionaries(st.integers(0, 15), st.integers(1, 4), max_size=8))
@settings(deadline=None, max_examples=150)
def test_logic_changes_no_count_of_small_grids(clues):
    puzzle = np.zeros(16, np.uint8)
    for cell, digit in clues.items():
        puzzle[cell] = digit
    assert count_with_logic(puzzle, 1000) == (0 if clash(puzzle) else count(puzzle, 1000))


def test_logic_changes_no_count_of_large_grids():
    """Also where fewer clues leave several solutions."""
    rng = np.random.default_rng(0)
    for puzzle_C in indexed(24, 24, 0)[0]:
        assert count_with_logic(puzzle_C, 2) == 1
        fewer_C = puzzle_C.copy()
        fewer_C[rng.choice(np.flatnonzero(puzzle_C), 3, replace=False)] = 0
        assert count_with_logic(fewer_C, 40) == count_solutions(fewer_C, 40)
    assert count_with_logic(grid(UNSOLVABLE), 2) == 0


def candidates_after(puzzle_C, rounds=50):
    work, table = workspace(81, np.uint64(0)), tables(3)
    queued = start(puzzle_C, work)
    for _ in range(rounds):
        assert propagate(work.stack_DC[0], work.queue_C, queued, table)
        queued = eliminate(work.stack_DC[0], work.queue_C, table)
        if queued == 0:
            break
    return work.stack_DC[0]


def test_no_rule_removes_the_digit_of_the_solution():
    puzzles_BC, solutions_BC = indexed((22, 30), 60, 5)
    for puzzle_C, solution_C in zip(puzzles_BC, solutions_BC):
        assert (candidates_after(puzzle_C) >> (solution_C.astype(np.int64) - 1) & 1).all()


def open_grid(masks):
    """All candidates everywhere but in the cells of `masks`, after one application of the rules."""
    candidates_C = np.full(81, 511, np.int16)
    for cell, digits in masks.items():
        candidates_C[cell] = sum(1 << digit - 1 for digit in digits)
    eliminate(candidates_C, np.empty(81, np.int16), tables(3))
    return [{d for d in range(1, 10) if mask >> d - 1 & 1} for mask in candidates_C]


ALL = set(range(1, 10))


def test_a_naked_pair_keeps_its_digits_from_its_unit():
    after = open_grid({0: {1, 2}, 8: {1, 2}})
    assert all(after[cell] == ALL - {1, 2} for cell in range(1, 8))
    assert after[9] == ALL, "another row"


def test_a_naked_triple_need_not_hold_all_three_in_every_cell():
    after = open_grid({0: {1, 2}, 4: {2, 3}, 8: {1, 3}})
    assert after[5] == ALL - {1, 2, 3}
    assert after[0] == {1, 2}


def test_a_hidden_pair_leaves_no_other_digit_in_its_cells():
    rest = ALL - {7, 8}
    after = open_grid({cell: rest for cell in range(9) if cell not in (0, 5)})
    assert after[0] == after[5] == {7, 8}


def test_locked_candidates_point_and_claim():
    """A digit that a box has in one row alone leaves the row elsewhere; one that a row has in one box, the box."""
    box_but_first_row = (9, 10, 11, 18, 19, 20)
    after = open_grid({cell: ALL - {4} for cell in box_but_first_row})
    assert all(after[cell] == ALL - {4} for cell in range(3, 9))
    after = open_grid({cell: ALL - {4} for cell in range(3, 9)})
    assert all(after[cell] == ALL - {4} for cell in box_but_first_row)


def test_efforts_of_known_puzzles():
    """The first is solved by singles; a puzzle that a person calls hardest needs guesses even with logic."""
    easy, _ = KNOWN[0]
    hardest = "800000000003600000070090200050007000000045700000100030001000068008500010090000400"
    for logic in (False, True):
        easy_effort, hard_effort = efforts(np.stack([grid(easy), grid(hardest)]), logic)
        assert easy_effort == 0
        assert hard_effort > 20
    assert efforts(generate(22, 50, seed=2)[0], True).mean() < efforts(generate(22, 50, seed=2)[0]).mean()


def test_hard_puzzles_are_minimal_and_as_hard_as_asked_for():
    puzzles_BC, solutions_BC = generate_hard((4, 8), 6, seed=3)
    for puzzle_C, solution_C in zip(puzzles_BC, solutions_BC):
        assert is_solved(solution_C)
        assert (solution_C[puzzle_C > 0] == puzzle_C[puzzle_C > 0]).all()
        assert count_solutions(puzzle_C) == 1
        for cell in np.flatnonzero(puzzle_C):
            fewer_C = puzzle_C.copy()
            fewer_C[cell] = 0
            assert count_solutions(fewer_C) == 2, "a clue could go"
    assert (efforts(puzzles_BC, logic=True, searches=64) >= 2).all(), "a climb measures two searches of a random order"
    assert efforts(puzzles_BC, logic=True).mean() > 4 * efforts(generate(24, 50, 1)[0], logic=True).mean()


def test_a_hard_puzzle_depends_on_seed_and_index_alone():
    whole = generate_hard((2, 6), 12, seed=7)
    assert np.array_equal(whole, generate_hard((2, 6), 12, seed=7, workers=2)), "workers"
    assert np.array_equal(np.array(whole)[:, :3], generate_hard((2, 6), 3, seed=7)), "how many are asked for"
    assert not np.array_equal(whole, generate_hard((2, 6), 12, seed=8))


@pytest.mark.parametrize("effort", [(0, 4), (8, 4), (1, 10**6)])
def test_efforts_that_cannot_be_made(effort):
    with pytest.raises(UsageError, match="cannot be made: use 1 to 1000"):
        generate_hard(effort, 1, 0)
