"""x0 W with the Cholesky factor has the distribution of the dense draw, tested by moments and by samples."""

import numpy as np
import torch

from dbtm.config import Shape
from dbtm.core import rng
from dbtm.sampling.prior import Prior, cholesky_factor
from dbtm.simplex import Noise
from tests.conftest import random_map, sampler_of

SHAPE = Shape(vocab=40, length=9)


def test_the_factor_has_the_covariance_of_x0_w():
    W = torch.randn(50, 6, dtype=torch.float64)
    factor = cholesky_factor(W)
    torch.testing.assert_close(factor @ factor.T, W.T @ W)
    assert cholesky_factor(torch.ones(50, 6)) is None  # rank 1: the dense draw is used


def draws(n: int, **changes) -> tuple[torch.Tensor, torch.Tensor]:
    """Many samples of x0 W with the factor and by definition."""
    model = random_map(shape=SHAPE, width=16, heads=2, **changes).double()
    noise = Noise(rng.fold(5, torch.arange(n)), 3, 40, sigma=1.5, dtype=torch.float64)
    prior = Prior(model)
    assert prior.factor_DD is not None
    return prior.draw(noise).detach(), (noise[:n].dense() @ model.embedding).detach()


def test_equal_in_distribution():
    """Positions are independent Gaussians, so mean and covariance suffice, each within 5 standard errors."""
    n = 20_000
    for x in draws(n):
        W = random_map(shape=SHAPE, width=16, heads=2).double().embedding.detach()
        want = 1.5**2 * W.T @ W
        flat = x.flatten(1)  # (n, 3 * 16): positions are independent too
        covariance = flat.T @ flat / n
        expected = torch.block_diag(want, want, want)
        scale = expected.diagonal().sqrt()
        assert (flat.mean(0).abs() < 5 * scale / n**0.5).all()
        error = (covariance - expected).abs() / (scale[:, None] * scale)
        assert error.max() < 5 * (2 / n) ** 0.5
        kurtosis = ((flat / scale) ** 4).mean()
        assert abs(kurtosis - 3) < 5 * (96 / flat.numel()) ** 0.5 * 3


def test_samples_agree_in_distribution(monkeypatch):
    """First-token frequencies of a random map from both draws agree within 5 standard errors."""
    model = random_map(shape=SHAPE, width=16, heads=2, dropout=0.0)
    n = 4000
    by_factor = sampler_of(model).sample(n, nfe=1).tokens[:, 0]
    monkeypatch.setattr("dbtm.sampling.prior.cholesky_factor", lambda weight: None)
    dense = sampler_of(model).sample(n, nfe=1).tokens[:, 0]
    assert not np.array_equal(by_factor, dense)
    a, b = (np.bincount(x, minlength=40) / n for x in (by_factor, dense))
    spread = np.sqrt((a + b) / n) + 1e-3
    assert (np.abs(a - b) < 5 * spread).all()
    assert a.max() < 0.9
