"""Sweeps: which settings are evaluated, which puzzles are refused."""

import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.sudoku import Row, refuse_trained, settings
from dbtm.tasks.sudoku.task import Sudoku


def test_a_budget_of_one_is_evaluated_once():
    assert settings([1, 4], [0.5, 0.9]) == [(1, 0.5), (4, 0.5), (4, 0.9)]
    assert settings([1, 4], [None]) == [(1, None), (4, None)]


def test_only_puzzles_of_the_pool_are_refused():
    task = Sudoku(clues=((22, 26), (30, 30)), seed=1)
    with pytest.raises(UsageError, match="--seed 101 with 30 clues"):
        refuse_trained(task, 30, 101)
    refuse_trained(task, 30, 100)  # seed 100 made the pool of 22 to 26 clues, from another stream
    refuse_trained(task, 24, 100)
    refuse_trained(task, 35, 101)


def test_the_refused_seed_is_the_one_that_made_the_pool():
    """The rule against the fact: the same seed and clues give the pool's puzzles, a range of clues does not."""
    from dbtm.tasks.sudoku.generate import generate

    task = Sudoku(box=2, clues=((4, 8), (6, 6)), pool=20, seed=3)
    ranged, exact = task.puzzles[0][:20], task.puzzles[0][20:]
    assert (generate(6, 20, 301, box=2)[0] == exact).all()
    assert not (generate(6, 20, 300, box=2)[0] == ranged).all()


def test_a_row_keeps_clues_only_where_there_are_some():
    values = {"nfe": 4, "kappa": 0.9, "tuned": False, "scorer": "quality"}
    row = Row(**values, solved=15, total=20, mean_nfe=2.5, seconds=4.0)
    document = row.document()
    assert "clues" not in document
    assert document["rate"] == 0.75
    assert document["puzzles_per_second"] == 5
    assert Row(**values, solved=0, total=1, mean_nfe=1.0, seconds=1.0, clues=30).document()["clues"] == 30
