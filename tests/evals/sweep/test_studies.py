"""Studies compare what they say, fit the method, and draw nothing twice."""

from dataclasses import replace

import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.drawing import resolve
from dbtm.evals.sweep import studies
from dbtm.evals.sweep.folder import SweepFolder, identity
from tests.evals.sweep.cells import GRID, ORIGIN, planned, sampler
from tests.evals.tiny import METHODS, letters, random_sampler


def test_the_grid_is_a_product_less_what_makes_no_difference(tmp_path):
    plan = SweepFolder(tmp_path / "s").extend(ORIGIN, 8, planned("frontier"))
    settings = plan.settings()
    assert sum(s["nfe"] == 1 for s in settings) == 4, "one round: temperature x sigma"
    assert sum(s["nfe"] == 4 for s in settings) == 8, "kappa x temperature x sigma"
    assert {s["sigma"] for s in settings} == {1.25, 2.0}


def test_top_p_is_varied_where_tokens_are_drawn():
    grid = {"nfe": (1, 4), "kappa": (0.9,), "temperature": (0.0, 1.0), "sigma": (1.25,), "top_p": (0.9, 1.0)}
    drawn = {(s["nfe"], s["temperature"], s.get("top_p")) for s in (c.settings for c in planned("frontier", grid=grid))}
    assert drawn == {(nfe, *drawn) for nfe in (1, 4) for drawn in ((0.0, None), (1.0, 0.9), (1.0, None))}


def test_what_is_not_asked_for_takes_its_default_values_or_the_checkpoints_own():
    grid = studies.grid_for(sampler(), {"nfe": (2,)})
    assert grid == {name: values for name, values in studies.KNOBS.items() if values} | {"nfe": (2,)}
    assert {cell.settings["sigma"] for cell in planned("frontier", grid={"nfe": (2,)})} == {1.25}


def test_the_frontier_of_every_method_is_over_the_options_it_has():
    varied = {method: set(studies.grid_for(random_sampler(letters(method)), {})) for method in METHODS}
    assert varied == {
        "dbtm": {"nfe", "kappa", "temperature", "repetition_penalty"},
        "mdlm": {"nfe", "temperature"},
        "ar": {"temperature"},
    }
    ar = planned("frontier", own=random_sampler(letters("ar")), grid={"top_p": (0.9, 1.0)})
    drawn = [{"temperature": t, "top_p": p} for t in (0.7, 1.0) for p in (0.9, 1.0)]
    assert [cell.settings for cell in ar] == [{"temperature": 0.0, "top_p": 1.0}] * 2 + drawn


@pytest.mark.parametrize(
    ("method", "grid", "words"),
    [
        ("mdlm", {"kappa": (0.5,)}, "'mdlm' has no option 'kappa'"),
        ("ar", {"nfe": (4,)}, "no budget to choose"),
        ("ar", {"repetition_penalty": (0.5,)}, "'ar' has no option 'repetition_penalty'"),
        ("dbtm", {"scorer": ("none",)}, "a sweep does not vary 'scorer'"),
    ],
)
def test_values_that_a_method_cannot_take_are_refused(method, grid, words):
    with pytest.raises(UsageError, match=words):
        studies.grid_for(random_sampler(letters(method)), grid)


def test_studies_compare_what_they_say():
    cells = {name: planned(name) for name in studies.STUDIES}
    assert [(c.column, c.settings["sampler"], c.settings["nfe"]) for c in cells["horizon"]] == [
        ("H = 1", "integrate", 64),
        ("H = 4", "integrate", 64),
        ("H = 8", "integrate", 64),
        ("one-step map", "refine", 1),
    ]
    assert {(c.row, c.column) for c in cells["iterate"]} == {
        (nfe, column) for nfe in "14" for column in ("iterate", "renoise + remap")
    }
    assert {c.column for c in cells["scorer"]} == {"confidence", "quality", "spread", "none"}
    without_head = planned("scorer", own=sampler("method.quality.enabled=false"))
    assert {c.column for c in without_head} == {"confidence", "spread", "none"}
    hard = {c.column: c.settings for c in cells["commit"] if c.row == "4"}
    assert hard["commit 0.9"] == hard["non-commit 0.9"] | {"commit": True, "repetition_penalty": 0.0}
    assert len({identity("sample", s) for s in hard.values()}) == 4
    again = {c.column: c.settings for c in cells["noise"] if c.row == "4"}
    assert again["the same"] == again["fresh"] | {"fresh_noise": False}
    assert set(studies.TITLES) | {"frontier"} == set(studies.STUDIES)


def test_a_method_makes_the_studies_that_fit_it():
    assert studies.fitting_studies(sampler(), ["all"]) == list(studies.STUDIES)
    for method in ("mdlm", "ar"):
        own = random_sampler(letters(method))
        assert studies.fitting_studies(own, ["all"]) == ["frontier"]
        with pytest.raises(
            UsageError, match=f"'iterate' compares values of .*, which the sampler of '{method}' does not"
        ):
            studies.fitting_studies(own, ["frontier", "iterate"])
    with pytest.raises(UsageError, match="no study 'frontear'; did you mean 'frontier'"):
        studies.fitting_studies(sampler(), ["frontear"])


def test_a_checkpoint_with_spread_commits_is_swept_with_thresholds_too():
    own = sampler()
    own.options = replace(own.options, scorer="spread")

    def commits(study):
        return {(s["scorer"], s.get("kappa")) for s in (c.settings for c in planned(study, own=own)) if s["nfe"] == 4}

    by_score = {("confidence", 0.5), ("confidence", 0.9)}
    assert commits("frontier") == by_score | {("spread", None)}
    assert commits("commit") == by_score


def test_the_commit_study_has_no_penalty_that_one_side_would_not_know():
    own = sampler()
    own.options = replace(own.options, repetition_penalty=1.0)
    settings = [cell.settings for cell in planned("commit", own=own) if cell.row == "4"]
    assert {(s["commit"], s.get("repetition_penalty")) for s in settings} == {(True, 0.0), (False, None)}
    assert "without a repetition penalty" in studies.TITLES["commit"]


def test_a_checkpoint_that_holds_states_is_swept_without_penalties():
    own = sampler()
    own.options = replace(own.options, commit=False)
    cells = studies.cells(own, ["frontier"], GRID | {"repetition_penalty": (0.0, 1.0)})
    assert all("repetition_penalty" not in resolve(own, cell.asked) for cell in cells)


def test_commits_without_a_scorer_stand_at_every_budget_and_are_drawn_once():
    cells = {c.row: c.settings for c in planned("scorer") if c.column == "none"}
    assert cells.keys() == {"1", "4"}
    assert cells["4"] == cells["1"]
