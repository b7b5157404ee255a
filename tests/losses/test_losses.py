"""Values and gradients of every loss against a plain autograd transcription of the paper's formula, in float64."""

import pytest
import torch
from torch.func import jvp

from dbtm import losses
from dbtm.losses import reference
from tests.conftest import random_map
from tests.nn.test_tangent import random_state

pytestmark = pytest.mark.usefixtures("double")

B, L, V = 3, 5, 6
C, R = 0.7, 0.4  # c and r of the adaptive weight, not their defaults


@pytest.fixture
def logits():
    torch.manual_seed(0)
    return torch.randn(B, L, V, requires_grad=True)


@pytest.fixture
def tokens():
    torch.manual_seed(1)
    return torch.randint(0, V, (B, L))


def sg(x):
    return x.detach()


def one_hot(tokens, vocab=V):
    e = torch.zeros(*tokens.shape, vocab)
    for b in range(tokens.shape[0]):
        for l in range(tokens.shape[1]):
            e[b, l, tokens[b, l]] = 1
    return e


def cross_entropy(p, target):
    return -(target * p.log()).sum(-1)


def weighted_ce(logits, tokens, c=C, r=R):
    p, e = logits.softmax(-1), one_hot(tokens)
    return sg(((p - e) ** 2).sum(-1) + c) ** -r * cross_entropy(p, e)


def same(got, want, *inputs):
    """Equal values, and equal gradients under a random weighting of the tokens."""
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
    torch.manual_seed(9)
    weight = torch.randn_like(want)
    for g, w in zip(
        torch.autograd.grad((got * weight).sum(), inputs, retain_graph=True),
        torch.autograd.grad((want * weight).sum(), inputs, retain_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(g, w, rtol=1e-9, atol=1e-12)
        assert g.abs().max() > 0


def test_transport(logits):
    dlogits = torch.randn(B, L, V)
    T, dT = jvp(lambda z: z.softmax(-1), (logits,), (dlogits,))
    residual = T - sg(T + dT)
    want = sg((residual**2).sum(-1) + C) ** -R * (residual**2).sum(-1)
    same(reference.transport(logits, dlogits, C, R), want, logits)


def test_transport_through_the_whole_map():
    """d/dtheta of the loss is the same with our tangent and with the tangent of torch.func.jvp."""
    model, state = random_map(dropout=0.0, quality=None), random_state()
    z, dz = model.logits(*model.embed(state))
    got = reference.transport(z, dz).sum()
    T, dT = jvp(lambda x: model.logits(model.embed_dense(x)[0])[0].softmax(-1), (state.dense(),), (state.velocity(),))
    residual = T - sg(T + dT)
    want = (sg((residual**2).sum(-1) + 1.0) ** -0.5 * (residual**2).sum(-1)).sum()
    parameters = [p for n, p in model.named_parameters()]
    for g, w in zip(torch.autograd.grad(got, parameters), torch.autograd.grad(want, parameters), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-8, atol=1e-10)


def test_softmax_tangent_sums_to_zero(logits):
    dT = reference.softmax_tangent(logits.softmax(-1), torch.randn(B, L, V))
    assert dT.sum(-1).abs().max() < 1e-14


def test_boundary(logits, tokens):
    same(reference.boundary(logits, tokens, C, R), weighted_ce(logits, tokens), logits)
    plain = cross_entropy(logits.softmax(-1), one_hot(tokens))
    same(reference.boundary(logits, tokens, r=0), plain, logits)


def test_anchor(logits, tokens):
    t, free = torch.rand(B, L), torch.arange(B * L).view(B, L) % 2 == 0
    assert all((late & kind).any() for late in (t > 0.4, t <= 0.4) for kind in (free, ~free))
    want = torch.stack(
        [
            torch.stack([w if t[b, l] > 0.4 and free[b, l] else 0 * w for l, w in enumerate(row)])
            for b, row in enumerate(weighted_ce(logits, tokens))
        ]
    )
    same(reference.anchor(logits, tokens, t, free, 0.4, C, R), want, logits)


def test_semigroup(logits):
    iterates = [torch.randn(B, L, V, requires_grad=True) for _ in range(2)]
    want = sum(cross_entropy(logits.softmax(-1), sg(z.softmax(-1))) for z in iterates)
    got = losses.semigroup(logits, [z.softmax(-1) for z in iterates])
    same(got, want, logits)
    assert torch.autograd.grad(got.sum(), iterates[0], allow_unused=True)[0] is None


@pytest.mark.parametrize("positive_weight", [1.0, 3.0])
def test_quality(tokens, positive_weight):
    q_logits, proposed = torch.randn(B, L, requires_grad=True), tokens.clone()
    proposed[:, ::2] = (proposed[:, ::2] + 1) % V
    q, right = q_logits.sigmoid(), (proposed == tokens).double()
    want = -(positive_weight * right * q.log() + (1 - right) * (1 - q).log())
    same(losses.quality(q_logits, proposed, tokens, positive_weight), want, q_logits)
    counted = torch.rand(B, L) < 0.5
    same(reference.ril_quality(q_logits, proposed, tokens, counted, positive_weight), want * counted, q_logits)


def test_refinement_losses(logits, tokens):
    final, counted = torch.randn(B, L, V, requires_grad=True), torch.rand(B, L) < 0.6
    soft = cross_entropy(logits.softmax(-1), sg((final / 0.7).softmax(-1)))
    target_p = reference.soft_target(final, 0.7)
    same(reference.ril_c(logits, tokens, counted, C, R), weighted_ce(logits, tokens) * counted, logits)
    same(reference.ril_nc(logits, tokens, counted, C, R), weighted_ce(logits, tokens) * counted, logits)
    same(reference.soft_ril_c(logits, target_p, counted), soft * counted, logits)
    same(reference.soft_ril_nc(logits, target_p, counted), soft * counted, logits)
    same(
        reference.semi_r(logits, final, counted),
        cross_entropy(logits.softmax(-1), sg(final.softmax(-1))) * counted,
        logits,
    )
    assert not target_p.requires_grad


def test_total_has_one_denominator():
    """For any positions of a term: sums divided by the same count add up."""
    per_token, count = torch.rand(B, L), torch.tensor(11.0)
    assert losses.total(per_token, count).item() == pytest.approx(per_token.sum().item() / 11)
    parts = torch.rand(B, L) < 0.5
    split = losses.total(per_token * parts, count) + losses.total(per_token * ~parts, count)
    assert split.item() == pytest.approx(losses.total(per_token, count).item())


def test_objective_is_the_weighted_sum():
    terms = {"transport": torch.tensor(2.0), "anchor": torch.tensor(3.0), "ril_quality": torch.tensor(5.0)}
    weights = {"transport": 1.0, "anchor": 0.5, "ril_quality": 0.1, "semigroup": 7.0}
    assert losses.objective(terms, weights).item() == pytest.approx(2 + 1.5 + 0.5)
