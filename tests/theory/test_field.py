"""The autonomous field: numerical tests of each of the paper's statements."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp, softmax

from dbtm.theory.field import (
    arrival_speed,
    autonomous_field,
    autonomous_field_at_offset,
    denoiser,
    endpoint_form,
    log_occupation,
    time_dependent_field,
    vertex_currents,
)

P3 = np.array([0.5, 0.3, 0.2])
SETTINGS = [(1.0, 1.0), (0.5, 1.0), (0.7, 2.0), (1.5, 3.0), (2.0, 1.5)]


def unit_vectors(rng: np.random.Generator, n: int, V: int) -> np.ndarray:
    w = rng.standard_normal((n, V))
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


@pytest.mark.parametrize(("sigma", "a"), [(1.0, 1.0), (0.7, 2.0)])
def test_field_is_the_conditional_mean_of_the_interpolant_velocity(sigma: float, a: float) -> None:
    """b(x) = E[dI_t | I_t = x] over t, x_0, x_1, by Monte Carlo in a small disc around x."""
    rng = np.random.default_rng(0)
    p, x, radius = np.array([0.7, 0.3]), np.array([0.4, 0.35]), 0.06
    velocities = []
    for _ in range(8):
        t, x0 = rng.random((500_000, 1)), sigma * rng.standard_normal((500_000, 2))
        x1 = np.eye(2)[(rng.random(500_000) > p[0]).astype(int)]
        alpha, rate = (1 - t) ** a, -a * (1 - t) ** (a - 1)
        hit = np.linalg.norm(alpha * x0 + (1 - alpha) * x1 - x, axis=-1) < radius
        velocities.append((rate * (x0 - x1))[hit])
    sample = np.concatenate(velocities)
    error = sample.std(axis=0) / np.sqrt(len(sample))
    assert len(sample) > 5000
    # Averaging over the disc adds a bias of order radius^2.
    assert np.all(np.abs(sample.mean(axis=0) - autonomous_field(x, p, sigma, a)) < 4 * error + 2 * radius**2)


def log_marginal(t: float, x: np.ndarray, p: np.ndarray, sigma: float, a: float) -> float:
    """log mu_t(x), the mixture of Gaussians N((1 - alpha_t) e_j, alpha_t^2 sigma^2 I); t < 1."""
    alpha = (1.0 - t) ** a
    variance = (alpha * sigma) ** 2
    squared = (x * x).sum(axis=-1, keepdims=True) - 2 * (1 - alpha) * x + (1 - alpha) ** 2
    return logsumexp(np.log(p) - 0.5 * squared / variance, axis=-1) - 0.5 * x.shape[-1] * np.log(2 * np.pi * variance)


def over_time(f: Callable[[float], float]) -> float:
    """int_0^1 f(t) dt."""
    return quad(f, 0, 1, limit=400, epsabs=1e-13)[0]


@pytest.mark.parametrize(("sigma", "a"), SETTINGS)
@pytest.mark.parametrize("seed", [1, 2])
def test_field_is_the_weighted_time_average(seed: int, sigma: float, a: float) -> None:
    """prop:time-average: b = int mu_t b_t dt / int mu_t dt, and nu is the denominator."""
    x = sigma * np.random.default_rng(seed).standard_normal(3)

    def mu(t: float) -> float:
        return np.exp(log_marginal(t, x, P3, sigma, a))

    weight = over_time(mu)
    for k, component in enumerate(autonomous_field(x, P3, sigma, a)):
        current = over_time(lambda t, k=k: mu(t) * time_dependent_field(t, x, P3, sigma, a)[k])
        assert component == pytest.approx(current / weight, rel=1e-8, abs=1e-9)
    assert log_occupation(x, P3, sigma, a) == pytest.approx(np.log(weight), abs=1e-9)


@pytest.mark.parametrize(("V", "a"), [(50, 1.0), (5000, 1.0), (5000, 2.0)])
def test_field_in_high_dimension_matches_a_sum_over_times(V: int, a: float) -> None:
    """The same time average in log space on a fine grid of log alpha, where densities over- and underflow."""
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(V))
    x = 0.6 * rng.standard_normal(V)
    x[3] += 0.4
    log_alpha = np.linspace(-1.2, 0.0, 1201)
    alpha = np.exp(log_alpha)
    squared = x @ x - 2 * np.multiply.outer(1 - alpha, x) + ((1 - alpha) ** 2)[:, None]
    log_mu = logsumexp(np.log(p) - squared / (2 * alpha**2)[:, None], axis=-1) - V * log_alpha
    # dt = (1/a) alpha^(1/a) d log alpha, lambda_t = a alpha^(-1/a); the mass ends at alpha = 1, so use Simpson's rule.
    simpson = np.ones(1201)
    simpson[1:-1:2], simpson[2:-1:2] = 4.0, 2.0
    log_weight = log_mu + log_alpha / a + np.log(simpson)
    weight = np.exp(log_weight - logsumexp(log_weight))
    pull = softmax(np.log(p) + np.multiply.outer((1 - alpha) / alpha**2, x), axis=-1) - x
    expected = (weight * a * alpha ** (-1 / a)) @ pull
    np.testing.assert_allclose(autonomous_field(x, p, 1.0, a), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("sigma", "a"), SETTINGS)
@pytest.mark.parametrize("V", [2, 3, 4])
def test_divergence_of_the_current_is_the_prior(V: int, sigma: float, a: float) -> None:
    """prop:divergence: div(nu b) = mu_0 away from the vertices, by central differences."""
    rng = np.random.default_rng(V)
    p = rng.dirichlet(np.full(V, 3.0))
    h = 1e-4
    for x in sigma * rng.standard_normal((5, V)):
        steps = np.concatenate([x + h * np.eye(V), x - h * np.eye(V)])
        current = np.exp(log_occupation(steps, p, sigma, a))[:, None] * autonomous_field(steps, p, sigma, a)
        divergence = np.trace(current[:V] - current[V:]) / (2 * h)
        prior = np.exp(-x @ x / (2 * sigma**2)) / (2 * np.pi * sigma**2) ** (V / 2)
        scale = np.abs(current).max()
        assert divergence == pytest.approx(prior, abs=1e-5 * max(scale, 1.0), rel=1e-4)


def test_currents_add_up_and_point_at_their_vertices() -> None:
    """prop:occupancy-current: b = sum J^(j) / sum nu^(j), J^(j) parallel to e_j - x, and J^(j) independent of a."""
    x = np.random.default_rng(3).standard_normal((4, 3))
    nu, J = vertex_currents(x, P3, 0.8, 2.0)
    np.testing.assert_allclose(
        J.sum(axis=-2) / nu.sum(axis=-1, keepdims=True), autonomous_field(x, P3, 0.8, 2.0), rtol=1e-12
    )
    towards = np.eye(3) - x[:, None, :]
    cosine = (J * towards).sum(-1) / np.linalg.norm(J, axis=-1) / np.linalg.norm(towards, axis=-1)
    np.testing.assert_allclose(cosine, 1.0, rtol=1e-12)
    np.testing.assert_allclose(J, vertex_currents(x, P3, 0.8, 1.0)[1], rtol=1e-9)


@pytest.mark.parametrize(("sigma", "a"), SETTINGS)
def test_endpoint_form(sigma: float, a: float) -> None:
    """prop-eq:endpoint-b: b = Z (eta - x) with Z = E[lambda_t | I_t = x], lambda_t = a / (1 - t), and the averaged
    endpoint eta = E[lambda_t eta_1(t, x) | I_t = x] / Z, which is on the simplex.
    """
    x = sigma * np.random.default_rng(4).standard_normal(3)
    form = endpoint_form(x, P3, sigma, a)
    assert form.eta.min() > 0
    assert form.eta.sum() == pytest.approx(1.0, abs=1e-14)
    weight = over_time(lambda t: np.exp(log_marginal(t, x, P3, sigma, a)))
    rate = over_time(lambda t: a / (1 - t) * np.exp(log_marginal(t, x, P3, sigma, a)))
    assert np.exp(form.log_Z) == pytest.approx(rate / weight, rel=1e-8)
    for j in range(3):

        def endpoint(t: float, j: int = j) -> float:
            return a / (1 - t) * np.exp(log_marginal(t, x, P3, sigma, a)) * denoiser(t, x, P3, sigma, a)[j]

        assert form.eta[j] == pytest.approx(over_time(endpoint) / rate, rel=1e-8)
    np.testing.assert_allclose(form.pull, form.eta - x, rtol=1e-12)
    np.testing.assert_allclose(autonomous_field(x, P3, sigma, a), rate / weight * (form.eta - x), rtol=1e-7, atol=1e-12)


def test_denoiser_is_bayes_rule() -> None:
    """eta_1(t, x) from the mixture's densities, one Gaussian per vertex."""
    t, sigma, a = 0.37, 0.8, 2.0
    alpha = (1 - t) ** a
    x = np.array([0.3, -0.2, 0.5])
    density = [
        P3[j] * np.exp(-np.sum((x - (1 - alpha) * np.eye(3)[j]) ** 2) / (2 * (alpha * sigma) ** 2)) for j in range(3)
    ]
    np.testing.assert_allclose(denoiser(t, x, P3, sigma, a), np.array(density) / np.sum(density), rtol=1e-12)


