"""Formulas against brute force over all assignments."""

from itertools import product

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.reasoning.sat import LITERALS, Sat

TASK = Sat(variables=6)
SMALL = Sat(variables=3, ratio=1.0)
TEXT = "c three clauses\np cnf 3 3\n1 2 3 0\n-1 -2 0\n-3 0"


def clauses_of(task: Sat, row: np.ndarray) -> list[list[tuple[int, bool]]]:
    """(variable, wanted value) of every literal."""
    literals = [divmod(int(token) - LITERALS, 2) for token in row[: 3 * task.clauses]]
    return [[(v, not negated) for v, negated in literals[i : i + 3]] for i in range(0, len(literals), 3)]


def satisfied(values, clauses) -> bool:
    return all(any(values[v] == wanted for v, wanted in clause) for clause in clauses)


def test_formulas_have_the_first_of_all_solutions():
    for row in TASK.batch(np.arange(60)).tokens:
        clauses = clauses_of(TASK, row)
        assert len(clauses) == 26
        assert all(len({v for v, _ in clause}) == 3 for clause in clauses)
        first = next(values for values in product((False, True), repeat=6) if satisfied(values, clauses))
        assert tuple(row[3 * TASK.clauses :].astype(bool)) == first


def test_larger_formulas_are_satisfied_and_in_order():
    task = Sat()
    row = task.batch(np.array([0, 1, 2])).tokens[1]
    clauses = clauses_of(task, row)
    assert (len(clauses), task.length, task.vocab) == (213, 689, 102)
    assert satisfied(row[639:].astype(bool), clauses)
    assert task.complaint(row) is None
    order = [[int(token) for token in row[i : i + 3]] for i in range(0, 639, 3)]
    assert order == sorted(order)


def test_literals_are_drawn_evenly():
    literal_BM = Sat(variables=5, ratio=2.0).batch(np.arange(2000)).tokens[:, :30] - LITERALS
    shares = np.bincount(literal_BM.ravel(), minlength=10) / literal_BM.size
    assert np.abs(shares - 0.1).max() < 0.01  # conditioning on a solution changes little with so few clauses


def test_just_the_satisfying_assignments_are_right():
    row, right = SMALL.parse(TEXT), []
    for values in product((0, 1), repeat=3):
        row[9:] = values
        if SMALL.complaint(row) is None:
            right.append(values)
    assert right == [(0, 1, 0), (1, 0, 0)]


def test_complaints_count_clauses():
    row = SMALL.parse(TEXT)
    assert SMALL.complaint(row) == "1 of 3 clauses are false, the first of them: 1 or 2 or 3"
    row[9] = LITERALS
    assert SMALL.complaint(row) == "variable 1 has no value"
    assert SMALL.text(row) == "v ? -2 -3 0"


def test_fewer_clauses_are_filled_up_without_a_change_of_meaning():
    row = SMALL.parse("1 0 -2 3 0")
    for values in product((0, 1), repeat=3):
        row[9:] = values
        assert (SMALL.complaint(row) is None) == (values[0] == 1 and (values[1] == 0 or values[2] == 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 2 4 0", "'4' is not a literal"),
        ("1 x 0", "'x' is not a literal"),
        ("1 2 3 -1 0", "longest of 4"),
        ("1 0 2 0 3 0 -1 0", "has 4 clauses"),
        ("", "has 0 clauses"),
        ("--1 0", "not a literal"),
    ],
)
def test_bad_formulas_are_refused(text, words):
    with pytest.raises(UsageError, match=words):
        SMALL.parse(text)
