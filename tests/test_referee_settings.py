"""benchmarks/referee_settings.py: its trials are runs that exist, and the comparison's own settings are among them."""

import pytest

from dbtm.config import override
from dbtm.recipes import recipe
from dbtm.service.refereeing import RefereeRequest, planned
from dbtm.service.refereeing.entries import COMPARISONS
from tests.scripts import load_script


@pytest.fixture(scope="module")
def script():
    return load_script("referee_settings")


def entry(tmp_path, task, words=()):
    changes = tuple(word for word in words if word.startswith("dbtm:"))
    return (
        planned(RefereeRequest(task=task, folder=tmp_path, methods=("dbtm",), changes=changes)).entries["dbtm"].config
    )


@pytest.mark.parametrize("task", ["markov", "sudoku-mini"])
def test_a_trial_is_the_recipe_with_its_settings(script, task, tmp_path):
    for trial, settings in script.TRIALS[task].items():
        made = entry(tmp_path, task, script.words(tmp_path, task, trial))
        want = override(recipe(COMPARISONS[task].recipe), list(settings))
        assert (made.method, made.sample) == (want.method, want.sample)


@pytest.mark.parametrize("task", ["markov", "sudoku-mini"])
def test_the_comparison_takes_one_of_the_trials(script, task, tmp_path):
    ours = entry(tmp_path, task)
    tried = [entry(tmp_path, task, script.words(tmp_path, task, trial)) for trial in script.TRIALS[task]]
    assert sum((each.method, each.sample) == (ours.method, ours.sample) for each in tried) == 1
