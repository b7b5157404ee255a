"""Reverse steps: posteriors by Bayes' rule, marginals by enumeration."""

import numpy as np
import pytest
import torch

from dbtm.simplex.categorical import (
    confident,
    loop_alpha,
    most_remasked,
    renoised,
    uniform_posterior,
    unmask_probability,
)

PRIOR = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
V = len(PRIOR)


def kernel(alpha):
    """q(z | x), (V, V)."""
    return alpha * torch.eye(V, dtype=torch.float64) + (1 - alpha) / V


@pytest.mark.parametrize(("alpha_t", "alpha_s"), [(0.0, 0.3), (0.2, 0.7), (0.6, 0.61), (0.5, 1.0)])
def test_the_posterior_is_bayes_rule(alpha_t, alpha_s):
    """q(z_s | z_t, D) is proportional to q(z_t | z_s) sum_x D(x) q(z_s | x)."""
    D = torch.rand(V, V, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(-1)
    z = torch.arange(V)
    at_s = D @ kernel(alpha_s)  # (z_t, z_s)
    want = kernel(alpha_t / alpha_s).T * at_s
    want = want / want.sum(-1, keepdim=True)
    got = uniform_posterior(D.clone(), z, alpha_t, alpha_s)
    torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


def test_a_step_back_keeps_the_marginal_and_so_does_a_share_of_renoising():
    alpha_t, alpha_s, kappa = 0.3, 0.8, 0.4
    D = PRIOR.expand(V, V)  # for one token the prior is the exact denoiser at every z
    step = uniform_posterior(D.clone(), torch.arange(V), alpha_t, alpha_s)
    at_t, at_s = PRIOR @ kernel(alpha_t), PRIOR @ kernel(alpha_s)
    torch.testing.assert_close(at_t @ step, at_s, atol=1e-12, rtol=0)
    mixed = kappa * step + (1 - kappa) * renoised(D, alpha_s)
    torch.testing.assert_close(at_t @ mixed, at_s, atol=1e-12, rtol=0)


@pytest.mark.parametrize("sigma", [0.0, 0.1, 0.25])
def test_remasking_keeps_the_share_of_masks(sigma):
    alpha_t, alpha_s = 0.4, 0.9
    assert most_remasked(alpha_t, alpha_s) == pytest.approx(0.25)
    unmasked = (1 - alpha_t) * unmask_probability(alpha_t, alpha_s, sigma) + alpha_t * (1 - sigma)
    assert unmasked == pytest.approx(alpha_s, abs=1e-12)


def test_at_the_most_every_masked_token_is_unmasked_or_every_unmasked_masked():
    assert unmask_probability(0.4, 0.9, most_remasked(0.4, 0.9)) == pytest.approx(1)
    assert most_remasked(0.0, 0.3) == most_remasked(0.1, 0.2) == 1
    assert most_remasked(0.5, 1.0) == 0


def test_the_loop_is_continuous_and_ends_clean():
    t = np.linspace(0, 1, 100_001)
    a = np.array([loop_alpha(x, 0.55, 0.05, 0.9) for x in t])
    assert (a[0], a[-1]) == (1, 0)
    assert np.abs(np.diff(a)).max() < 1e-4
    assert (np.diff(a) <= 1e-12).all()
    assert a[(t >= 0.05) & (t <= 0.55)] == pytest.approx(0.9)


def test_the_least_confident_position_is_the_first_to_be_masked_again():
    score = torch.tensor([[0.9, 0.1, 0.5], [0.2, 0.2, 0.2]], dtype=torch.float64)
    weight = confident(score, torch.tensor([[True, True, False], [False, False, False]]))
    want = np.exp([-0.9, -0.1]) / np.exp([-0.9, -0.1]).sum()
    np.testing.assert_allclose(weight[0], [*want, 0.0], atol=1e-12)
    assert not weight[1].any()
