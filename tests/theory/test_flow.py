"""The flows: convergence, pushforward, hitting times, conservation, straightness."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import chisquare

from dbtm.theory.field import (
    arrival_speed,
    autonomous_field,
    autonomous_field_at_offset,
    endpoint_form,
    time_dependent_field,
)
from dbtm.theory.flow import basins, flow, trajectories, transport_map, travel, travel_time_dependent
from dbtm.theory.integrate import integrate

P3 = np.array([0.5, 0.3, 0.2])


def starts(n: int, V: int = 3, sigma: float = 1.0, seed: int = 0) -> np.ndarray:
    return sigma * np.random.default_rng(seed).standard_normal((n, V))


@pytest.fixture(scope="module")
def arrivals() -> np.ndarray:
    """T of ten thousand prior draws."""
    return transport_map(starts(10_000), P3)


def test_ten_thousand_starts_arrive_in_proportion_to_the_target(arrivals: np.ndarray) -> None:
    """thm:convergence-simplex (ii) and eq:transport-map: every start reaches a vertex, and T pushes mu_0 to p."""
    assert arrivals.min() >= 0
    assert chisquare(np.bincount(arrivals, minlength=3), 10_000 * P3).pvalue > 1e-3


@pytest.mark.parametrize(("V", "sigma", "seed"), [(2, 2.0, 1), (3, 0.3, 2), (12, 1.0, 3)])
def test_pushforward_at_other_sizes_and_scales(V: int, sigma: float, seed: int) -> None:
    p = np.random.default_rng(seed).dirichlet(np.full(V, 3.0))
    vertex = transport_map(starts(2000, V, sigma, seed), p, sigma)
    assert chisquare(np.bincount(vertex, minlength=V), 2000 * p).pvalue > 1e-3


def test_chi_square_would_notice_a_shifted_target(arrivals: np.ndarray) -> None:
    """The power of the test above: frequencies off by .03 are rejected."""
    for shift in ([0.03, -0.03, 0.0], [0.0, 0.03, -0.03]):
        assert chisquare(np.bincount(arrivals, minlength=3), 10_000 * (P3 + shift)).pvalue < 1e-3


def test_map_agrees_with_an_independent_integrator() -> None:
    """T(x_0) against SciPy's DOP853 on the field itself, followed to a small ball around a vertex."""
    x0 = starts(5, seed=4)

    def arrived(_: float, x: np.ndarray) -> float:
        return np.linalg.norm(np.eye(3) - x, axis=-1).min() - 1e-2

    arrived.terminal = True  # type: ignore[attr-defined]
    vertex = transport_map(x0, P3)
    tau = travel(x0, P3).hitting_time
    for x, j, time in zip(x0, vertex, tau):
        path = solve_ivp(
            lambda _, y: autonomous_field(y, P3), (0, 50), x, "DOP853", rtol=1e-8, atol=1e-9, events=arrived
        )
        end = path.y[:, -1]
        assert end.argmax() == j
        offset = end - np.eye(3)[j]
        r = np.linalg.norm(offset)
        assert time == pytest.approx(path.t[-1] + r / arrival_speed(offset / r, j), abs=1e-4)


def test_map_and_endpoint_do_not_depend_on_the_schedule() -> None:
    """The currents do not depend on a, so b changes its length but not its direction, and T not at all."""
    x0 = starts(400, seed=5)
    reference = endpoint_form(x0, P3, 1.0, 1.0)
    for a in (1.7, 3.0):
        form = endpoint_form(x0, P3, 1.0, a)
        np.testing.assert_allclose(form.eta, reference.eta, atol=1e-9)
        assert np.abs(form.log_Z - reference.log_Z).max() > 0.1
        assert np.array_equal(transport_map(x0, P3, 1.0, a), transport_map(x0, P3))


def test_vertices_are_fixed_and_the_map_is_idempotent() -> None:
    """thm:convergence-simplex (i): vertices are fixed points; T(T(x)) = T(x)."""
    assert np.array_equal(transport_map(np.eye(3), P3), [0, 1, 2])
    vertex = transport_map(starts(50), P3)
    assert np.array_equal(transport_map(np.eye(3)[vertex], P3), vertex)


