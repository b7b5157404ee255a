"""Attractors of b_t at fixed t: the solver against brute force, the paper's statements, and counterexamples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from dbtm.theory.attractors import (
    attractors,
    birth,
    birth_times,
    comparable,
    death,
    early_attractor,
    formula_beta,
    inverse_temperature,
    late_attractor,
    lower_branch,
    lyapunov,
    lyapunov_rate,
    time_at,
    upper_branch,
)
from dbtm.theory.field import time_dependent_field
from dbtm.theory.frozen import frozen_basins, settle

P4 = np.array([0.4, 0.38, 0.2, 0.02])


def iterate(beta: float, p: np.ndarray, x: np.ndarray, rounds: int = 20_000) -> np.ndarray:
    """Fixed-point iteration x <- softmax(log p + beta x), independent of the solver; all rows of x at once."""
    for _ in range(rounds):
        new = softmax(np.log(p) + beta * x, axis=-1)
        if np.abs(new - x).max() < 1e-13:
            break
        x = new
    return x


def simulated_birth(p: np.ndarray, j: int, low: float = 1.0, high: float = 40.0) -> float:
    """Smallest beta at which the iteration from e_j stays at j, by bisection."""
    for _ in range(24):
        middle = 0.5 * (low + high)
        stays = iterate(middle, p, np.eye(len(p))[j], 4000).argmax() == j
        low, high = (low, middle) if stays else (middle, high)
    return high


@given(y=st.floats(1.0, 5000.0))
def test_branches_solve_their_equation(y: float) -> None:
    for xi in (lower_branch(np.array(y)), upper_branch(np.array(y))):
        if xi > 1e-300:  # beyond y = 690 the lower root nears the smallest floats, where digits are lost
            assert xi - np.log(xi) == pytest.approx(y, rel=1e-9)
    assert lower_branch(np.array(y)) <= 1.0 <= upper_branch(np.array(y))


@given(t=st.floats(0.0, 0.99), sigma=st.floats(0.1, 5.0), a=st.floats(1.0, 4.0))
def test_time_and_inverse_temperature_are_inverse(t: float, sigma: float, a: float) -> None:
    assert time_at(inverse_temperature(t, sigma, a), sigma, a) == pytest.approx(t, abs=1e-9)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10_000), V=st.integers(2, 6), flat=st.sampled_from([0.5, 2.0, 20.0]), beta=st.floats(0.3, 9.0)
)
def test_solver_finds_exactly_what_brute_force_finds(seed: int, V: int, flat: float, beta: float) -> None:
    """Every limit of the iteration is in the list, and every entry of the list is the limit of some start."""
    rng = np.random.default_rng(seed)
    p = np.maximum(rng.dirichlet(np.full(V, flat)), 1e-6)
    p /= p.sum()
    turns = [birth(p, j).beta for j in range(V)] + ([end.beta] if (end := death(p)) else [])
    if min(abs(beta - turn) for turn in turns) < 0.02:
        return  # at a fold the iteration is too slow to identify its limit
    places = np.array([attractor.x for attractor in attractors(beta, p)])
    limits = iterate(beta, p, np.vstack([rng.dirichlet(np.ones(V), 20), np.eye(V), p, places]))
    distance = np.abs(limits[:, None] - places).max(axis=-1)
    assert distance.min(axis=1).max() < 1e-6
    assert distance.min(axis=0).max() < 1e-6


def test_attractors_are_zeros_of_the_field_on_the_simplex_and_stable() -> None:
    """Lemma `Attractors Lie on Simplex`; stability by the eigenvalues of eq. (expand jacobian)."""
    for t in (0.2, 0.5, 0.56, 0.65, 0.8):
        beta = float(inverse_temperature(t))
        for one in attractors(beta, P4):
            assert np.abs(time_dependent_field(t, one.x, P4)).max() < 1e-12
            assert one.x.sum() == pytest.approx(1.0, abs=1e-12)
            jacobian = beta * (np.diag(one.x) - np.outer(one.x, one.x)) - np.eye(4)
            assert np.linalg.eigvalsh(jacobian).max() < 0


def test_four_vertex_example_of_the_paper() -> None:
    """fig:basins: the vertex with .38 appears after t = .5; one attractor, then two, three, four."""
    times = birth_times(P4, [1, 2, 3])
    assert times[0] == pytest.approx(0.5348, abs=1e-4)
    assert np.all(np.diff(times) > 0)
    counts = [len(attractors(float(inverse_temperature(t)), P4)) for t in (0.3, 0.57, 0.65, 0.8)]
    assert counts == [1, 2, 3, 4]


@pytest.mark.parametrize("V", [2, 4, 10])
def test_births_match_simulation(V: int) -> None:
    """The turning point of the curve against bisection on the limit of the iteration."""
    p = np.random.default_rng(V).dirichlet(np.full(V, 1.5))
    for j in np.argsort(-p)[[1, V // 2, -1]]:
        if j != p.argmax():
            assert birth(p, j).beta == pytest.approx(simulated_birth(p, j), rel=2e-5)


def test_formula_by_regime() -> None:
    """prop:attractor formation times, with m counting the largest probability as the proof does.

    Well separated targets agree to .01 in t. The count as stated (without the largest) is worse. For a vertex nearly as
    likely as the dominant one, it gives a birth before t = 1/2, which contradicts prop:other attractors form late.
    """
    separated = np.array([0.9, 0.06, 0.03, 0.01])
    for j in (1, 2, 3):
        exact = float(birth_times(separated, j)[0])
        assert comparable(separated, j) == 1
        proved, stated = (abs(float(time_at(formula_beta(separated, j, m))) - exact) for m in (1, 0))
        assert proved < 0.01
        assert stated > 2 * proved
    rivals = np.array([0.51, 0.49])
    stated, proved, exact = (
        float(time_at(b)) for b in (*(formula_beta(rivals, 1, m) for m in (0, 1)), birth(rivals, 1).beta)
    )
    assert stated < 0.5 < exact < proved
    assert exact == pytest.approx(0.5156, abs=1e-4)
    # Flat targets in high dimension: no single count fits, and the error grows to a few hundredths.
    flat = np.random.default_rng(0).dirichlet(np.ones(1000))
    j = int(np.argsort(-flat)[1])
    error = float(time_at(formula_beta(flat, j, comparable(flat, j)))) - float(birth_times(flat, j)[0])
    assert -0.06 < error < -0.02


@pytest.mark.parametrize("V", [2, 10, 100, 5000])
@pytest.mark.parametrize("flat", [0.1, 1.0, 100.0])
def test_no_other_attractor_before_one_half(V: int, flat: float) -> None:
    """prop:other attractors form late: beta* >= 2, i.e. t >= 1/2 for sigma = 1."""
    p = np.maximum(np.random.default_rng(V).dirichlet(np.full(V, flat)), 1e-12)
    p /= p.sum()
    assert birth(p, int(np.argsort(-p)[1])).beta > 2.0


def test_one_half_is_sharp() -> None:
    """Two equal vertices reach the bound: beta* = 2 exactly, from above as they become equal."""
    assert birth(np.array([0.5, 0.5]), 1).beta == pytest.approx(2.0, abs=1e-9)
    near = [birth(np.array([0.5 + d, 0.5 - d]), 1).beta for d in (1e-2, 1e-4, 1e-6)]
    assert near[0] > near[1] > near[2] > 2.0


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000), V=st.integers(3, 40), flat=st.sampled_from([0.3, 1.0, 10.0]))
def test_attractors_form_in_order_of_probability(seed: int, V: int, flat: float) -> None:
    """thm:larger attractors form earlier."""
    p = np.maximum(np.random.default_rng(seed).dirichlet(np.full(V, flat)), 1e-9)
    p /= p.sum()
    order = np.argsort(-p)[1:]
    picked = order[:: max(1, len(order) // 8)]
    assert np.all(np.diff([birth(p, j).beta for j in picked]) > 0)


def test_early_asymptotics() -> None:
    """lemma:asymptotic formula (i): the error is second order in t, so halving t quarters it."""
    sigma = 0.8
    errors = []
    for t in (0.004, 0.002, 0.001):
        (only,) = attractors(float(inverse_temperature(t, sigma)), P4)
        errors.append(np.abs(only.x - early_attractor(t, P4, sigma)).max())
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.05)
    assert errors[2] > 0


@pytest.mark.parametrize("j", range(4))
def test_late_asymptotics(j: int) -> None:
    """lemma:asymptotic formula (ii): the error is of order beta exp(-2 beta), in every coordinate."""
    scaled = []
    for beta in (9.0, 11.0, 13.0):
        (mine,) = [one for one in attractors(beta, P4) if one.vertex == j]
        # x_j - 1 is the sum of the other coordinates: compare those, which have full relative precision.
        others = np.arange(4) != j
        error = np.abs(mine.x - late_attractor(beta, P4, j))[others].max()
        scaled.append(error / (beta * np.exp(-2 * beta)))
    assert scaled[2] == pytest.approx(scaled[1], rel=0.15)
    assert scaled[2] > 0
    assert late_attractor(9.0, P4, j).sum() == pytest.approx(1.0, abs=1e-12)


def test_lyapunov_function_falls_at_its_stated_rate() -> None:
    """eq. (two divergences): (1 - t) b_t . grad V = -(KL + KL), by finite differences, and never positive."""
    rng = np.random.default_rng(3)
    t, h = 0.55, 1e-6
    beta = float(inverse_temperature(t))
    for x in rng.dirichlet(np.ones(4), 30):
        pull = (1 - t) * time_dependent_field(t, x, P4)
        slope = (lyapunov(x + h * pull, beta, P4) - lyapunov(x - h * pull, beta, P4)) / (2 * h)
        assert lyapunov_rate(x, beta, P4) == pytest.approx(slope, rel=1e-5, abs=1e-8)
        assert lyapunov_rate(x, beta, P4) < 0
    for one in attractors(beta, P4):
        assert lyapunov_rate(one.x, beta, P4) == pytest.approx(0.0, abs=1e-12)


def test_frozen_flow_settles_in_the_attractors() -> None:
    """Every start converges to one of the two attractors at t = .57, and a start next to one converges to it."""
    beta = float(inverse_temperature(0.57))
    at_beta = attractors(beta, P4)
    x0 = np.vstack([np.random.default_rng(4).dirichlet(np.ones(4), 50), [attractor.x + 1e-3 for attractor in at_beta]])
    labels = frozen_basins(x0, beta, P4, at_beta)
    assert labels[-2:].tolist() == [0, 1]
    assert set(labels.tolist()) == {0, 1}
    ends = settle(x0, beta, P4)
    assert max(np.abs(end - at_beta[k].x).max() for end, k in zip(ends, labels)) < 1e-4


def test_dominant_attractor_grows_out_of_the_prior_for_peaked_targets() -> None:
    """prop:largest attractor where it holds: one attractor from p at t = 0 to the dominant vertex, no jump."""
    assert death(P4) is None
    path = [attractors(beta, P4)[0].x for beta in np.linspace(0.01, 5.0, 150)]
    assert np.abs(path[0] - P4).max() < 0.01
    assert path[-1][0] > 0.98
    assert np.abs(np.diff(path, axis=0)).max() < 0.05


def test_dominant_attractor_of_a_flat_target_is_born_late() -> None:
    """A counterexample to prop:largest attractor, also found by iteration alone.

    With ten vertices and p_1 = .11 the attractor that starts at p does not move to vertex 1. A second attractor is born
    there at t = .624; both exist until the first one vanishes at t = .677.
    """
    p = np.full(10, 0.89 / 9)
    p[0] = 0.11
    born, end = birth(p, 0), death(p)
    assert end is not None
    assert float(time_at(born.beta)) == pytest.approx(0.6237, abs=1e-4)
    assert float(time_at(end.beta)) == pytest.approx(0.6772, abs=1e-4)
    beta = 0.5 * (born.beta + end.beta)
    assert iterate(beta, p, p.copy()).max() < 0.2
    assert iterate(beta, p, np.eye(10)[0])[0] > 0.9
    assert iterate(end.beta + 0.01, p, p.copy())[0] > 0.9
    assert iterate(born.beta - 0.01, p, np.eye(10)[0])[0] < 0.2


def test_zipf_over_ten_thousand_words_is_such_a_counterexample() -> None:
    p = 1.0 / np.arange(1, 10_001)
    p /= p.sum()
    end = death(p)
    assert end is not None
    assert birth(p, 0).beta < end.beta
