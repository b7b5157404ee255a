"""What a user may type, and what is said when it is wrong."""

import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbtm.core.errors import UsageError
from dbtm.tasks.sudoku.puzzle import check, clash, parse, violation

from .oracle import HARD, IMPOSSIBLE, KNOWN, WIKIPEDIA, grid, is_solved

PUZZLE, SOLUTION = WIKIPEDIA
ROWS = [PUZZLE[i : i + 9] for i in range(0, 81, 9)]
DECORATED = """
  5 3 . | . 7 . | . . .
  6 . . | 1 9 5 | . . .
  . 9 8 | . . . | . 6 .
 -------+-------+-------
  8 . . | . 6 . | . . 3
  4 . . | 8 . 3 | . . 1
  7 . . | . 2 . | . . 6
 -------+-------+-------
  . 6 . | . . . | 2 8 .
  . . . | 4 1 9 | . . 5
  . . . | . 8 . | . 7 9
"""


@pytest.mark.parametrize(
    "text",
    [
        PUZZLE,
        PUZZLE.replace("0", "."),
        f"  {PUZZLE}\n",
        "\n".join(ROWS),
        "\r\n".join(ROWS) + "\r\n",
        DECORATED,
        f"\ufeff{PUZZLE}",
    ],
    ids=["digits", "dots", "space around", "lines", "windows lines", "decorated", "byte order mark"],
)
def test_the_same_puzzle_in_many_forms(text):
    assert np.array_equal(parse(text), grid(PUZZLE))


def test_four_by_four():
    assert parse("1...\n..3.\n.4..\n...2").tolist() == [1, 0, 0, 0, 0, 0, 3, 0, 0, 4, 0, 0, 0, 0, 0, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the puzzle has 0 cells, not 81 or 16"),
        (PUZZLE[:-1], "the puzzle has 80 cells"),
        (PUZZLE + "1", "the puzzle has 82 cells"),
        ("\n".join([*ROWS[:3], ROWS[3][:-1], *ROWS[4:]]), "line 4 has 8 cells, not 9"),
        ("\n\n" + "\n".join([*ROWS[:3], ROWS[3] + "5", *ROWS[4:]]), "line 6 has 10 cells, not 9"),
        ("1...\n..3.\n.4.\n...2", "line 3 has 3 cells, not 4"),
        ("x" + PUZZLE[1:], "line 1, character 1: 'x' does not belong"),
        ("\n".join([*ROWS[:2], "12a000000", *ROWS[3:]]), "line 3, character 3: 'a'"),
        ("٣" + PUZZLE[1:], "does not belong"),  # a digit in Arabic script is none of ours
        ("-" + PUZZLE[1:], "line 1, character 1: '-' does not belong"),  # not a frame: it stands among cells
        (f"puzzle,solution\n{PUZZLE},{SOLUTION}\n", "a CSV of puzzles: use `dbtm eval sudoku`"),
        ("5" + "0" * 15, "5 is not a digit of a 4 x 4 grid: use 1 to 4"),
    ],
)
def test_what_cannot_be_read(text, message):
    with pytest.raises(UsageError) as error:
        parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def with_clues(*clues):
    """An empty grid with (row, column, digit) clues, counted from 1."""
    puzzle = np.zeros(81, np.uint8)
    for row, column, digit in clues:
        puzzle[(row - 1) * 9 + column - 1] = digit
    return puzzle


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        (with_clues((3, 2, 5), (3, 7, 5)), "the clues clash: row 3 has two 5s, at columns 2 and 7"),
        (with_clues((1, 4, 8), (9, 4, 8)), "column 4 has two 8s, at rows 1 and 9"),
        (with_clues((4, 7, 1), (6, 9, 1)), "box 6 has two 1s, at row 4 column 7 and row 6 column 9"),
        (grid(IMPOSSIBLE), "the puzzle has no solution: look for a mistyped clue"),
        (grid("0" * 81), "the puzzle has several solutions"),
    ],
)
def test_what_is_no_proper_puzzle(puzzle, message):
    with pytest.raises(UsageError) as error:
        check(puzzle)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("puzzle", "solution"), KNOWN)
def test_a_proper_puzzle_is_solved_at_once(puzzle, solution):
    start = time.process_time()
    assert np.array_equal(check(grid(puzzle)), grid(solution))
    assert time.process_time() - start < 1, "nothing may be compiled here"


def deadly_rectangle(solution):
    """Two rows of a band and columns of two stacks in which the same two digits stand crosswise: a b over b a."""
    for top, bottom in ((0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (6, 7), (6, 8), (7, 8)):
        for left, right in combinations(range(9), 2):
            (a, b), (c, d) = solution[np.ix_([top, bottom], [left, right])]
            if left // 3 != right // 3 and (a, b) == (d, c):
                return (top, bottom), (left, right)
    raise AssertionError("this solution has none")


def test_the_cell_that_is_left_open_is_named():
    """Emptying a deadly rectangle of a full grid leaves exactly two solutions, which differ there."""
    puzzle = grid(HARD[1]).reshape(9, 9)
    rows, columns = deadly_rectangle(puzzle)
    a, b = puzzle[rows[0], list(columns)]
    puzzle[np.ix_(rows, columns)] = 0
    with pytest.raises(UsageError, match=rf"row {rows[0] + 1} column {columns[0] + 1} can be ({a} or {b}|{b} or {a})"):
        check(puzzle.reshape(-1))


def test_judging_an_answer():
    puzzle, solution = grid(PUZZLE), grid(SOLUTION)
    assert violation(solution, puzzle) is None
    changed = solution.copy()
    changed[0] = 7
    assert violation(changed, puzzle) == "row 1 column 1 is 7, but the clue there is 5"
    changed = solution.copy()
    changed[3] = 0
    assert violation(changed, puzzle) == "row 1 column 4 is empty"
    changed = solution.copy()
    changed[2] = 9
    assert violation(changed, puzzle) == "row 1 has two 9s, at columns 3 and 7"


@given(cells=st.lists(st.tuples(st.integers(0, 80), st.integers(1, 9)), min_size=0, max_size=2))
def test_an_answer_is_right_exactly_when_the_rules_say_so(cells):
    answer = grid(SOLUTION)
    for cell, digit in cells:
        answer[cell] = digit
    assert (clash(answer) is None) == is_solved(answer)
    assert (violation(answer, grid(PUZZLE)) is None) == np.array_equal(answer, grid(SOLUTION))
