"""Budgets: as many steps as fit, phases and teachers included."""

import pytest

from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.evals.referee.budget import Budget, fitted, with_steps
from dbtm.evals.training_cost import run_flops, training_flops
from dbtm.recipes import recipe

SMALL = ["model.width=16", "model.depth=1", "model.heads=2", "train.batch=8"]


@pytest.mark.parametrize("method", ["dbtm", "mdlm", "ar"])
def test_a_run_has_the_steps_that_fit_and_no_more(method):
    config = override(recipe("markov").by(method), SMALL)
    flops = 41.5 * training_flops(config)
    run = fitted(config, flops)
    assert run.train.steps == 41
    assert run_flops(run) <= flops < run_flops(with_steps(config, 42))


def test_methods_end_within_a_step_of_equal_flops():
    configs = [override(recipe("markov").by(method), SMALL) for method in ("dbtm", "mdlm", "ar")]
    flops = 60 * max(map(training_flops, configs))
    for config in configs:
        assert 0 <= flops - run_flops(fitted(config, flops)) < training_flops(config)


def test_dear_phases_are_paid_for():
    late = ["method.ril.weight=1", "method.ril.depths=[4]", "method.ril.start=30"]
    config = override(recipe("markov"), [*SMALL, *late])
    cheap, dear = training_flops(config, 0), training_flops(config, 30)
    assert dear > 2 * cheap
    assert fitted(config, 30 * cheap + 10.5 * dear).train.steps == 40
    assert fitted(config, 20.5 * cheap).train.steps == 20


def test_a_phase_that_refuses_to_begin_past_the_end():
    late = ["method.posterior.weight=1", "method.reflow.weight=1", "method.reflow.rounds=2", "method.reflow.start=30"]
    config = override(recipe("markov"), [*SMALL, *late])
    cheap, dear = training_flops(config, 0), training_flops(config, 30)
    assert dear > 1.5 * cheap
    assert fitted(config, 30 * cheap + 10.5 * dear).train.steps == 40
    with pytest.raises(UsageError, match=r"method\.reflow\.start=30 is past the end of the run"):
        fitted(config, 20.5 * cheap)


def test_too_small_a_budget_is_refused_in_a_line():
    config = override(recipe("markov"), SMALL)
    with pytest.raises(UsageError, match="one step of 'dbtm' costs"):
        fitted(config, 0.9 * training_flops(config))


def test_a_budget_is_one_of_two():
    assert Budget(flops=10.0).share(0.8) == Budget(flops=8.0)
    assert Budget(minutes=5).share(0.2).minutes == pytest.approx(1)
    for wrong in ({}, {"flops": 1.0, "minutes": 1.0}, {"flops": -1.0}, {"minutes": float("inf")}):
        with pytest.raises(UsageError):
            Budget(**wrong)


def test_a_short_run_warms_up_briefly_and_is_saved_on_the_way():
    run = with_steps(recipe("markov"), 100)
    assert run.optim.warmup == 10
    assert run.train.checkpoint_every == 50
    assert with_steps(recipe("markov"), 1).optim.warmup == 0
