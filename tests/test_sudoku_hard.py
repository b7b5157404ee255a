"""benchmarks/sudoku_hard.py: its arms are runs that exist, each without one ingredient; the recipe's stages fit."""

from dataclasses import replace
from itertools import pairwise

import pytest

from dbtm.config import override, to_dict
from dbtm.core.settings import changed_keys
from dbtm.methods.base import method_of
from dbtm.recipes import RECIPES, recipe
from tests.scripts import load_script


@pytest.fixture(scope="module")
def script():
    return load_script("sudoku_hard")


def settings_of(words):
    return [word for before, word in pairwise(words) if before == "--set"]


@pytest.mark.parametrize("tiny", [False, True])
def test_arms_differ_from_the_recipe_in_one_ingredient(script, tiny, tmp_path):
    runs = {arm: settings_of(script.words(tmp_path, arm, 1, 10, tiny)) for arm in script.ARMS}
    whole = to_dict(override(recipe(script.RECIPE), runs["all of it"]))
    assert whole["train"]["seed"] == 1
    assert whole["task"]["seed"] == 2
    assert len(whole["task"]["puzzle_files"]) == 2
    assert list(script.EFFORTS) == list(recipe(script.RECIPE).task.efforts)
    changed = {
        arm: changed_keys(whole, to_dict(override(recipe(script.RECIPE), settings)))
        for arm, settings in runs.items()
        if arm != "all of it"
    }
    assert changed == {
        "no own mistakes": ["method.ril.own"],
        "no un-commit": ["method.ril.uncommit"],
        "fixed loops": ["method.loops"],
        "no self-conditioning": ["model.self_condition"],
        "no hard data": ["task.puzzle_files"],
        "quality where not held": ["method.ril.quality_on"],
    }


def test_means_are_over_seeds(script, capsys):
    rows = [
        {"arm": arm, "seed": seed, "set": "s", "way": "4", "solved": share}
        for arm, shares in {"a": (0.5, 0.7), "b": (0.1, 0.2)}.items()
        for seed, share in enumerate(shares)
    ]
    script.print_means(rows)
    assert capsys.readouterr().out == "s, 4: a 60.0, b 15.0\n"


def test_the_stages_are_small_and_fit_each_other():
    first, second = recipe("sudoku-hard"), recipe("sudoku-hard-2")
    assert first.model == second.model == replace(recipe("sudoku").model, self_condition=True)  # a slot may be added
    assert first.method.quality == second.method.quality
    assert sum(p.numel() for p in method_of(first).build().parameters()) <= 8_000_000
    for run in (first, second):
        ril = run.method.ril
        assert (ril.own > 0, ril.uncommit, ril.quality_on) == (True, True, "all")
        assert run.task.efforts
        assert run.model.loops in run.method.loops


def test_the_papers_recipes_have_none_of_it():
    for name in ("sudoku-paper", "lm1b", "lm1b-ril", "lm1b-ril-nc", "owt", "owt-ril", "tinygsm"):
        assert name in RECIPES
        run = recipe(name)
        ril = run.method.ril
        assert (ril.own, ril.quality_on, run.method.loops) == (0.0, "supervised", ())
        assert (run.sample.check, run.sample.rule, run.sample.loops) == (0, "commit", 0)
