"""The recovery clock: published values, the integral by SciPy, simulation, and the inverse."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from dbtm.theory.clock import RecoveryClock

VALUES = {
    12: (0.3368, 0.5039, 0.6292, 0.7090, 0.7578),
    8_192: (0.7114, 0.7558, 0.7916, 0.8184, 0.8373),
    30_522: (0.7359, 0.7735, 0.8045, 0.8281, 0.8450),
    50_257: (0.7438, 0.7793, 0.8087, 0.8314, 0.8477),
}


@pytest.mark.parametrize("vocab", VALUES)
def test_the_table_of_times(vocab):
    t = RecoveryClock(vocab).t(torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9], dtype=torch.float64))
    np.testing.assert_allclose(t, VALUES[vocab], atol=1.01e-4)


@pytest.mark.parametrize("vocab", [2, 3, 12, 50_257])
def test_there_and_back(vocab):
    clock = RecoveryClock(vocab)
    tau = torch.cat((torch.linspace(0, 1, 41, dtype=torch.float64), torch.tensor([1e-6, 1e-3, 0.9999])))
    t = clock.t(tau)
    np.testing.assert_allclose([clock.tau(x) for x in t.tolist()], tau, atol=1e-9)
    assert (t.sort().values.diff() > 0).sum() == len(t) - 1
    assert (t[0], t[40]) == (0, 1)


def test_the_integral():
    """tau(t) by adaptive quadrature, and for two tokens in closed form."""
    for vocab, t in ((3, 0.4), (50, 0.7)):
        rho = t / (1 - t)
        q, _ = quad(lambda z, n, m: norm.pdf(z) * norm.cdf(z + m) ** (n - 1), -12, 12, (vocab, rho), epsabs=1e-13)
        assert RecoveryClock(vocab).tau(t) == pytest.approx(vocab / (vocab - 1) * (q - 1 / vocab), abs=1e-10)
    assert RecoveryClock(2).tau(0.5) == pytest.approx(2 * norm.cdf(1 / np.sqrt(2)) - 1, abs=1e-10)


def test_it_is_how_often_the_argmax_is_right():
    vocab, t, n = 12, 0.6, 200_000
    x = (1 - t) * np.random.default_rng(0).standard_normal((n, vocab))
    x[:, 0] += t
    right = (x.argmax(1) == 0).mean()
    assert RecoveryClock(vocab).tau(t) == pytest.approx((vocab * right - 1) / (vocab - 1), abs=5e-3)
