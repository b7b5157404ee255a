"""MDLM+SDTT on the reference problem: the optimum is the geometric mean of the teacher's targets."""

import pytest
import torch

from dbtm.core.errors import UsageError
from dbtm.losses.distill import student_first
from dbtm.methods.sdtt import SDTT
from tests.methods.reference import FIRST, SECOND, Identity, P, V, examples, run_of
from tests.methods.test_mdlm import MASK, exact

OPTIMUM = torch.tensor([0.402159, 0.256074, 0.341767], dtype=torch.float64)


def distilled(**settings):
    method = run_of(SDTT, **settings)
    method.network = exact()
    method.frozen["teacher"] = exact()
    return method


def targets(t, delta):
    """[(weight, distribution of token 1)] from two masks: token 2 was unmasked before it, or not."""
    r = delta / t
    w = r * (1 - r)
    return [(w * float(SECOND[y]), P[:, y] / SECOND[y]) for y in range(V)] + [(1 - w, FIRST)]


def test_the_known_optimum_is_the_geometric_mean():
    mean = sum(weight * p.log() for weight, p in targets(0.8, 0.1)).softmax(-1)
    torch.testing.assert_close(mean, OPTIMUM, atol=1e-6, rtol=0)


def test_the_loss_has_no_gradient_there_and_one_at_the_mean():
    """Forward KL has its optimum at p1, the mean of the targets, so this tests the direction of the KL."""
    weights, laws = zip(*targets(0.8, 0.1), strict=True)
    head, beta = Identity(), torch.tensor(weights, dtype=torch.float64)
    for start, expected in ((sum(w * p.log() for w, p in zip(weights, laws, strict=True)), 0.0), (FIRST.log(), None)):
        logits = start.clone().requires_grad_()
        trunk = logits.expand(len(laws), V)
        loss, kl = student_first(trunk, head, torch.stack(laws).log(), head, beta, torch.arange(len(laws)))
        (gradient,) = torch.autograd.grad(loss, logits)
        p = logits.detach().log_softmax(-1)
        want = (p.exp() * (p - torch.stack(laws).log())).sum(-1)
        torch.testing.assert_close(kl, want)
        if expected is None:
            assert gradient.abs().max() > 1e-3
        else:
            assert gradient.abs().max() < 1e-12


def test_the_teachers_targets_have_that_geometric_mean():
    n = 120_000
    method = distilled()
    z, masked = torch.full((n, 2), MASK), torch.ones(n, 2, dtype=torch.bool)
    t_B = torch.full((n,), 0.8, dtype=torch.float64)
    trunk = method.target(z, masked, t_B, 0.1, examples(torch.zeros(n, 2, dtype=torch.int64)))
    log_q = trunk[:, 0].log_softmax(-1)
    error = log_q.std(0) / n**0.5
    got, want = log_q.mean(0), sum(weight * p.log() for weight, p in targets(0.8, 0.1))
    assert ((got - want).abs() < 5 * error).all()
    assert ((got - FIRST.log()).abs() > 5 * error).any()  # the test would notice


def test_unmasked_positions_are_never_redrawn_and_have_no_weight():
    method = distilled()
    tokens = torch.tensor([[1, 2]]).expand(9, 2)
    method.masked = lambda batch, t_B: torch.tensor([[True, False]]).expand(9, 2)
    method.times = lambda batch: torch.full((9,), 0.5, dtype=torch.float64)
    (part,) = method.parts(examples(tokens))
    assert part.loss.item() == pytest.approx(0, abs=1e-12)  # the student is its teacher
    part.loss.backward()
    assert method.network.logits_of.grad.view(4, 4, 2, 3)[:, :, 1].abs().max() == 0


def test_the_released_times():
    """t = .6, Delta = 1/1024: the released code steps as if at .839."""
    t, delta = torch.tensor([0.6], dtype=torch.float64), 1 / 1024
    assert distilled().first_unmasking(t, delta).item() == pytest.approx(delta / 0.6)
    assert delta / distilled(released_times=True).first_unmasking(t, delta).item() == pytest.approx(0.839, abs=5e-4)


def test_steps_double_with_every_round():
    method = distilled(rounds=3, round_steps=10)
    assert [method.phase(s) for s in (0, 9, 10, 29, 30, 99)] == [(0,), (0,), (1,), (2,), (2,), (2,)]
    assert method.delta(25) == pytest.approx(4 * method.delta(0))
    assert method.delta(0) == pytest.approx((1 - 1e-5) / 1024)


def test_times_share_one_offset():
    t = distilled().times(examples(torch.zeros(9, 2, dtype=torch.int64)))
    gaps = t.diff() * 9 / (1 - 1e-5)
    torch.testing.assert_close(gaps, torch.ones(8, dtype=torch.float64), atol=1e-9, rtol=0)


def test_rounds_that_do_not_fit():
    with pytest.raises(UsageError, match="double a step of 1/64 beyond 1"):
        SDTT.Config(grid=64, rounds=7)
