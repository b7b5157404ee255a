"""The cost of a training step, against PyTorch's own counter and against counts by hand."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dbtm.config import override
from dbtm.evals.cost import map_flops
from dbtm.evals.training_cost import Pass, _examples, count_passes, pass_flops, run_flops, training_flops
from dbtm.methods.base import backward, method_of
from dbtm.recipes import recipe

SIZES = ["model.softcap=50", "train.batch=16", "task.vocab=48", "task.length=24", "optim.warmup=1"]  # plain attention


def run(method, *changes):
    return override(recipe("markov").by(method), [*SIZES, *changes])


def pytorch_counts(config):
    """Every product of the step that PyTorch sees."""
    method = method_of(config).start()
    method.network.train()
    examples = method.prepare(_examples(method, config.train.batch, 0))
    with FlopCounterMode(display=False) as counted:
        backward(method, examples)
    return counted.get_total_flops()


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("ar", []),
        ("mdlm", []),
        ("dbtm", []),
        ("dbtm", ["method.loss.boundary_fraction=1"]),
        ("dbtm", ["method.ril.weight=1", "method.ril.depths=[3]"]),
        ("dbtm", ["method.distill.weight=1", "method.distill.start=0", "method.distill.depth=2"]),
    ],
)
def test_a_step_costs_what_pytorch_counts(method, changes):
    """Within 12 %: heads that read fewer rows than there are, one-hots of small vocabularies and adaLN differ."""
    config = run(method, *changes)
    assert training_flops(config) == pytest.approx(pytorch_counts(config), rel=0.12)


def test_causal_attention_is_charged_for_what_it_needs():
    config = run("ar")
    assert training_flops(config) == 3 * 16 * map_flops(config.model, config.shape, causal=True, reads_tokens=True)


def test_passes_of_a_teacher_have_no_backward():
    config = run("dbtm", "method.distill.weight=1", "method.distill.start=0", "method.distill.depth=2")
    passes = count_passes(config)
    assert passes[Pass("map", gradient=False)] == 2 * 16  # two rounds of the teacher
    assert passes[Pass("map", gradient=True)] == 2 * 16  # the student at each of its states


def test_a_tangent_costs_a_pass_and_the_scores_once_more():
    config = run("dbtm", "method.loss.boundary=0")
    with torch.device("meta"):
        value, both = pass_flops(method_of(config).build())
    length, width = config.shape.length, config.model.width
    assert both - 2 * value == 3 * 4 * length**2 * width  # of three blocks
    assert training_flops(config) == 16 * (2 * value + both)
    assert both / value == pytest.approx(2.1, abs=0.06)  # as in the hand count of the paper's step


def test_a_run_costs_its_steps_phase_by_phase():
    config = run("dbtm", "method.ril.weight=1", "method.ril.depths=[2]", "method.ril.start=7", "train.steps=10")
    early, late = training_flops(config, 0), training_flops(config, 7)
    assert late == pytest.approx(early + 2 * 3 * 16 * map_flops(config.model, config.shape))
    assert run_flops(config) == pytest.approx(7 * early + 3 * late)
    assert run_flops(config, 5) == pytest.approx(5 * early)


def test_the_batch_scales_the_cost_and_the_seed_does_not_change_it():
    config = run("mdlm")
    many = replace(config, train=replace(config.train, batch=256, seed=5))
    assert training_flops(many) == 16 * training_flops(config)
