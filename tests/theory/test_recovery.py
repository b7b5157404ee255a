"""The phase transition: exact recovery curve, simulation, the table of commitment times, and the transition's width."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import ndtr

from dbtm.simplex.phase import commitment_time
from dbtm.theory.recovery import paper_error, recovery, rho_at, signal_to_noise, simulate_recovery, transition_width


@pytest.mark.parametrize(("V", "t_star"), [(30_522, 0.820), (50_257, 0.823), (49_152, 0.823), (12, 0.690)])
def test_table_of_commitment_times(V: int, t_star: float) -> None:
    """tab:optimal-anchor, and rho(t*) = sqrt(2 log V)."""
    assert commitment_time(V) == pytest.approx(t_star, abs=5e-4)
    for sigma, a in ((1.0, 1.0), (0.5, 2.0)):
        assert signal_to_noise(commitment_time(V, sigma, a), sigma, a) == pytest.approx(np.sqrt(2 * np.log(V)))


def test_two_vertices_have_a_closed_form() -> None:
    """Pr(rho + z_1 > z_2) = Phi(rho / sqrt 2)."""
    rho = np.linspace(0, 6, 13)
    np.testing.assert_allclose(recovery(rho, 2), ndtr(rho / np.sqrt(2)), rtol=1e-12)


@pytest.mark.parametrize("V", [2, 12, 1000, 50_257])
def test_chance_level_without_signal(V: int) -> None:
    assert recovery(0.0, V) == pytest.approx(1 / V, rel=1e-6)


@pytest.mark.parametrize(("V", "samples"), [(12, 20_000), (1000, 10_000), (50_257, 1000)])
def test_simulation_matches_the_exact_curve(V: int, samples: int) -> None:
    rho = np.array([1.0, 2.0, 3.0, 4.0, 4.65, 5.5])
    exact = recovery(rho, V)
    simulated = simulate_recovery(rho, V, samples, np.random.default_rng(V))
    assert np.all(np.abs(simulated - exact) < 4 * np.sqrt(exact * (1 - exact) / samples) + 1e-3)


def test_simulation_reads_the_interpolant_itself() -> None:
    """Argmax of the full I_t at V = 30 against the curve, without reduction to rho."""
    rng = np.random.default_rng(1)
    V, t, sigma, a = 30, 0.4, 0.8, 2.0
    alpha = (1 - t) ** a
    target = rng.integers(V, size=20_000)
    state = alpha * sigma * rng.standard_normal((20_000, V)) + (1 - alpha) * np.eye(V)[target]
    share = np.mean(state.argmax(axis=-1) == target)
    assert share == pytest.approx(float(recovery(signal_to_noise(t, sigma, a), V)), abs=0.015)


def test_simulation_keeps_memory_small() -> None:
    """50,257 x 1,000 float32 would be 200 MB; the blocks stay below a fifth of it."""
    tracemalloc.start()
    simulate_recovery([4.0], 50_257, 1000, np.random.default_rng(0), block=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6


def test_curve_sharpens_to_a_step_at_theta_one() -> None:
    """thm:optimal-t in its limit: below theta = 1 recovery vanishes, above it is certain, and the gap grows with V."""
    sizes = (10**2, 10**4, 10**8, 10**16)
    below = [float(recovery(0.7 * np.sqrt(2 * np.log(V)), V)) for V in sizes]
    above = [float(recovery(1.3 * np.sqrt(2 * np.log(V)), V)) for V in sizes]
    assert np.all(np.diff(below) < 0)
    assert np.all(np.diff(above) > 0)
    assert below[-1] < 0.03
    assert above[-1] > 0.99


def test_width_shrinks_like_the_square_root_of_log_v_not_log_v() -> None:
    """The proof drops the target's own noise h_k and finds a width of order 1 / log V. It is not negligible.

    rho must grow by the spread of z_k, a standard normal: the 10-90 % width in theta tends to 2.563 / sqrt(2 log V).
    """
    sizes = np.array([1e4, 1e8, 1e12])
    widths = np.array([transition_width(int(V)) for V in sizes])
    slopes = np.diff(np.log(widths)) / np.diff(np.log(np.log(sizes)))
    assert np.all(np.abs(slopes + 0.5) < 0.04)
    assert widths[-1] * np.sqrt(2 * np.log(sizes[-1])) == pytest.approx(2.563, rel=0.02)


def test_error_estimate_of_the_proof_is_too_small() -> None:
    """V^(-2 delta) at V = 50,257 and delta = .3 says .0015; the error is .041, by quadrature and by simulation."""
    rho = 1.3 * np.sqrt(2 * np.log(50_257))
    exact = 1 - float(recovery(rho, 50_257))
    assert exact == pytest.approx(0.0406, abs=5e-4)
    assert paper_error(1.3, 50_257) < exact / 20
    simulated = 1 - simulate_recovery([rho], 50_257, 1500, np.random.default_rng(2))[0]
    assert simulated == pytest.approx(exact, abs=4 * np.sqrt(exact / 1500))


def test_rho_at_inverts_the_curve() -> None:
    assert recovery(rho_at(0.37, 500), 500) == pytest.approx(0.37, abs=1e-9)
