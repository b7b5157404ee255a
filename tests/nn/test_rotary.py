"""Rotary positions against their definition in complex numbers, which depends only on the distance of two positions."""

import pytest
import torch

from dbtm.nn.layers import Attention, rotary_angles
from tests.conftest import random_map

pytestmark = pytest.mark.usefixtures("double")


@pytest.mark.parametrize("softcap", [0.0, 0.5])
def test_attention_logits_depend_on_distances(softcap):
    """s_lm = Re sum_j conj(q_lj) k_mj e^(i (m - l) theta_j) / sqrt(d), theta_j = 10000^(-2j/d), pair by pair."""
    torch.manual_seed(0)
    L, H, d = 6, 2, 8
    layer, x = Attention(H * d, H, softcap), torch.randn(3, L, H * d)
    q, k, v = (x @ layer.qkv.weight.T).view(3, L, 3, H, d).unbind(2)
    s = torch.zeros(3, H, L, L)
    for l in range(L):
        for m in range(L):
            for j in range(d // 2):
                pair_q, pair_k = (torch.complex(y[..., j], y[..., j + d // 2]) for y in (q[:, l], k[:, m]))
                turn = torch.tensor((m - l) * 10000.0 ** (-2 * j / d))
                s[..., l, m] += (pair_q.conj() * pair_k * torch.polar(torch.ones(()), turn)).real / d**0.5
    s = softcap * torch.tanh(s / softcap) if softcap else s
    want = torch.einsum("bhlm,bmhd->blhd", s.softmax(-1), v).flatten(2) @ layer.out.weight.T
    got, _ = layer(x, None, rotary_angles(L, d, torch.device("cpu"), torch.float64))
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rotary", [True, False])
def test_they_are_all_the_map_knows_of_order(rotary):
    """Trunk and quality head: without them, permuted positions give permuted outputs."""
    model = random_map().double()
    if not rotary:
        model.rotary = lambda *sizes: None
    x, tokens = torch.randn(2, 9, 7), torch.randint(0, 7, (2, 9))
    order = torch.randperm(9)
    trunk, permuted = (model.hidden(model.embed_dense(y)[0])[0] for y in (x, x[:, order]))
    assert torch.allclose(permuted, trunk[:, order]) != rotary
    q = model.quality_logits(trunk, tokens)
    assert torch.allclose(model.quality_logits(trunk[:, order], tokens[:, order]), q[:, order]) != rotary
