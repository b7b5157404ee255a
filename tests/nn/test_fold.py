"""A map with folded constants: the same function, never a stale one."""

import copy

import torch

from dbtm.config import Shape
from tests.conftest import random_map


def outputs(model, x):
    with torch.no_grad():
        trunk, _ = model.hidden(model.embed_dense(x)[0])
        return model.head(trunk)[0], model.quality_logits(trunk, torch.zeros(x.shape[:2], dtype=torch.int64))


def same(a, b, tolerance=1e-5):
    return all(torch.allclose(x.double(), y.double(), atol=tolerance) for x, y in zip(a, b, strict=True))


def test_folding_changes_nothing():
    for changes in ({}, {"backbone": "delta", "pattern": "gdn,attn"}):
        model = random_map(**changes)
        x = torch.randn(2, model.shape.length, model.shape.vocab)
        before = outputs(model, x)
        assert same(outputs(model.fold(), x), before)
        assert any(module.folded_dtype is not None for module in model.trunk.blocks)


def test_what_may_change_the_weights_undoes_it():
    model, other = random_map(), random_map(seed=5)
    x = torch.randn(2, model.shape.length, model.shape.vocab)
    model.fold().load_state_dict(other.state_dict())
    assert same(outputs(model, x), outputs(other, x))
    wide = copy.deepcopy(model.fold()).double()
    assert same(outputs(wide, x.double()), outputs(other, x), 1e-4)
    model.fold().train()
    model.logits(model.embed_dense(x)[0])[0].sum().backward()
    assert all(p.grad is not None for block in model.trunk.blocks for p in block.parameters())
    model.eval()
    model.fold().compute_dtype = torch.bfloat16  # the folded matrices have another dtype: not used
    half = outputs(model, x)
    model.unfold()
    assert same(outputs(model, x), half, 1e-6)


def test_logits_are_not_rounded_where_nothing_is_trained():
    """Half-precision states, but sums in float32, as in the losses: rounded logits tie, and the lowest token wins."""
    torch.manual_seed(0)
    head = random_map(shape=Shape(500, 9), width=64, heads=2).head
    x = torch.randn(4, 7, 64, dtype=torch.bfloat16)
    with torch.no_grad():
        z, _ = head(x)
    want = x.double() @ head.weight.bfloat16().double().T + head.bias.double()
    torch.testing.assert_close(z.double(), want, rtol=1e-5, atol=1e-4)
    assert z.shape == (4, 7, 500)