@pytest.mark.parametrize("a", [1.0, 2.0])
def test_flow_stays_at_the_vertex_that_it_reaches(a: float) -> None:
    """thm:convergence-simplex (i) in the flow's own time: X_s = T(x_0) for s >= tau, and not before."""
    x0 = starts(20, seed=19)
    journey = travel(x0, P3, 1.0, a)
    assert journey.hitting_time.max() < 4.0
    assert np.array_equal(flow(x0, 4.0, P3, 1.0, a), np.eye(3)[journey.vertex])
    early = flow(x0, 0.9 * journey.hitting_time.min(), P3, 1.0, a)
    assert np.linalg.norm(early - np.eye(3)[journey.vertex], axis=-1).min() > 1e-4


@pytest.mark.parametrize(("sigma", "a"), [(1.0, 1.0), (0.5, 1.0), (1.0, 2.0), (1.0, 3.0)])
def test_mean_hitting_time_is_one(sigma: float, a: float) -> None:
    """thm:convergence-simplex (iii), sharper: nu has mass one and is the density of the time spent, so E[tau] = 1.

    It also holds for a > 1: b vanishes at the vertex, but only like r^(1 - 1/a), so tau is finite too.
    """
    tau = travel(starts(1500, sigma=sigma, seed=6), P3, sigma, a, tol=1e-5).hitting_time
    assert np.all(np.isfinite(tau))
    assert tau.mean() == pytest.approx(1.0, abs=4 * tau.std() / np.sqrt(len(tau)))


def test_hitting_time_is_within_the_bound() -> None:
    """eq:local-absorption: tau <= t_entry + 2 r_1 / kappa_-, for an r_1 at which the speed bound is checked to hold."""
    rng = np.random.default_rng(7)
    omega = rng.standard_normal((400, 3))
    omega /= np.linalg.norm(omega, axis=-1, keepdims=True)
    r_1 = 0.1
    kappa_min = min(arrival_speed(np.eye(3)[j], j).item() for j in range(3))
    for j in range(3):
        for r in (0.01, 0.05, r_1):
            inward = -(autonomous_field_at_offset(r * omega, j, P3) * omega).sum(axis=-1)
            assert inward.min() >= kappa_min / 2
    entry = np.full(300, np.inf)

    def observe(rows: np.ndarray, _: np.ndarray, y: np.ndarray) -> None:
        near = np.linalg.norm(y[:, None, :3] - np.eye(3), axis=-1).min(axis=-1) <= r_1
        entry[rows[near]] = np.minimum(entry[rows[near]], y[near, 4])

    tau = travel(starts(300, seed=8), P3, observe=observe).hitting_time
    assert np.all(np.isfinite(entry))
    assert np.all(tau <= entry + 2 * r_1 / kappa_min)
    assert np.all(tau > entry)


@pytest.mark.parametrize("a", [1.0, 3.0])
def test_last_stretch_follows_the_arrival_law(a: float) -> None:
    """Stopping a thousand times further out gives the same hitting time, by the rate of lemma:approach-vertex."""
    x0 = starts(100, seed=18)
    far, near = (travel(x0, P3, 1.0, a, radius=radius) for radius in (1e-2, 1e-5))
    np.testing.assert_allclose(far.hitting_time, near.hitting_time, atol=3e-3)
    np.testing.assert_allclose(far.path, near.path, atol=1e-3)


def test_an_unlikely_vertex_holds_only_a_small_ball() -> None:
    """Being near a vertex does not imply capture: with p_3 = 1e-6 the flow leaves e_3 from a distance of .2."""
    p = np.array([0.6, 0.4 - 1e-6, 1e-6])
    towards = np.array([1.0, 1.0, -2.0]) / np.sqrt(6)
    vertex = transport_map(np.eye(3)[2] + np.array([[0.2], [1e-3]]) * towards, p)
    assert vertex.tolist() == [0, 2]
    later = solve_ivp(lambda _, y: autonomous_field(y, p), (0, 0.3), np.eye(3)[2] + 0.2 * towards, rtol=1e-8).y[:, -1]
    assert np.linalg.norm(later - np.eye(3)[2]) > 0.4


def test_eulerian_equation() -> None:
    """eq:eulerian-equation: b . grad X_s = d/ds X_s, both sides by central differences."""
    x, s, h = starts(20, seed=9), 0.08, 1e-4
    b = autonomous_field(x, P3)
    along = (flow(x + h * b, s, P3) - flow(x - h * b, s, P3)) / (2 * h)
    later = (flow(x, s + h, P3) - flow(x, s - h, P3)) / (2 * h)
    np.testing.assert_allclose(along, later, atol=1e-5)
    assert np.abs(later).max() > 0.1


def test_semigroup() -> None:
    """eq:semigroup for an autonomous field: X_u(X_s(x)) = X_{s + u}(x)."""
    x = starts(20, seed=10)
    np.testing.assert_allclose(flow(flow(x, 0.03, P3), 0.05, P3), flow(x, 0.08, P3), atol=1e-8)


