import math

import pytest
import torch

from dbtm.simplex import alpha, alpha_rate, commitment_time, partial_context
from dbtm.simplex.interpolant import State, interpolate

B, L, V = 4, 6, 5


@pytest.mark.parametrize("a", [1.0, 2.0, 3.5])
def test_schedule_and_its_derivative(a):
    t = torch.linspace(0.01, 0.99, 50, dtype=torch.float64, requires_grad=True)
    value = alpha(t, a)
    torch.testing.assert_close(torch.autograd.grad(value.sum(), t)[0], alpha_rate(t, a).detach())
    assert alpha(torch.tensor(0.0), a) == 1
    assert alpha(torch.tensor(1.0), a) == 0


def random_parts(a=1.0):
    torch.manual_seed(0)
    tokens, noise = torch.randint(0, V, (B, L)), torch.randn(B, L, V, dtype=torch.float64)
    prompt = torch.zeros(B, L, dtype=torch.bool)
    prompt[:, :2] = True
    t_B = torch.rand(B, dtype=torch.float64)
    clean, t = partial_context(t_B, torch.full((B,), 0.4), torch.rand(B, L), prompt)
    return tokens, noise, prompt, clean, t, t_B, interpolate(tokens, noise, clean, t, a)


@pytest.mark.parametrize("a", [1.0, 2.0])
def test_interpolant_is_the_formula(a):
    tokens, noise, prompt, clean, t, t_B, state = random_parts(a)
    x, dx = state.dense(), state.velocity()
    for b in range(B):
        for l in range(L):
            e = torch.zeros(V, dtype=torch.float64)
            e[tokens[b, l]] = 1
            if clean[b, l]:
                assert torch.equal(x[b, l], e)
                assert torch.equal(dx[b, l], torch.zeros(V, dtype=torch.float64))
            else:
                share = (1 - t_B[b]) ** a
                torch.testing.assert_close(x[b, l], share * noise[b, l] + (1 - share) * e)
                torch.testing.assert_close(dx[b, l], -a * (1 - t_B[b]) ** (a - 1) * (noise[b, l] - e))
    assert clean[prompt].all()
    assert (t[clean] == 1).all()
    assert (~clean).any()


def test_velocity_is_the_time_derivative():
    tokens, noise, _, clean, t, _, _ = random_parts()
    step = 1e-6
    later, now, earlier = (interpolate(tokens, noise, clean, t + d, 2.0) for d in (step, 0.0, -step))
    torch.testing.assert_close((later.dense() - earlier.dense()) / (2 * step), now.velocity(), rtol=1e-6, atol=1e-8)


def test_context_is_bernoulli_of_the_fraction():
    torch.manual_seed(1)
    n = 4000
    f = torch.rand(n)
    clean, _ = partial_context(torch.rand(n), f, torch.rand(n, 50), torch.zeros(n, 50, dtype=torch.bool))
    share = clean.float().mean(-1)
    assert (share - f).abs().mean() < 0.08
    assert abs(share.mean() - 0.5) < 0.02


def test_rollout_state():
    tokens, noise, prompt, *_, state = random_parts()
    committed = prompt.clone()
    committed[:, 4] = True
    other = torch.randint(0, V, tokens.shape)
    x = state.at_noise(committed, other).dense()
    assert torch.equal(x[~committed], noise[~committed])
    assert torch.equal(x[committed].argmax(-1), other[committed])
    assert torch.equal(x[committed].sum(-1), torch.ones_like(x[committed].sum(-1)))
    assert torch.equal(state.rows(slice(1, 3)).dense(), state.dense()[1:3])


def test_a_state_without_rate_has_no_velocity():
    state = State(torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1), torch.zeros(1, 1, 2))
    with pytest.raises(ValueError, match="without a rate"):
        state.velocity()


@pytest.mark.parametrize(("vocab", "want"), [(30522, 0.820), (50257, 0.823), (49152, 0.823), (12, 0.690)])
def test_commitment_time_matches_the_papers_table(vocab, want):
    assert round(commitment_time(vocab), 3) == want


def test_commitment_time_inverts_the_signal_to_noise_ratio():
    for a, sigma in ((1.0, 1.0), (2.0, 0.7), (3.0, 1.5)):
        share = (1 - commitment_time(1000, sigma, a)) ** a
        assert (1 - share) / (share * sigma) == pytest.approx(math.sqrt(2 * math.log(1000)))
