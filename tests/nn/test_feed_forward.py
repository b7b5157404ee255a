"""The feed-forward layer, which fuses its GELU with the product before it on CPUs that support it."""

import pytest
import torch
import torch.nn.functional as F

from dbtm.nn import layers
from dbtm.nn.layers import Affine, FeedForward

joint = pytest.mark.skipif(not layers._has_joint_gelu(), reason="this CPU has no bfloat16 products")


@joint
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("folded", [True, False])
def test_joined_gelu_is_the_gelu(bias, folded, monkeypatch):
    torch.manual_seed(0)
    layer, x = FeedForward(32, 4, bias).bfloat16(), torch.randn(2, 7, 32).bfloat16()
    affine = Affine(torch.rand(32) + 0.5, torch.randn(32), torch.randn(32))
    if folded:
        layer.keep_folded(affine, torch.bfloat16)
        affine = Affine()
    with torch.no_grad():
        assert layers.gelu_joins_products(x)
        joined, _ = layer(x, None, affine)
        up, bias_up = (
            None if y is None else y.double() for y in layer.up.matrices(affine._replace(gate=None), x.dtype)
        )
        down, bias_down = (
            None if y is None else y.double() for y in layer.down.matrices(Affine(gate=affine.gate), x.dtype)
        )
        want = F.linear(F.gelu(F.linear(x.double(), up, bias_up), approximate="tanh"), down, bias_down)
        monkeypatch.setattr(layers, "gelu_joins_products", lambda x: False)
        plain, _ = layer(x, None, affine)
    error, usual = ((y.double() - want).norm() / want.norm() for y in (joined, plain))
    assert error <= 1.1 * usual  # one rounding less
    assert usual <= 0.01


@joint
def test_it_is_for_sampling_alone():
    x = torch.randn(3, 32).bfloat16()
    assert not layers.gelu_joins_products(x)  # grad mode
    with torch.no_grad():
        assert not layers.gelu_joins_products(x.float())
        assert not layers.gelu_joins_products(x.to("meta"))
