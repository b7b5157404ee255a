"""MAUVE: closed forms of the curve, and sets that are alike or apart."""

import numpy as np
import pytest
from scipy.special import beta

from dbtm.evals.mauve import frontier_area, mauve


def test_equal_histograms_have_the_whole_area():
    p = np.array([0.2, 0.5, 0.3, 0.0])
    assert frontier_area(p, p) == pytest.approx(1, abs=1e-12)


def test_disjoint_histograms():
    """KL(p | R) = -log lambda, so y = lambda^5 and x = (1 - lambda)^5: the area is 5 B(6, 5), but for
    the polygon's corners.
    """
    p, q = np.array([0.5, 0.5, 0, 0]), np.array([0, 0, 0.1, 0.9])
    assert frontier_area(p, q) == pytest.approx(5 * beta(6, 5), rel=2e-3)


def test_the_curve_by_quadrature():
    """The same curve on a fine grid of mixtures."""
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.3, 0.3, 0.4])
    mix = np.linspace(0, 1, 20_001)[1:-1, None]
    r = mix * p + (1 - mix) * q
    x, y = np.exp(-5 * (q * np.log(q / r)).sum(1)), np.exp(-5 * (p * np.log(p / r)).sum(1))
    order = np.argsort(x)
    ends = np.concatenate([[0], x[order], [1]]), np.concatenate([[1], y[order], [0]])
    assert frontier_area(p, q) == pytest.approx(np.trapezoid(ends[1], ends[0]), abs=2e-3)
    assert frontier_area(p, q) == pytest.approx(frontier_area(q, p), abs=1e-12)


def test_alike_and_apart():
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 400, 12))
    near, far = second + 0.7, second * 0.05 + 5 * np.eye(12)[0]
    same, off, apart = (mauve(first, other) for other in (second, near, far))
    assert same > 0.9 > off > apart
    assert apart < 0.02


def test_points_that_coincide():
    assert mauve(np.ones((40, 3)), np.ones((40, 3))) == pytest.approx(1, abs=1e-9)
