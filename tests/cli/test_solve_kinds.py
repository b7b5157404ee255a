"""`dbtm solve maze`, `colouring` and `sat`: problems from files, stdin or the seed, judged by their rules."""

import io
import json
import sys

import numpy as np
import pytest

from dbtm.config import override
from dbtm.recipes import recipe
from dbtm.tasks.reasoning.colouring import Colouring
from dbtm.tasks.reasoning.maze import Maze
from dbtm.tasks.reasoning.sat import Sat
from tests.evals.tiny import SIZES, write_checkpoint

TASKS = {
    "maze": Maze(size=4, least=4, walls=(0.1, 0.3)),
    "colouring": Colouring(nodes=5, degree=2.4),
    "sat": Sat(variables=4, ratio=2.0),
}
WRONG = {"maze": "maze|join|marked", "colouring": "colour", "sat": "clauses|value"}


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """Models that have learned nothing."""
    return {
        kind: write_checkpoint(
            override(recipe(f"{kind}-mini").on(task), [*SIZES, "model.position_axes=[]", "method.quality.width=8"]),
            tmp_path_factory.mktemp(kind),
        )
        for kind, task in TASKS.items()
    }


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("way", ["file", "dash"])
def test_a_problem_is_read_and_its_answer_judged(command, untrained, tmp_path, monkeypatch, kind, way):
    task = TASKS[kind]
    tokens = task.batch(np.array([3])).tokens[0]
    (tmp_path / "problem").write_text(task.problem(tokens))
    monkeypatch.setattr(sys, "stdin", io.StringIO(task.problem(tokens)))
    source = tmp_path / "problem" if way == "file" else "-"
    code, out, err = command("solve", kind, source, "--checkpoint", untrained[kind], "--json")
    answer = json.loads(out)
    assert (code, err) == (0 if answer["solved"] else 1, "")
    assert answer["problem"] == task.problem(tokens)
    assert answer["budget"] == 64
    assert answer["free"] == task.answer().sum()
    assert answer["rounds"][-1] == answer["answer"]
    assert answer["solved"] == (answer["violation"] is None)
    assert answer["stable"] in (True, False)


@pytest.mark.parametrize("kind", TASKS)
def test_a_new_problem_is_that_of_the_seed(command, untrained, kind):
    def problem(seed):
        words = ("solve", kind, "--checkpoint", untrained[kind], "--json", "--nfe", 1, "--seed", seed)
        return json.loads(command(*words)[1])["problem"]

    assert problem(5) == TASKS[kind].problem(TASKS[kind].held_out_examples(6).tokens[5])
    assert problem(5) != problem(6)
    assert problem(-1) != problem(10**30)  # any whole number is a seed


def test_words_for_a_person(command, untrained):
    code, out, _ = command("solve", "sat", "--checkpoint", untrained["sat"], "--nfe", 3, "--kappa", 1)
    assert "round 1  " in out
    assert "/4 committed" in out
    assert out.index("the model ") < out.index(" of 12 network evaluations")
    assert ("solved in" in out, "wrong after" in out) == (code == 0, code == 1)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["maze"], "no packaged model for 'maze'"),
        (["maze", "nowhere.txt"], "no file 'nowhere.txt'"),
        (["sat", "--html", "page.html"], "leave them out"),
        (["sat", "--tries", "2"], "leave them out"),
        (["1" * 81, "other"], "is not a kind of problem"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(command, words, complaint):
    code, out, err = command("solve", *words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_a_checkpoint_of_another_kind_and_a_bad_file_are_refused(command, untrained, tmp_path):
    code, _, err = command("solve", "maze", "--checkpoint", untrained["sat"])
    assert (code, "trained on 'sat', not on 'maze'" in err) == (2, True)
    (tmp_path / "bad.cnf").write_text("1 2 9 0")
    code, _, err = command("solve", "sat", tmp_path / "bad.cnf", "--checkpoint", untrained["sat"])
    assert (code, "bad.cnf: '9' is not a literal" in err) == (2, True)
