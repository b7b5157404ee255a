"""A network with time inputs: its tangent against forward-mode autodiff, per sequence and per token."""

import pytest
import torch
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from dbtm.config import ModelConfig, Shape
from dbtm.nn import Backbone
from dbtm.nn.condition import FEATURES, TimeEmbedding, time_features

pytestmark = pytest.mark.usefixtures("double")
B, L, V = 2, 5, 7
SIZES = {"width": 16, "depth": 2, "heads": 2, "cond_dim": 8, "dropout": 0.0, "softcap": 3.0}


def network(times: int, **others) -> Backbone:
    """Weights away from their initial values: adaLN-zero would hide the condition."""
    torch.manual_seed(0)
    model = Backbone(Shape(V, L), ModelConfig(**SIZES, **others), times=times).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def times_of(shape, count):
    return tuple(torch.rand(shape) for _ in range(count)), tuple(torch.randn(shape) for _ in range(count))


def test_features_are_cosines_and_sines_of_falling_frequencies():
    t = torch.tensor([0.0, 0.7])
    features, _ = time_features(t)
    assert features.shape == (2, FEATURES)
    torch.testing.assert_close(features[0], torch.cat((torch.ones(128), torch.zeros(128))))
    torch.testing.assert_close(features[1, 64], torch.cos(t[1] * 10_000 ** (-64 / 128)))
    torch.testing.assert_close(features[1, 128], torch.sin(t[1]))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("shape", [(B,), (B, L)])
@pytest.mark.parametrize("sum_first", [False, True])
def test_embedding_of_times_and_its_tangent(count, shape, sum_first):
    torch.manual_seed(1)
    embedding, (times, rates) = TimeEmbedding(6, count, sum_first), times_of(shape, count)
    got, tangent = embedding(times, rates)
    want, want_tangent = jvp(lambda *t: embedding(t)[0], times, rates)
    assert got.shape == (B, 1 if len(shape) == 1 else L, 6)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(tangent, want_tangent)


def test_several_times_add_up_after_the_last_activation_or_before_it():
    torch.manual_seed(1)
    (s, t), _ = times_of((B,), 2)
    after, before = TimeEmbedding(6, 2), TimeEmbedding(6, 2, sum_first=True)
    before.load_state_dict(after.state_dict())
    one, two = (
        down(torch.nn.functional.silu(up(time_features(x)[0])[0]))[0]
        for x, up, down in zip((s, t), after.up, after.down, strict=True)
    )
    silu = torch.nn.functional.silu
    torch.testing.assert_close(after((s, t))[0][:, 0], silu(one) + silu(two))
    torch.testing.assert_close(before((s, t))[0][:, 0], silu(one + two))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("shape", [(B,), (B, L)])
@pytest.mark.parametrize("through", ["state", "time", "both"])
def test_the_tangent_enters_through_the_state_the_condition_or_both(count, shape, through):
    model = network(count)
    x, dx = torch.randn(B, L, V), torch.randn(B, L, V)
    times, rates = times_of(shape, count)
    if through == "state":
        rates = (None,) * count
    if through == "time":
        dx = None
    h, dh = model.embed_dense(x, dx)
    trunk, dtrunk = model.hidden(h, dh, times, rates)
    got, tangent = model.head(trunk, dtrunk)

    def logits(x, *t):
        return model.logits(model.embed_dense(x)[0], times=t)[0]

    moved = torch.zeros_like(x) if dx is None else dx
    with sdpa_kernel(SDPBackend.MATH):
        want, want_tangent = jvp(logits, (x, *times), (moved, *(torch.zeros(shape) if r is None else r for r in rates)))
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(tangent, want_tangent)
    assert not tangent.requires_grad
    assert got.requires_grad


def test_a_time_per_token_moves_that_token_alone_where_nothing_mixes():
    """adaLN of a position reads its own time: with attention's output set to zero, the others do not change."""
    model = network(1)
    with torch.no_grad():
        for block in model.trunk.blocks:
            block.attention.out.weight.zero_()
    h = model.embed_tokens(torch.randint(0, V, (1, L)))
    t = torch.full((1, L), 0.4)
    later = t.clone()
    later[0, 2] = 0.9
    moved = (model.hidden(h, times=(t,))[0] != model.hidden(h, times=(later,))[0]).any(-1)[0]
    assert moved.tolist() == [False, False, True, False, False]


def test_one_time_for_all_tokens_is_a_time_per_token_that_is_the_same():
    model, h, t = network(2), torch.randn(B, L, 16), (torch.rand(B), torch.rand(B))
    by_token = tuple(each[:, None].expand(B, L) for each in t)
    torch.testing.assert_close(model.hidden(h, times=t)[0], model.hidden(h, times=by_token)[0])


def test_a_wrong_number_of_times_is_refused():
    model, h = network(1), torch.randn(B, L, 16)
    with pytest.raises(ValueError, match="reads 1 time"):
        model.hidden(h, times=(torch.rand(B), torch.rand(B)))
    with pytest.raises(ValueError, match="reads 1 time"):
        model.hidden(h)


def test_folding_leaves_a_timed_network_as_it_is():
    model, h, t = network(1), torch.randn(B, L, 16), (torch.rand(B),)
    before = model.hidden(h, times=t)[0]
    torch.testing.assert_close(model.fold().hidden(h, times=t)[0], before)


def test_extra_ids_are_embedded_and_never_predicted():
    torch.manual_seed(0)
    model = Backbone(Shape(V, L), ModelConfig(**SIZES), extra_ids=2)
    assert model.embedding.shape == (V + 2, 16)
    assert model.logits(model.embed_tokens(torch.full((1, L), V + 1)))[0].shape == (1, L, V)
    torch.testing.assert_close(model.embed_tokens(torch.tensor([[V]]))[0, 0], model.embedding[V].detach())
    x = torch.randn(1, L, V)
    torch.testing.assert_close(model.embed_noise(x), x @ model.embedding[:V])
