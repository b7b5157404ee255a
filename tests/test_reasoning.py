"""benchmarks/reasoning.py: how ways are named, and what "stable" is worth."""

import numpy as np
import pytest

from dbtm.methods.dbtm import Options
from dbtm.recipes import recipe
from tests.scripts import load_script


@pytest.fixture(scope="module")
def script():
    return load_script("reasoning")


def test_every_way_is_a_way_to_sample(script):
    assert script.options_of("4") == {"nfe": 4, "check": 0}
    assert script.options_of("4+12") == {"nfe": 4, "check": 12}
    assert script.options_of("revise-16") == {"nfe": 16, "rule": "revise"}
    for task in ("maze", "colouring", "sat"):
        sample = recipe(f"{task}-mini").sample
        assert all(isinstance(sample.changed("dbtm", script.options_of(way)), Options) for way in script.WAYS)


def test_precision_and_recall(script):
    right, stable = np.array([1, 1, 1, 0, 0], bool), np.array([1, 1, 0, 1, 0], bool)
    found = script.judged(right, stable, np.array([2, 4, 6, 8, 10]))
    assert found == {
        "n": 5, "solved": 0.6, "nfe": 6.0, "stable": 3, "stable_and_right": 2, "precision": 2 / 3, "recall": 2 / 3
    }  # fmt: skip
    none = script.judged(~right & right, stable & ~stable, np.ones(5))
    assert (none["precision"], none["recall"]) == (None, None)
    assert script.judged(right, None, np.ones(5)) == {"n": 5, "solved": 0.6, "nfe": 1.0}
