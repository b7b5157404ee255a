"""The hand count of FLOPs against PyTorch's own counter on the real network."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dbtm.evals.cost import cost, map_flops, parameters, quality_flops
from dbtm.recipes import recipe
from tests.conftest import random_map, tiny_config


@pytest.mark.parametrize(
    "changes", [{}, {"loops": 3, "ffn": 2}, {"self_condition": True}, {"length": 20, "vocab": 30, "quality_depth": 2}]
)
def test_the_count_is_pytorchs(changes):
    config = tiny_config(**changes)  # its softcap sends attention through plain products, which the counter sees
    model = random_map(**changes).fix()  # as it samples: constants are in the matrices
    x = torch.randn(1, config.length, config.vocab)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        trunk, _ = model.hidden(model.condition(model.embed_dense(x)[0], x))
        model.head(trunk)
    assert counted.get_total_flops() == map_flops(config)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        model.quality_logits(trunk, torch.zeros(1, config.length, dtype=torch.int64))
    attention = config.quality_depth * 4 * config.length**2 * config.quality_width  # in one fused call on the CPU
    assert counted.get_total_flops() in (quality_flops(config), quality_flops(config) - attention)


def test_the_count_of_the_delta_rule():
    """PyTorch counts the products it sees: the inverse and the pass over the states are hidden in two operators."""
    config = tiny_config(backbone="delta", pattern="gdn", length=192, width=32, heads=2)
    model = random_map(backbone="delta", pattern="gdn", length=192, width=32, heads=2).fix()
    x = torch.randn(1, config.length, config.vocab)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        model.logits(model.embed_dense(x)[0])
    C, d, scans = 64, 16, config.depth * config.heads * 2 * 3
    hidden = scans * (2 * d**3 + 2 * C**3 / 3)
    assert counted.get_total_flops() + hidden == pytest.approx(map_flops(config), rel=1e-5)


def test_parameters_are_those_of_the_map():
    assert parameters(tiny_config()) == sum(p.numel() for p in random_map().parameters())


def test_looped_depth_costs_evaluations_not_parameters():
    once, twice = cost(tiny_config(quality=False)), cost(tiny_config(quality=False, loops=2))
    assert once["parameters"] == twice["parameters"]
    assert twice["flops_per_evaluation"] > 1.9 * once["flops_per_evaluation"]
    assert once["flops_quality"] == 0


def test_the_papers_map_is_as_large_as_it_says():
    paper = cost(recipe("sudoku-paper").model)
    assert paper["parameters"] / 1e6 == pytest.approx(30, rel=0.02)
    rule_of_thumb = 2 * paper["parameters"] * paper["length"]  # a product with every weight at every position
    assert paper["flops_per_evaluation"] == pytest.approx(rule_of_thumb, rel=0.1)
