"""A bound on the time of a run before its first step."""

from dataclasses import replace

import pytest
import torch

from dbtm.evals import machine
from dbtm.evals.machine import least_seconds, rate
from dbtm.evals.step_cost import planned_flops
from dbtm.evals.training_cost import run_flops
from dbtm.methods import BUILT_IN
from dbtm.recipes import recipe

DAY = 86_400


def test_the_rate_is_that_of_all_threads(monkeypatch):
    monkeypatch.setattr(machine, "SECONDS", 0.01)
    threads = torch.get_num_threads()
    assert 1e8 < rate(64, torch.float32) < 1e14
    assert torch.get_num_threads() == threads


def test_a_short_run_is_not_measured(monkeypatch):
    monkeypatch.setattr(machine, "rate", lambda width, dtype: pytest.fail("measured"))
    assert least_seconds(replace(recipe("markov")), DAY) == 0.0


def test_a_long_run_takes_its_flops_at_the_rate(monkeypatch):
    asked = []
    monkeypatch.setattr(machine, "rate", lambda width, dtype: asked.append((width, dtype)) or 1e11)
    run = recipe("text")
    assert least_seconds(run, DAY) == pytest.approx(planned_flops(run) / 1e11)
    assert asked == [(min(run.model.width, 128), torch.bfloat16 if run.train.precision == "bf16" else torch.float32)]


@pytest.mark.parametrize("method", BUILT_IN)
def test_the_bound_is_below_the_counted_flops_of_every_method(method, monkeypatch):
    monkeypatch.setattr(machine, "rate", lambda width, dtype: 1.0)
    run = recipe("markov").by(method)
    assert 0 < least_seconds(run, 0.0) <= 1.01 * run_flops(run)
