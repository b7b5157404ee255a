"""A run by the clock: how many steps fit, and that the schedule is the one of a run of that length."""

from dataclasses import replace

import pytest
import torch

from dbtm.config import DistillConfig
from dbtm.errors import UsageError
from dbtm.train import checkpoint, pace
from dbtm.train.loop import fit
from tests.train.test_resume import tiny_run

CPU = torch.device("cpu")


def test_the_steps_that_fit(monkeypatch):
    """Two steps a second after a slow start: 100 s from step 7 on, 30 of them gone at the hundredth step."""
    now = [1000.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    clock = pace.Pace(100 / 60, first_step=7)
    answers = []
    for step in range(8, 120):
        now[0] += 0.5 if step > 7 + pace.SETTLING else 1.0
        answers.append(clock.steps(step, CPU))
    known = [a for a in answers if a is not None]
    assert known == [7 + 100 + int(pace.RESERVE * 2 * (100 - 20 - 40))]


def test_a_run_by_the_clock_ends_and_says_how_long_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(pace, "SETTLING", 2)
    monkeypatch.setattr(pace, "MEASURED", 3)
    config = tiny_run(distill=DistillConfig())
    folder = fit(config, tmp_path, minutes=0.02)
    steps = checkpoint.read_json(folder, "config")["train"]["steps"]
    assert 5 <= steps < pace.OPEN
    assert checkpoint.read_json(folder, "state")["step"] == steps


def test_a_cosine_must_know_its_length(tmp_path):
    config = tiny_run()
    with pytest.raises(UsageError, match="wsd"):
        fit(replace(config, optim=replace(config.optim, schedule="cosine")), tmp_path, minutes=1)
