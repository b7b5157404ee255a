"""Measures and their intervals, against SciPy and closed forms."""

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap

from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.evals.referee.measures import METRICS, Settings, measure, place_distance, pooled_distance
from dbtm.recipes import recipe
from dbtm.tasks.toy import Markov
from tests.evals.tiny import chain, random_sampler


def test_the_distance_is_the_tasks_own():
    task = Markov(vocab=4, length=5)
    tokens = np.random.default_rng(0).integers(0, 4, (500, 5))
    found = place_distance(tokens, task.pairs.ravel(), 4)
    assert found.value == pytest.approx(task.pair_distance(tokens), abs=1e-12)


def test_its_interval_is_as_wide_as_the_bootstraps():
    """Where samples are far from the truth the signs stay, and the delta method is the bootstrap's limit."""
    task = Markov(vocab=3, length=3)
    tokens = np.random.default_rng(1).choice(3, size=(800, 3), p=[0.1, 0.1, 0.8])
    found = place_distance(tokens, task.pairs.ravel(), 3)
    index = np.arange(len(tokens))
    again = bootstrap(
        (index,),
        lambda rows: task.pair_distance(tokens[rows]),
        vectorized=False,
        n_resamples=1500,
        method="basic",
        rng=np.random.default_rng(2),
    )
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * again.standard_error, rel=0.1)


def test_pooled_places_are_one_distribution():
    cells = np.array([[0, 1], [1, 2], [2, 2]])
    truth = np.array([0.5, 0.25, 0.25])
    by_hand = 0.5 * (abs(1 / 6 - 0.5) + abs(2 / 6 - 0.25) + abs(3 / 6 - 0.25))
    assert pooled_distance(cells, truth).value == pytest.approx(by_hand)


@pytest.mark.parametrize("method", ["dbtm", "mdlm"])
@pytest.mark.parametrize("asked", [1, 2, 5])
def test_a_budget_is_kept_and_counted_at_the_network(method, asked):
    """The evaluations in the row are those that the trunk saw, counted around it."""
    sampler = random_sampler(chain(method, length=6))
    seen = []
    hook = sampler.network.trunk.register_forward_hook(lambda module, inputs, output: seen.append(len(output[0])))
    row = measure(sampler, asked, Settings(n=40, seed=3))
    hook.remove()
    assert row.most <= asked
    assert len(seen) <= asked * -(-row.n // row.batch)
    assert row.used * row.n == pytest.approx(sum(seen))
    if method == "mdlm":
        assert row.most == asked


def test_a_method_without_a_budget_has_its_own_count():
    row = measure(random_sampler(chain("ar", length=6)), None, Settings(n=8))
    assert row.document()["asked"] is None
    assert row.used == 6


def test_a_sampler_that_overruns_is_refused():
    sampler = random_sampler(chain("mdlm", length=6))
    own = sampler.method.sample

    def greedy(network, given, options, seed, watch):
        watch.counted(lambda: None)()
        return own(network, given, options, seed, watch)

    sampler.method.sample = greedy
    with pytest.raises(UsageError, match="used 3 network evaluations with a budget of 2"):
        measure(sampler, 2, Settings(n=8))


def test_puzzles_are_the_same_for_all_and_the_share_has_wilsons_interval():
    config = override(recipe("sudoku-mini").by("mdlm"), ["task.pool=50", "model.width=16", "model.depth=1"])
    torch.manual_seed(0)
    sampler = random_sampler(config)
    row = measure(sampler, 2, Settings(n=10)).document()
    assert row["n"] == 10
    assert 0 <= row["value_low"] <= row["value"] <= row["value_high"] <= 1
    assert row["value_high"] > 0, "not even 0 of 10 is certain"


def test_every_metric_says_which_way_is_better():
    assert METRICS["markov"].better(0.1, 0.2)
    assert METRICS["sudoku"].better(0.2, 0.1)
