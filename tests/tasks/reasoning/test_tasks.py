"""What mazes, colourings and formulas have in common: examples from keys alone, a given part, refused settings."""

from dataclasses import replace

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.methods.base import method_of
from dbtm.recipes import recipe
from dbtm.tasks.reasoning.colouring import Colouring
from dbtm.tasks.reasoning.maze import Maze
from dbtm.tasks.reasoning.sat import Sat

TASKS = [
    Maze(size=7, least=9, walls=(0.2, 0.4)),
    Maze(size=7, least=9, walls=(0.2, 0.4), pool=5),
    Colouring(nodes=9, degree=3.6),
    Sat(variables=7),
]
NAMES = ["maze", "pool", "colouring", "sat"]


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_an_example_is_a_function_of_its_number(task):
    whole = task.batch(np.arange(40))
    assert np.array_equal(whole.tokens[30:33], task.batch(np.array([30, 31, 32])).tokens)
    assert whole.tokens.shape == (40, task.length)
    assert whole.tokens.min() >= 0
    assert whole.tokens.max() < task.vocab
    assert np.array_equal(whole.prompt[7], ~task.answer())
    other = replace(task, seed=2)
    assert not np.array_equal(other.batch(np.arange(40)).tokens, whole.tokens)


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_held_out_problems_are_no_training_problems(task):
    given = ~task.answer()
    trained = {row[given].tobytes() for row in task.batch(np.arange(300)).tokens}
    held_out = task.held_out_examples(100)
    assert not any(row[given].tobytes() in trained for row in held_out.tokens)
    assert len({row[given].tobytes() for row in held_out.tokens}) > 95
    assert task.solved(held_out.tokens).all()
    assert task.measure(held_out.tokens, held_out) == {"solved": 1.0, "score": 1.0}


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_position_ids_tell_every_position_apart(task):
    ids = task.position_ids()
    assert ids.shape[0] == task.length
    assert len(np.unique(ids, axis=0)) == task.length


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_a_written_problem_reads_the_same(task):
    for row in task.batch(np.arange(5)).tokens:
        given = ~task.answer()
        assert np.array_equal(task.parse(task.problem(row))[given], row[given])


@pytest.mark.parametrize("name", ["maze", "colouring", "sat"])
@pytest.mark.parametrize("size", ["", "-mini"])
def test_recipes_fit_their_tasks(name, size):
    run = recipe(name + size)
    network = method_of(run).build()
    assert sum(p.numel() for p in network.parameters()) <= 8_000_000
    assert run.model.position_axes == tuple(run.task.position_ids().max(0) + 1)
    assert run.method.ril.own == 0.5
    assert run.method.loss.transport == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Maze(size=1), "task.size=1"),
        (lambda: Maze(size=5, least=25), "task.least=25"),
        (lambda: Maze(walls=(0.5, 0.2)), "task.walls"),
        (lambda: Maze(walls=(0.2, 1.0)), "task.walls"),
        (lambda: Maze(pool=-1), "task.pool"),
        (lambda: Maze(seed=-1), "task.seed"),
        (lambda: Maze(evaluate_n=0), "task.evaluate_n"),
        (lambda: Colouring(nodes=1), "task.nodes"),
        (lambda: Colouring(colours=1), "task.colours"),
        (lambda: Colouring(nodes=5, degree=4.5), "task.degree"),
        (lambda: Sat(variables=2), "task.variables"),
        (lambda: Sat(ratio=0), "task.ratio"),
    ],
)
def test_bad_settings_are_refused(make, words):
    with pytest.raises(UsageError, match=words):
        make()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Maze(size=3, least=8, walls=(0.0, 0.0)), "shortest path of 8 steps"),
        (Colouring(nodes=5, degree=4, colours=3), "has a colouring with 3 colours"),  # the complete graph of 5 nodes
        (Sat(variables=6, ratio=20), "has a solution"),  # 64 assignments, each of which 120 clauses leave with 1e-7
    ],
)
def test_what_cannot_be_made_is_refused_before_training(task, words):
    with pytest.raises(UsageError, match=words):
        task.prepare_evaluation()
