"""The causal trunk: no position reads a later one, and a cache changes only the cost."""

import pytest
import torch

from dbtm.config import ModelConfig, Shape
from dbtm.core.errors import UsageError
from dbtm.kernels.causal import causal_attention
from dbtm.nn import Backbone, Cache

pytestmark = pytest.mark.usefixtures("double")
B, L, V = 3, 7, 5


def network(**others) -> Backbone:
    torch.manual_seed(0)
    sizes = {"width": 16, "depth": 2, "heads": 2, "cond_dim": 4, "dropout": 0.0, "softcap": 0.0} | others
    model = Backbone(Shape(V, L), ModelConfig(**sizes), extra_ids=1, causal=True).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


KINDS = [{}, {"softcap": 4.0}, {"conv_width": 3}, {"loops": 2}, {"input_norm": True}]


@pytest.mark.parametrize("softcap", [0.0, 2.0])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_attention_is_softmax_over_earlier_positions(softcap, n):
    torch.manual_seed(2)
    q, k, v = (torch.randn(B, 2, L, 4) for _ in range(3))
    got = causal_attention(q[..., L - n :, :], k, v, softcap)
    for row in range(L - n, L):
        logits = torch.einsum("bhd,bhmd->bhm", q[..., row, :], k[..., : row + 1, :]) / 2.0
        logits = softcap * torch.tanh(logits / softcap) if softcap else logits
        want = torch.einsum("bhm,bhmd->bhd", logits.softmax(-1), v[..., : row + 1, :])
        torch.testing.assert_close(got[..., row - (L - n), :], want)


@pytest.mark.parametrize("kind", KINDS)
def test_no_position_sees_a_later_one(kind):
    model, tokens = network(**kind), torch.randint(0, V, (B, L))
    before = model.logits(model.embed_tokens(tokens))[0]
    changed = tokens.clone()
    changed[:, 4] = (changed[:, 4] + 1) % V
    after = model.logits(model.embed_tokens(changed))[0]
    torch.testing.assert_close(before[:, :4], after[:, :4], rtol=0, atol=0)
    assert (before[:, 4:] != after[:, 4:]).any(-1).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pieces", [(1,) * 7, (3, 1, 1, 2), (7,)])
@pytest.mark.parametrize("folded", [True, False])
def test_cached_logits_are_the_uncached_ones(kind, pieces, folded):
    model, tokens = network(**kind), torch.randint(0, V + 1, (B, L))
    want = model.logits(model.embed_tokens(tokens))[0]
    if folded:
        model.fold()
    cache, got = Cache(), []
    for piece in tokens.split(pieces, 1):
        got.append(model.head(model.hidden(model.embed_tokens(piece), cache=cache)[0])[0])
    torch.testing.assert_close(torch.cat(got, 1), want, rtol=1e-10, atol=1e-10)
    assert cache.length == L


def test_learned_positions_go_on_where_the_cache_ends():
    model = network(position_axes=(L,))
    model.position_ids.copy_(torch.arange(L)[:, None])
    tokens, cache = torch.randint(0, V, (B, L)), Cache()
    want = model.hidden(model.embed_tokens(tokens))[0]
    got = [model.hidden(model.embed_tokens(tokens[:, l : l + 1]), cache=cache)[0] for l in range(L)]
    torch.testing.assert_close(torch.cat(got, 1), want)


def test_what_has_no_causal_form_is_refused():
    with pytest.raises(UsageError, match="no causal form"):
        Backbone(Shape(V, L), ModelConfig(width=16, depth=4, heads=2, backbone="delta"), causal=True)
    model = network()
    h = torch.randn(B, L, 16)
    with pytest.raises(ValueError, match="no tangent"):
        model.hidden(h, h)
