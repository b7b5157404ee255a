"""The hand count of FLOPs against PyTorch's own counter on the real networks."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dbtm.config import Shape, override
from dbtm.evals.cost import cost, cost_of_run, map_flops, parameters, quality_flops
from dbtm.methods.dbtm import QualityConfig
from dbtm.nn import Backbone
from dbtm.recipes import recipe
from tests.conftest import QUALITY, SHAPE, random_map, tiny_config
from tests.evals.tiny import chain, random_sampler


@pytest.mark.parametrize(
    ("changes", "shape", "quality"),
    [
        ({}, SHAPE, QUALITY),
        ({"loops": 3, "ffn": 2}, SHAPE, QUALITY),
        ({"self_condition": True}, SHAPE, QUALITY),
        ({}, Shape(vocab=30, length=20), QualityConfig(width=8, depth=2, heads=2)),
    ],
)
def test_the_count_is_pytorchs(changes, shape, quality):
    config = tiny_config(**changes)  # its softcap sends attention through plain products, which the counter sees
    model = random_map(shape=shape, quality=quality, **changes).fold()  # as it samples: constants are in the matrices
    x = torch.randn(1, shape.length, shape.vocab)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        trunk, _ = model.hidden(model.condition(model.embed_dense(x)[0], x))
        model.head(trunk)
    assert counted.get_total_flops() == map_flops(config, shape)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        model.quality_logits(trunk, torch.zeros(1, shape.length, dtype=torch.int64))
    attention = quality.depth * 4 * shape.length**2 * quality.width  # in one fused call on the CPU
    expected = quality_flops(model.quality, config.width, shape.length)
    assert counted.get_total_flops() in (expected, expected - attention)


def test_the_count_of_the_delta_rule():
    """PyTorch counts the products it sees: the inverse and the pass over the states are hidden in two operators."""
    config, shape = tiny_config(backbone="delta", pattern="gdn", width=32, heads=2), Shape(vocab=7, length=192)
    model = random_map(shape=shape, backbone="delta", pattern="gdn", width=32, heads=2).fold()
    x = torch.randn(1, shape.length, shape.vocab)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        model.logits(model.embed_dense(x)[0])
    C, d, scans = 64, 16, config.depth * config.heads * 2 * 3
    hidden = scans * (2 * d**3 + 2 * C**3 / 3)
    assert counted.get_total_flops() + hidden == pytest.approx(map_flops(config, shape), rel=1e-5)


@pytest.mark.parametrize("loops", [1, 2])
def test_a_sample_of_ar_costs_its_tokens_and_a_cache_saves_the_rest(loops):
    """Every product of a generated sequence, but for the one-hots of a small vocabulary, which stand for a look-up."""
    config = override(chain("ar", length=6), ["model.softcap=50", f"model.loops={loops}"])
    sampler = random_sampler(config)
    sampler.network.fold()
    with FlopCounterMode(display=False) as counted:
        trace = sampler.sample(1)
    assert trace.nfe.tolist() == [6]
    found, width = cost(sampler), config.model.width
    looked_up = 6 * 2 * (sampler.network.shape.vocab + 1) * width
    assert counted.get_total_flops() == found["flops_per_sequence"] + looked_up
    assert found["flops_per_evaluation"] * trace.nfe[0] == found["flops_per_sequence"]
    without = 6 * map_flops(config.model, config.shape, causal=True, reads_tokens=True)
    assert found["flops_per_sequence"] < without / 5


def test_mdlm_reads_tokens_and_pays_for_the_whole_sequence():
    sampler = random_sampler(override(chain("mdlm", length=6), ["model.softcap=50"]))
    sampler.network.fold()
    tokens = torch.zeros(1, 6, dtype=torch.int64)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        h = sampler.network.embed_tokens(tokens)
    looked_up = counted.get_total_flops()
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        sampler.network.logits(h)
    assert counted.get_total_flops() == cost(sampler)["flops_per_evaluation"]
    assert looked_up > 0
    assert cost(sampler).keys().isdisjoint({"flops_map", "flops_quality"}), "it has no quality head"


def test_parameters_are_those_of_the_network():
    model = random_map()
    assert parameters(model) == sum(p.numel() for p in model.parameters())


def test_looped_depth_costs_evaluations_not_parameters():
    base = override(recipe("sudoku-mini"), ["method.quality.enabled=false", "sample.scorer=confidence"])
    once, twice = (cost_of_run(override(base, [f"model.loops={loops}"])) for loops in (1, 2))
    assert once["parameters"] == twice["parameters"]
    assert twice["flops_per_evaluation"] > 1.9 * once["flops_per_evaluation"]
    assert once["flops_quality"] == 0


def test_the_papers_map_is_as_large_as_it_says():
    paper = cost_of_run(recipe("sudoku-paper"))
    assert paper["parameters"] / 1e6 == pytest.approx(30, rel=0.02)
    rule_of_thumb = 2 * paper["parameters"] * paper["length"]  # a product with every weight at every position
    assert paper["flops_per_evaluation"] == pytest.approx(rule_of_thumb, rel=0.1)
    keys = {"width", "depth", "loops", "heads", "length", "vocab", "parameters", "flops_map", "flops_quality"}
    assert paper.keys() == keys | {"flops_per_evaluation"}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("per_token", [False, True])
def test_the_count_of_a_network_that_is_told_the_time(times, per_token):
    config = tiny_config(loops=2)
    network = Backbone(SHAPE, config, times=times, per_token=per_token).eval()
    x = torch.randn(1, SHAPE.length, SHAPE.vocab)
    t = tuple(torch.rand((1, SHAPE.length) if per_token else (1,)) for _ in range(times))
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        network.logits(network.embed_dense(x)[0], times=t)
    assert counted.get_total_flops() == map_flops(config, SHAPE, times=times, per_token=per_token)
