"""The four-block comparison and the lower bounds of attention and sampler."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dbtm.bench import attention
from dbtm.bench.sampler import prior_floors
from dbtm.config import ModelConfig, Shape
from dbtm.kernels.dispatch import force
from dbtm.nn import Backbone
from dbtm.simplex import interpolate

CPU = torch.device("cpu")
B, L, V = 8, 24, 300


def model_and_state():
    torch.manual_seed(0)
    model = Backbone(Shape(V, L), ModelConfig(width=64, depth=3, heads=2, dropout=0.0, softcap=0.0))
    torch.nn.init.normal_(model.head.weight)
    tokens, noise = torch.randint(0, V, (B, L)), torch.randn(B, L, V)
    clean, t = torch.zeros_like(tokens, dtype=torch.bool), torch.rand(B, 1).expand(B, L)
    return model, interpolate(tokens, noise, clean, t)


def test_flops_by_hand():
    model, state = model_and_state()
    step = attention._ours(model, state, compiled=False)
    with force("reference"), FlopCounterMode(display=False) as counter:
        step()
    head = 4 * 2 * B * L * V * model.config.width  # a custom operator, which the counter skips
    assert B * attention.step_flops(model.config, model.shape) == pytest.approx(
        counter.get_total_flops() + head, rel=0.06
    )


def test_both_sides_have_the_same_gradient():
    grads = []
    for build in (attention._ours, attention._by_jvp):
        model, state = model_and_state()
        for p in model.parameters():
            p.data += 0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()))
        build(model, state, False)()
        grads.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    ours, theirs = grads
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-4 * theirs[name].abs().max().item())


def test_the_ways_of_a_cpu():
    (first, _) = attention.measure_steps(CPU, 1)
    assert first["best"] == {"ours": "plain", "jvp": "plain"}
    assert first["speed"] == pytest.approx(first["ms"]["plain"]["jvp"] / first["ms"]["plain"]["ours"])
    assert first["refused"] == {}
    assert first["floor_ms"] > 0


def test_floors_of_the_prior():
    """1,000 rows at V = 100, D = 10: 2 MFLOP dense, 0.2 with the factor; 200,000 bytes are written and read."""
    floors = prior_floors(1000, 100, 10, 2, peak=1e9, rate=1e12)
    assert floors == pytest.approx({"dense": 2.0, "in chunks": 2.0, "cholesky": 0.2})
    floors = prior_floors(1000, 100, 10, 2, peak=1e15, rate=1e6)
    assert floors == pytest.approx({"dense": 420.0, "in chunks": 20.0, "cholesky": 60.0})
