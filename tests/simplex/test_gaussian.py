"""Gaussian one-hots and their argmax, against the recovery integral, published ranges and dense draws."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from dbtm.core import rng
from dbtm.simplex import gaussian
from dbtm.theory.recovery import recovery

N = 40_000


@pytest.mark.parametrize("V", [2, 12, 50_257])
def test_the_share_of_clean_tokens_is_the_recovery_integral_rescaled(V):
    gamma = torch.linspace(-4, 3, 8)
    alpha, slope = gaussian.clean_share(gamma, V)
    Q = recovery(np.exp(-gamma.numpy().astype(np.float64) / 2), V)
    np.testing.assert_allclose(alpha, (V * Q - 1) / (V - 1), atol=1e-9)
    step = 1e-5
    above, below = (gaussian.clean_share(gamma.double() + s, V)[0] for s in (step, -step))
    np.testing.assert_allclose(slope, (above - below) / (2 * step), atol=1e-7)


@pytest.mark.parametrize(
    ("V", "gamma", "alpha"),
    [(30_522, -3.5, 0.942), (30_522, -1.75, 0.0487), (50_257, -3.55, 0.945), (50_257, -1.85, 0.0493)],
)
def test_published_ranges(V, gamma, alpha):
    assert gaussian.clean_share(torch.tensor(gamma), V)[0].item() == pytest.approx(alpha, abs=5e-4)


@pytest.mark.parametrize(("V", "low", "high"), [(12, -2.5, 2.5), (8192, -3.42, -1.47)])
def test_the_rule_for_other_vocabularies(V, low, high):
    got = gaussian.gamma_at(0.945, V), gaussian.gamma_at(0.05, V)
    assert got == pytest.approx((low, high), abs=0.1)
    assert gaussian.clean_share(torch.tensor(got[0]), V)[0].item() == pytest.approx(0.945, abs=1e-6)


@pytest.mark.parametrize("V", [5, 200])
def test_the_largest_noises_are_those_of_dense_draws(V):
    """Each order statistic, and the clean token's own noise, by Kolmogorov-Smirnov; their tokens are uniform."""
    tokens = torch.full((N, 1), 2)
    own, values, ids = gaussian.largest_noises(rng.fold(0, torch.arange(N)), tokens, V, 3)
    dense = np.sort(np.random.default_rng(0).standard_normal((N, V - 1)), -1)[:, ::-1]
    assert kstest(own[:, 0].numpy(), "norm").pvalue > 1e-4
    for j in range(3):
        assert kstest(values[:, 0, j].numpy(), dense[:, j]).pvalue > 1e-4
        counts = np.bincount(ids[:, 0, j].numpy(), minlength=V)
        assert counts[2] == 0
        spread = np.sqrt(N / (V - 1))
        assert np.abs(np.delete(counts, 2) - N / (V - 1)).max() < 5 * spread
    gaps = values[:, 0, 0] - values[:, 0, 1]
    assert kstest(gaps.numpy(), dense[:, 0] - dense[:, 1]).pvalue > 1e-4
    assert all(len({*row}) == 3 for row in ids[:2_000, 0].tolist())


def test_the_argmax_is_noised_to_a_uniform_token():
    V, gamma = 6, torch.full((N,), -0.5)
    tokens = torch.full((N, 1), 4)
    own, values, ids = gaussian.largest_noises(rng.fold(3, torch.arange(N)), tokens, V, 1)
    z = gaussian.argmax_token(tokens, gamma, own, values[..., 0], ids[..., 0])
    alpha = gaussian.clean_share(gamma[:1], V)[0].item()
    want = np.full(V, (1 - alpha) / V)
    want[4] += alpha
    counts = np.bincount(z[:, 0].numpy(), minlength=V)
    assert (np.abs(counts - N * want) < 4.5 * np.sqrt(N * want)).all()


def test_soft_tokens_are_the_softmax_of_the_state():
    gamma = torch.tensor([-1.0, 0.7], dtype=torch.float64)
    own, values = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    got = gaussian.soft_token(gamma, own, values, 0.3)
    for b in range(2):
        a, s = math.sqrt(1 / (1 + math.exp(gamma[b]))), math.sqrt(1 / (1 + math.exp(-gamma[b])))
        x = torch.cat((a + s * own[b, :, None], s * values[b]), -1)
        torch.testing.assert_close(got[b], (x / 0.3).softmax(-1))
