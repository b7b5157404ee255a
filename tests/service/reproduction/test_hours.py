"""GPU hours against the measured step times themselves, and FLOPs of a step against those PyTorch counts."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dbtm.bench.step import random_examples
from dbtm.config import ModelConfig
from dbtm.evals.step_cost import planned_flops, step_flops
from dbtm.kernels.dispatch import force
from dbtm.methods.base import backward
from dbtm.methods.dbtm import DBTM, Config, DistillConfig, QualityConfig, RilConfig
from dbtm.recipes import recipe
from dbtm.service.reproduction import results
from dbtm.service.reproduction.hours import training_hours
from tests.train.test_resume import tiny_run


def milliseconds(name: str) -> dict[str, float]:
    return {row["step"]: row["ms"] for row in results.read(f"bench-step-{name}")["rows"]}


def test_hours_are_steps_times_the_measured_milliseconds():
    """`lm1b` was measured with 256 rows and trains with 512; rollouts of `sudoku-paper` were measured on their own."""
    text = 250_000 * 2 * milliseconds("lm1b")["boundary on all rows"] / 3.6e6
    assert training_hours(recipe("lm1b")).hours == pytest.approx(text, rel=0.02)
    ms = milliseconds("sudoku-paper")
    rollouts = ms["with ril, k = 4"] - ms["transport + anchor + boundary"]
    sudoku = 200_000 * (ms["boundary on all rows"] + rollouts) / 3.6e6
    assert training_hours(recipe("sudoku-paper")).hours == pytest.approx(sudoku, rel=0.05)
    assert "results/bench-step-sudoku-paper.json" in training_hours(recipe("sudoku-paper")).how


def test_rollouts_count_from_their_start():
    base = recipe("lm1b-ril")
    method = base.method
    assert isinstance(method, Config)
    without = replace(base, method=replace(method, ril=RilConfig(), distill=DistillConfig()))
    always = replace(
        base, method=replace(method, ril=replace(method.ril, start=0), distill=replace(method.distill, start=0))
    )
    assert (method.ril.start, base.train.steps) == (100_000, 250_000)
    expected = 0.4 * planned_flops(without) + 0.6 * planned_flops(always)
    assert planned_flops(base) == pytest.approx(expected)


def test_self_distillation_costs_what_pytorch_counts():
    base = tiny_run()
    model = ModelConfig(width=32, depth=3, heads=2, dropout=0.0, softcap=0.0, cond_dim=8)
    method = base.method
    assert isinstance(method, Config)
    config = replace(
        base,
        task=replace(base.task, vocab=70, length=16),
        model=model,
        method=replace(
            method,
            path=replace(method.path, coupling="independent"),
            ril=RilConfig(),
            quality=QualityConfig(enabled=False),
            distill=DistillConfig(weight=1.0, depth=3, start=0),
            loss=replace(method.loss, quality=0.0),
        ),
    )
    plain = replace(config, method=replace(config.method, distill=DistillConfig()))
    counted = [_count(each) for each in (config, plain)]
    ours = [step_flops(each, 64) for each in (config, plain)]
    assert ours[0] - ours[1] == pytest.approx(counted[0] - counted[1], rel=0.1)


def _count(config) -> float:
    run = DBTM(config).start()
    examples = random_examples(config.shape, 64, torch.device("cpu"))
    with force("reference"), FlopCounterMode(display=False) as counter:
        backward(run, examples)
    return counter.get_total_flops()
