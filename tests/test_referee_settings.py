"""benchmarks/referee_settings.py: its trials are runs that exist, and the comparison's own settings are among them."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from dbtm.config import override
from dbtm.recipes import recipe
from dbtm.service.refereeing import RefereeRequest, planned
from dbtm.service.refereeing.entries import COMPARISONS

FILE = Path(__file__).parent.parent / "benchmarks" / "referee_settings.py"


@pytest.fixture(scope="module")
def script():
    specification = spec_from_file_location("referee_settings", FILE)
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


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