@pytest.mark.parametrize("a", [1.0, 2.0])
def test_field_vanishes_at_the_vertices(a: float) -> None:
    """thm:attractor-vertices."""
    assert np.array_equal(autonomous_field(np.eye(3), P3, 1.0, a), np.zeros((3, 3)))
    assert np.all(log_occupation(np.eye(3), P3, 1.0, a) == np.inf)


@pytest.mark.parametrize(("V", "sigma"), [(2, 1.0), (3, 0.5), (10, 1.0), (1000, 1.0)])
def test_linear_schedule_arrives_at_speed_kappa(V: int, sigma: float) -> None:
    """lemma:approach-vertex: b(e_j + r omega) -> -kappa(omega) omega, with an error that vanishes with r; a = 1."""
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.full(V, 3.0))
    omega = unit_vectors(rng, 20, V)
    limit = -arrival_speed(omega, 1, sigma)[:, None] * omega
    errors = [np.abs(autonomous_field_at_offset(r * omega, 1, p, sigma) - limit).max() for r in (1e-2, 1e-4, 1e-100)]
    assert errors[1] < max(2e-2 * errors[0], 1e-9 * V)
    assert errors[2] < 1e-9 * V


def test_plain_coordinates_keep_the_direction_next_to_a_vertex() -> None:
    """x = e_j + r omega given as x itself: its distances to the vertices must not cancel (r is 1e-7 of the norm)."""
    omega, j = unit_vectors(np.random.default_rng(10), 20, 4), 2
    p = np.array([0.1, 0.2, 0.3, 0.4])
    b = autonomous_field(np.eye(4)[j] + 1e-7 * omega, p)
    np.testing.assert_allclose(b, -arrival_speed(omega, j)[:, None] * omega, atol=1e-6)


