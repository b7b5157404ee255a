"""Solving as a request: a loaded sampler, rounds as they are made, cancellation, and results that say how."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import dbtm
from dbtm.core.errors import UsageError
from dbtm.service import request as requests
from dbtm.service.progress import Cancelled, Progress
from dbtm.service.solving import BUILT_IN, SolveRequest, load_sudoku, solve
from dbtm.tasks.sudoku.puzzle import parse
from tests.evals.tiny import METHODS, chain, mini_sudoku, random_sampler, write_checkpoint

ROUNDS = {"dbtm": 3, "mdlm": 3, "ar": 19}
OPTIONS = {"dbtm": {"nfe": 3, "kappa": 1.0}, "mdlm": {"nfe": 3}, "ar": {}}


class StopAfter(Progress):
    """Cancels when it was asked so many times."""

    def __init__(self, asked: int):
        self.left = asked

    def cancelled(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.fixture(scope="module")
def samplers():
    return {method: random_sampler(mini_sudoku(method)) for method in METHODS}


@pytest.fixture
def no_loading(monkeypatch):
    """A request with a sampler must not read a checkpoint."""
    monkeypatch.setattr(requests, "load", None)


@pytest.mark.parametrize("method", METHODS)
def test_rounds_are_seen_as_they_are_made(samplers, method, no_loading, capsys):
    seen = []
    request = SolveRequest(checkpoint="mine", options=OPTIONS[method], seed=3)
    result = solve(request, samplers[method], on_round=seen.append)
    assert len(seen) == len(result.rounds) == result.nfe == ROUNDS[method]
    for one, other in zip(seen, result.rounds, strict=True):
        assert np.array_equal(one.values_C, other.values_C)
        assert np.array_equal(one.committed_C, other.committed_C)
        assert one.time == other.time
        assert (one.score_C is None) == (method == "ar")
    trace = samplers[method].sample(**samplers[method].task.given(result.puzzle_C[None]), seed=3, **OPTIONS[method])
    assert np.array_equal(result.solution_C, samplers[method].task.layout.decode(trace.tokens)[0])
    assert result.settings.items() >= {"checkpoint": "mine", "method": method, "seed": 3, "device": "cpu"}.items()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("method", METHODS)
def test_it_stops_when_it_is_told_to(samplers, method):
    seen = []
    with pytest.raises(Cancelled):
        solve(SolveRequest(checkpoint="mine", options=OPTIONS[method]), samplers[method], StopAfter(2), seen.append)
    assert len(seen) == 2
    with pytest.raises(Cancelled):
        solve(SolveRequest(checkpoint="mine", warm_up=True), samplers[method], StopAfter(0))


def test_a_method_with_a_budget_has_four_evaluations(samplers):
    results = {method: solve(SolveRequest(checkpoint="mine"), samplers[method]) for method in METHODS}
    assert {method: result.budget for method, result in results.items()} == {"dbtm": 4, "mdlm": 4, "ar": None}
    assert "nfe" not in results["ar"].settings


def test_a_checkpoint_is_loaded_by_its_name(tmp_path):
    folder = write_checkpoint(mini_sudoku(), tmp_path)
    request = SolveRequest(checkpoint=str(folder), options={"nfe": 2}, seed=1, device="cpu")
    named, loaded = solve(request), solve(request, load_sudoku(str(folder), "cpu"))
    assert np.array_equal(named.solution_C, loaded.solution_C)
    assert named.settings == loaded.settings
    assert "".join(map(str, named.puzzle_C)) == BUILT_IN[16]
    with pytest.raises(FrozenInstanceError):
        request.seed = 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"puzzle_C": parse(BUILT_IN[81])}, "the puzzle is 9 x 9, but the checkpoint 'mine' solves 4 x 4 grids"),
        ({"options": {"order": "random"}}, "has no option 'order'"),
        ({"options": {"top_p": 0.5}}, "top_p changes nothing at temperature 0"),
        ({"options": {"kappa": 1.5}}, "kappa=1.5 must be between 0 and 1"),
    ],
)
def test_mistakes_are_named_without_flags(samplers, changes, message):
    with pytest.raises(UsageError, match=message) as error:
        solve(SolveRequest(checkpoint="mine", **changes), samplers["dbtm"])
    assert "--" not in str(error.value)


def test_a_model_of_another_task_is_refused(tmp_path):
    folder = str(write_checkpoint(chain("mdlm"), tmp_path))
    for solving in (lambda: load_sudoku(folder), lambda: solve(SolveRequest(), dbtm.load(folder))):
        with pytest.raises(UsageError, match="was trained on 'markov', not on Sudoku"):
            solving()


def test_an_answer_may_be_checked():
    """Two looks that find nothing: two evaluations more, and the model stands by its answer; without, it is silent."""
    plain = solve(SolveRequest(options={"nfe": 4}))
    checked = solve(SolveRequest(options={"nfe": 4, "check": 6}))
    revised = solve(SolveRequest(options={"nfe": 8, "rule": "revise"}))
    assert plain.stable is None
    assert (checked.stable, checked.nfe, checked.budget) == (True, plain.nfe + 2, 10)
    assert revised.stable
    assert plain.solved
    assert (plain.solution_C == checked.solution_C).all()
    assert (plain.solution_C == revised.solution_C).all()