def test_map_is_constant_along_trajectories() -> None:
    """prop:conservation-equation: T(X_s(x)) = T(x) at every recorded point, so b . grad T = 0."""
    x0 = starts(40, seed=11)
    vertex = transport_map(x0, P3)
    lines = trajectories(x0, P3)
    assert min(len(line) for line in lines) > 5
    assert np.array_equal(transport_map(np.concatenate(lines), P3), np.repeat(vertex, [len(line) for line in lines]))
    assert all(np.array_equal(line[-1], np.eye(3)[j]) for line, j in zip(lines, vertex))


def test_basins_of_a_grid_are_the_map() -> None:
    grid = starts(30, seed=12).reshape(5, 6, 3)
    assert np.array_equal(basins(grid, P3), transport_map(grid.reshape(-1, 3), P3).reshape(5, 6))


@pytest.mark.parametrize("a", [1.0, 2.0])
def test_time_dependent_flow_agrees_with_an_independent_integrator(a: float) -> None:
    """eq:probability-flow on our clock against SciPy in t: same vertex, same arc length, for every a."""
    x0 = starts(8, seed=13)
    journey = travel_time_dependent(x0, P3)
    for x, j, length in zip(x0, journey.vertex, journey.path):

        def rhs(t: float, y: np.ndarray) -> np.ndarray:
            b = time_dependent_field(t, y[:3], P3, 1.0, a)
            return np.append(b, np.linalg.norm(b))

        end = solve_ivp(rhs, (0, 1 - 1e-3), np.append(x, 0.0), "DOP853", rtol=1e-9, atol=1e-10).y[:, -1]
        assert end[:3].argmax() == j
        assert end[3] + np.linalg.norm(end[:3] - np.eye(3)[j]) == pytest.approx(length, abs=1e-4)


def test_time_dependent_flow_has_the_same_pushforward() -> None:
    vertex = travel_time_dependent(starts(3000, seed=14), P3, tol=1e-5).vertex
    assert chisquare(np.bincount(vertex, minlength=3), 3000 * P3).pvalue > 1e-3


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_autonomous_paths_are_straighter_on_average(sigma: float) -> None:
    """fig:flow-dynamics E-G on the 2-simplex: the mean of path over chord is smaller, by many standard errors."""
    x0 = starts(1000, sigma=sigma, seed=15)
    ours, theirs = travel(x0, P3, sigma).ratio, travel_time_dependent(x0, P3, sigma).ratio
    assert min(ours.min(), theirs.min()) > 1 - 1e-4
    gap = theirs - ours
    assert gap.mean() > 5 * gap.std() / np.sqrt(len(gap))


def test_straightness_is_not_a_law_for_every_start_nor_for_large_vocabularies() -> None:
    """Limits: about two starts in five are less straight at V = 3, and at V = 100 the means are equal."""
    x0 = starts(1000, seed=16)
    worse = np.mean(travel(x0, P3, tol=1e-5).ratio > travel_time_dependent(x0, P3, tol=1e-5).ratio)
    assert 0.3 < worse < 0.5
    p = np.full(100, 0.01)
    x0 = starts(60, V=100, seed=17)
    gap = travel_time_dependent(x0, p, tol=1e-5).ratio - travel(x0, p, tol=1e-5).ratio
    assert abs(gap.mean()) < 1e-3


def test_integrator_has_its_order_and_its_own_end_per_row() -> None:
    """dy/ds = -rate y against the exponential; a tighter tolerance gives a smaller error; stopped rows do not move."""
    rate = np.array([[0.5], [1.0], [4.0]])
    y0 = np.hstack([np.ones((3, 1)), rate])

    def rhs(_: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.column_stack([-y[:, 1] * y[:, 0], np.zeros(len(y))])

    exact = np.exp(-2.0 * rate[:, 0])
    errors = [np.abs(integrate(rhs, y0, 2.0, tol=tol).y[:, 0] - exact).max() for tol in (1e-4, 1e-7, 1e-10)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[2] < 1e-9
    end = integrate(rhs, y0, 2.0, stop=lambda s, y: y[:, 0] < 0.3)
    assert end.stopped.tolist() == [False, True, True]
    assert end.s[0] == 2.0
    assert end.s[2] < end.s[1] < 2.0
    with pytest.raises(RuntimeError, match="not finished"):
        integrate(rhs, y0, 2.0, tol=1e-10, max_steps=3)
