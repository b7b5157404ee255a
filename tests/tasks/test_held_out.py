"""What every task answers to an evaluation: examples that are never trained on, and a measure of its own."""

from dataclasses import replace

import numpy as np
import pytest

from dbtm.core.registry import TASKS
from dbtm.tasks.base import Task
from dbtm.tasks.own import Own
from dbtm.tasks.sudoku.task import Sudoku
from dbtm.tasks.toy import Categorical, Markov


@pytest.mark.parametrize("task", [Categorical(seed=3), Markov(seed=3, length=20)], ids=["categorical", "markov"])
def test_chains_held_out_are_new_draws_of_the_same_law(task):
    trained, held_out = task.batch(np.arange(4000)).tokens, task.held_out_examples(4000).tokens
    assert held_out.shape == trained.shape
    assert not np.array_equal(trained, held_out)
    shares = [np.bincount(tokens.ravel(), minlength=task.vocab) / tokens.size for tokens in (trained, held_out)]
    np.testing.assert_allclose(*shares, atol=0.03)
    assert np.array_equal(held_out[:10], task.held_out_examples(10).tokens)
    if isinstance(task, Markov):
        assert not {row.tobytes() for row in trained} & {row.tobytes() for row in held_out}


@pytest.mark.parametrize("chain", [{}, {"chain_seed": 1}, {"peak": 1.0}])
def test_the_bound_is_the_least_of_a_grid(chain):
    """Of two states: what independent positions reach at best, which depends on the chain alone."""
    task = Markov(vocab=2, **chain)
    shares = np.linspace(0, 1, 501)
    marginals = np.stack([shares, 1 - shares], 1)
    products = marginals[:, None, :, None] * marginals[None, :, None, :]
    least = 0.5 * np.abs(products - task.pairs).sum((-2, -1)).min()
    assert task.independent_bound == pytest.approx(least, abs=1e-3)
    assert replace(task, length=3, seed=5).independent_bound == task.independent_bound


def test_puzzles_held_out_are_not_in_the_pool():
    task = Sudoku(box=2, clues=((4, 8),), pool=200, augment=False, evaluate_clues=5, evaluate_n=30)
    examples = task.held_out_examples(30)
    puzzles, solutions = task.held_out
    np.testing.assert_array_equal(examples.tokens, task.layout.encode(puzzles, solutions))
    np.testing.assert_array_equal(examples.prompt, np.broadcast_to(task.layout.prompt_mask(), examples.tokens.shape))
    pool = {row.tobytes() for row in task.puzzles[0]}
    assert not any(puzzle.tobytes() in pool for puzzle in puzzles)
    assert task.solved(examples.tokens, solutions).all()


def test_a_task_has_neither_unless_it_says_so():
    for task in (Task(), Own(vocab=3, length=4)):
        assert task.held_out_examples(5) is None
        assert task.measure(np.zeros((2, 4), dtype=np.int64), None) == {}


@pytest.mark.parametrize("name", TASKS.built_in())
def test_settings_of_evaluations_are_settings(name):
    task = TASKS.get(name)()
    assert all(hasattr(task, setting) for setting in task.evaluation_settings)
    assert {"vocab", "length", "seed", "data"}.isdisjoint(task.evaluation_settings)
