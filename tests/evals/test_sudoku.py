"""Solve rates: which settings are evaluated, what a row says, which puzzles are refused."""

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.sudoku import (
    SudokuScore,
    for_every_threshold,
    refuse_trained,
    settings_to_try,
    solve_rates,
    sudoku_task,
)
from dbtm.sampling import Cancelled
from dbtm.tasks.sudoku.task import Sudoku
from dbtm.tasks.toy import Markov
from tests.evals.tiny import METHODS, mini_sudoku, random_sampler


def test_a_budget_of_one_is_evaluated_once():
    sampler = random_sampler(mini_sudoku())

    def pairs(*words):
        return [(each["nfe"], each.get("kappa")) for each in settings_to_try(sampler, *words)]

    assert pairs([1, 4], [0.5, 0.9]) == [(1, 0.5), (4, 0.5), (4, 0.9)]
    assert pairs([1, 4], []) == [(1, None), (4, None)]
    assert [nfe for nfe, _ in pairs()] == [1, 2, 4, 8, 16]
    assert settings_to_try(sampler, [4], [0.5], {"scorer": "confidence"}) == [
        {"scorer": "confidence", "nfe": 4, "kappa": 0.5}
    ]


def test_what_a_method_lacks_is_refused_and_one_without_a_budget_has_one_setting():
    assert settings_to_try(random_sampler(mini_sudoku("ar"))) == [{}]
    for method, words, said in (
        ("ar", ([4], []), "no budget to choose"),
        ("mdlm", ([4], [0.5]), "'mdlm' has no option 'kappa'"),
        ("ar", (None, [0.5]), "'ar' has no option 'kappa'"),
    ):
        with pytest.raises(UsageError, match=said):
            settings_to_try(random_sampler(mini_sudoku(method)), *words)


@pytest.mark.parametrize("method", METHODS)
def test_rates_of_every_method_against_a_recount(method):
    sampler = random_sampler(mini_sudoku(method), batch=4)
    task = sampler.task
    puzzles, _ = (grid[:6] for grid in task.puzzles)
    settings = settings_to_try(sampler, [1, 3] if sampler.has_budget else None)
    heard = []
    # the answers of the last setting are called right for the first four puzzles
    answers = task.layout.decode(sampler.sample(**task.given(puzzles), seed=5, **settings[-1]).tokens)
    solutions = np.where(np.arange(6)[:, None] < 4, answers, 0)
    scores = list(solve_rates(sampler, puzzles, solutions, settings, 5, clues=6, progress=heard.append))
    assert heard == [4, 6] * len(settings)
    assert (scores[-1].solved, scores[-1].total, scores[-1].clues) == (4, 6, 6)
    document = scores[-1].document()
    assert document["rate"] == 4 / 6
    assert document["low"] < 4 / 6 < document["high"]
    assert document["puzzles_per_second"] == pytest.approx(6 / document["seconds"])
    assert ("kappa" in document, "scorer" in document, "tuned" in document) == (method == "dbtm",) * 3
    assert document.get("nfe") == (3 if sampler.has_budget else None)
    if method == "ar":
        generated = (~task.layout.prompt_mask()).sum()
        assert document["mean_nfe"] == generated, "one evaluation per generated token"
    with pytest.raises(Cancelled):
        list(solve_rates(sampler, puzzles, solutions, settings, cancelled=lambda: True))


def test_only_puzzles_of_the_pool_are_refused():
    task = Sudoku(clues=((22, 26), (30, 30)), seed=1)
    with pytest.raises(UsageError, match="seed 101 with 30 clues"):
        refuse_trained(task, 30, 101)
    refuse_trained(task, 30, 100)  # seed 100 made the pool of 22 to 26 clues, from another stream
    refuse_trained(task, 24, 100)
    refuse_trained(task, 35, 101)
    with pytest.raises(UsageError, match="trained on 'markov', not on sudoku"):
        sudoku_task(Markov())


def test_the_refused_seed_is_the_one_that_made_the_pool():
    """The rule against the fact: the same seed and clues give the pool's puzzles, a range of clues does not."""
    from dbtm.tasks.sudoku.generate import generate

    task = Sudoku(box=2, clues=((4, 8), (6, 6)), pool=20, seed=3)
    ranged, exact = task.puzzles[0][:20], task.puzzles[0][20:]
    assert (generate(6, 20, 301, box=2)[0] == exact).all()
    assert not (generate(6, 20, 300, box=2)[0] == ranged).all()


def test_a_row_keeps_clues_only_where_there_are_some():
    settings = {"nfe": 4, "kappa": 0.9, "scorer": "quality"}
    score = SudokuScore(settings, solved=15, total=20, mean_nfe=2.5, seconds=4.0, tuned=False)
    document = score.document()
    assert "clues" not in document
    assert (document["nfe"], document["kappa"], document["tuned"], document["scorer"]) == (4, 0.9, False, "quality")
    assert document["rate"] == 0.75
    assert document["puzzles_per_second"] == 5
    assert SudokuScore(settings, solved=0, total=1, mean_nfe=1.0, seconds=1.0, clues=30).document()["clues"] == 30


def test_a_budget_of_one_stands_for_every_threshold():
    one = SudokuScore({"nfe": 1, "kappa": 0.5}, solved=1, total=2, mean_nfe=1.0, seconds=1.0)
    assert [s.settings["kappa"] for s in for_every_threshold(one, (0.5, 0.9))] == [0.5, 0.9]
    assert for_every_threshold(one, ()) == [one]
    four = SudokuScore({"nfe": 4, "kappa": 0.5}, solved=1, total=2, mean_nfe=1.0, seconds=1.0)
    assert for_every_threshold(four, (0.5, 0.9)) == [four]
