"""Colourings against brute force over all colourings."""

from itertools import combinations, product

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.reasoning.colouring import COLOURS, EDGE, Colouring

TASK = Colouring(nodes=6, degree=3.4)
SQUARE = "c a square with one diagonal\np edge 4 5\ne 1 2\ne 2 3\ne 3 4\ne 4 1\ne 1 3"


def edges_of(task: Colouring, row: np.ndarray) -> set[tuple[int, int]]:
    """Read with an indexing of its own: pair (i, j), i <= j, stands at i n - i (i - 1) / 2 + j - i."""
    at = {(i, j): i * task.nodes - i * (i - 1) // 2 + j - i for i, j in combinations(range(task.nodes), 2)}
    return {pair for pair, position in at.items() if row[position] == EDGE}


def colours_of(task: Colouring, row: np.ndarray) -> tuple[int, ...]:
    return tuple(int(row[i * task.nodes - i * (i - 1) // 2]) - COLOURS for i in range(task.nodes))


def proper(colours, edges) -> bool:
    return all(colours[i] != colours[j] for i, j in edges)


def test_graphs_have_their_edges_and_the_first_of_all_colourings():
    for row in TASK.batch(np.arange(40)).tokens:
        edges = edges_of(TASK, row)
        assert len(edges) == 10
        first = next(colours for colours in product(range(3), repeat=6) if proper(colours, edges))
        assert colours_of(TASK, row) == first


def test_every_pair_is_an_edge_as_often_as_any_other():
    rows = TASK.batch(np.arange(3000)).tokens
    shares = (rows[:, ~TASK.answer()] == EDGE).mean(0)
    assert shares.mean() == pytest.approx(10 / 15)
    assert np.abs(shares - 10 / 15).max() < 0.05


def test_just_the_proper_colourings_are_right():
    task = Colouring(nodes=4, degree=2.5)
    row, right = task.parse(SQUARE), 0
    for colours in product(range(3), repeat=4):
        row[task.answer()] = np.array(colours) + COLOURS
        valid = proper(colours, {(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)})
        assert (task.complaint(row) is None) == valid
        right += valid
    assert right == 6


def test_complaints_name_nodes():
    task = Colouring(nodes=4, degree=2.5)
    row = task.parse(SQUARE)
    assert task.complaint(row) == "nodes 1 and 2 are neighbours and have the same colour"
    row[0] = EDGE
    assert task.complaint(row) == "node 1 has no colour"
    assert task.text(row) == "?aaa"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("e 1", "line 1: 'e 1' is not an edge"),
        ("p edge 4 1\nedge 1 2", "line 2"),
        ("e 1 1", "not an edge"),
        ("e 1 5", "numbered from 1 to 4"),
        ("e 0 2", "numbered from 1 to 4"),
        ("e 1 x", "not an edge"),
    ],
)
def test_bad_graphs_are_refused(text, words):
    with pytest.raises(UsageError, match=words):
        Colouring(nodes=4, degree=2.5).parse(text)