def test_kappa_is_the_ratio_of_its_two_integrals() -> None:
    """N_j / D_j of the convergence proof, by direct quadrature, and its positive minimum over directions."""
    sigma, j = 0.8, 2
    omega = unit_vectors(np.random.default_rng(6), 200, 3)

    def integral(w: np.ndarray, power: int) -> float:
        return quad(lambda s: s**power * np.exp(-(1 + 2 * s * w[j] + s * s) / (2 * sigma**2)), 0, 40)[0]

    for w in omega[:5]:
        assert arrival_speed(w, j, sigma) == pytest.approx(integral(w, 2) / integral(w, 1), rel=1e-8)
    straight_in = arrival_speed(np.eye(3)[j], j, sigma)
    assert 0 < straight_in <= arrival_speed(omega, j, sigma).min()


def test_occupation_near_a_vertex() -> None:
    """lemma-eq:nu: nu(e_j + r omega) r^(V - 1) -> p_j D_j(omega); a = 1."""
    omega, j = unit_vectors(np.random.default_rng(7), 1, 3)[0], 0
    D = quad(lambda s: s * np.exp(-(1 + 2 * s * omega[j] + s * s) / 2) / (2 * np.pi) ** 1.5, 0, 40)[0]
    for r in (1e-3, 1e-5):
        value = np.exp(log_occupation(np.eye(3)[j] + r * omega, P3)) * r**2
        assert value == pytest.approx(P3[j] * D, rel=5 * r)


@pytest.mark.parametrize("a", [1.5, 2.0, 3.0])
def test_self_stopping_schedules_are_continuous_at_the_vertices(a: float) -> None:
    """prop:continuity at the vertices: b -> 0 for a > 1, and at the rate r^(1 - 1/a)."""
    omega = unit_vectors(np.random.default_rng(8), 10, 3)
    speeds = [
        np.linalg.norm(autonomous_field_at_offset(r * omega, 0, P3, 1.0, a), axis=-1) for r in (1e-4, 1e-8, 1e-100)
    ]
    assert speeds[0].max() > speeds[1].max() > speeds[2].max()
    np.testing.assert_allclose(speeds[2], arrival_speed(omega, 0, 1.0, a) * 1e-100 ** (1 - 1 / a), rtol=1e-9)


@pytest.mark.parametrize("a", [1.0, 2.0, 3.0])
def test_far_field_points_home(a: float) -> None:
    """lemma:far-field: b(x) = -x (1 + o(1)) for a = 1. For other schedules the factor is a, the rate at t = 0."""
    x = 1e5 * unit_vectors(np.random.default_rng(9), 10, 3)
    np.testing.assert_allclose(autonomous_field(x, P3, 1.0, a), -a * x, atol=2 * a)


def test_shapes_and_mismatch() -> None:
    x = np.zeros((2, 5, 3))
    assert autonomous_field(x, P3).shape == (2, 5, 3)
    assert log_occupation(x, P3).shape == (2, 5)
    assert autonomous_field(np.zeros((0, 3)), P3).shape == (0, 3)
    with pytest.raises(ValueError, match="4 coordinates and p has 3"):
        autonomous_field(np.zeros(4), P3)
