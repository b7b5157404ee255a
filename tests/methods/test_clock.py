"""The clock that follows a loss: known slopes, quantiles, and interpolation."""

import numpy as np
import pytest
import torch

from dbtm.methods import clock

T = np.random.default_rng(0).uniform(size=40_000)


def test_a_loss_that_rises_in_one_place_draws_times_there():
    loss = 1 / (1 + np.exp(-(T - 0.3) / 0.05)) + 0.05 * np.random.default_rng(1).standard_normal(len(T))
    times = clock.inverse(clock.density(T, loss))
    # quantiles of the logistic distribution with this centre and scale
    for q in (0.25, 0.5, 0.75):
        want = 0.3 + 0.05 * np.log(q / (1 - q))
        assert times[round(q * clock.GRID)] == pytest.approx(want, abs=0.02)
    assert (times[0], times[-1]) == (0.0, 1.0)
    assert (np.diff(times) >= 0).all()


@pytest.mark.parametrize("slope", [2.0, 0.01])
def test_a_linear_loss_keeps_the_times_uniform(slope):
    times = clock.inverse(clock.density(T, 1 + slope * T))
    np.testing.assert_allclose(times, np.linspace(0, 1, clock.GRID + 1), atol=0.02)


def test_a_loss_that_only_falls_keeps_them_uniform_too():
    density = clock.density(T, -T)
    assert density.min() > 0
    times = clock.inverse(density)
    np.testing.assert_allclose(times, np.linspace(0, 1, clock.GRID + 1), atol=0.2)


def test_it_is_read_between_its_points():
    times = torch.linspace(0, 1, clock.GRID + 1, dtype=torch.float64) ** 2
    u = torch.tensor([0.0, 0.123456, 0.5, 1.0], dtype=torch.float64)
    torch.testing.assert_close(clock.read(times, u), u**2, atol=1e-6, rtol=0)
