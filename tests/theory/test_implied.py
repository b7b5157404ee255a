"""T(x) - x against b; both are also computed by quadrature and by SciPy's integrator."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad_vec, solve_ivp

from dbtm.theory.flow import transport_map
from dbtm.theory.implied import alignment, implied_field, implied_flow

ROOT = Path(__file__).parent.parent.parent
P3 = np.array([0.5, 0.3, 0.2])


def field_by_quadrature(x: np.ndarray) -> np.ndarray:
    """b(x) = int mu_t b_t dt / int mu_t dt (prop:time-average) for a = 1, sigma = 1; mu_t is a mixture of Gaussians."""

    def at(t: float) -> np.ndarray:
        alpha = 1 - t
        density = P3 * np.exp(-((x - t * np.eye(3)) ** 2).sum(-1) / (2 * alpha**2)) / alpha**3
        velocity = (np.eye(3) - x) / alpha  # dI_t/dt of an interpolant at x that ends at e_j
        return np.append(density @ velocity, density.sum())

    *current, occupation = quad_vec(at, 0, 1, epsabs=1e-10, epsrel=1e-8)[0]
    return np.array(current) / occupation


def test_the_angle_is_that_of_an_independent_computation() -> None:
    x0 = np.random.default_rng(3).standard_normal((3, 3))

    def arrived(_: float, x: np.ndarray) -> float:
        return np.linalg.norm(np.eye(3) - x, axis=-1).min() - 0.02

    arrived.terminal = True  # type: ignore[attr-defined]
    for x, found, implied in zip(x0, alignment(x0, P3), implied_field(x0, P3)):
        path = solve_ivp(lambda _, y: field_by_quadrature(y), (0, 20), x, rtol=1e-4, atol=1e-5, events=arrived)
        T = np.eye(3)[path.y[:, -1].argmax()]
        np.testing.assert_allclose(implied, T - x)
        b = field_by_quadrature(x)
        assert found == pytest.approx((T - x) @ b / np.linalg.norm(T - x) / np.linalg.norm(b), abs=1e-6)


def test_the_implied_field_is_not_the_autonomous_one() -> None:
    """At V = 3: a mean cosine of .92, and starts with angles over 60 degrees."""
    cos = alignment(np.random.default_rng(0).standard_normal((4000, 3)), P3)
    assert cos.mean() == pytest.approx(0.92, abs=0.01)
    assert cos.min() < 0.45
    assert cos.max() > 0.999
    # the draws of the figure: its numbers and those on the page must equal ours
    found = json.loads((ROOT / "results" / "theory" / "implied.json").read_text())["numbers"]
    here = {"mean": cos.mean(), "first_percentile": np.quantile(cos, 0.01), "least": cos.min()}
    assert {name: found[name] for name in here} == pytest.approx(here, abs=1e-6)
    quoted = "mean {mean:.3f}, first\npercentile {first_percentile:.3f} and minimum {least:.2f}".format(**found)
    page = " ".join((ROOT / "docs" / "theory.md").read_text().split())
    assert " ".join(quoted.replace("0.", ".").split()) in page
    rows = found["uniform_by_V"].values()
    for name, digits in (("mean", 3), ("least", 2)):
        assert " / ".join(f"{row[name]:.{digits}f}".replace("0.", ".", 1) for row in rows) in page
    near = found["horizons"]
    assert "distance to the vertex {:.2f})".format(near["1"]["mean_distance_to_T"]).replace("0.", ".") in page
    assert "at H = 4 it is {:.2f}".format(near["4"]["mean_distance_to_T"]).replace("0.", ".") in page


def test_two_vertices_and_the_neighbourhood_of_a_vertex_leave_no_choice() -> None:
    """Next to a vertex both point at it; on the line between two vertices there are only two directions."""
    near = np.array([[0.98, 0.01, 0.01], [0.02, 0.97, 0.01]])
    assert alignment(near, P3) == pytest.approx([1, 1], abs=1e-2)
    line = np.array([[0.8, 0.2], [0.1, 0.9]])
    assert alignment(line, np.array([0.6, 0.4])) == pytest.approx([1, 1], abs=1e-6)


def test_the_implied_flow_relaxes_along_a_straight_line() -> None:
    """dx/ds = T(x) - x has x(H) = T + e^-H (x0 - T) while the line stays in its basin; so at H = 1 a third remains."""
    x0 = np.random.default_rng(5).standard_normal((40, 3))
    vertex = np.eye(3)[transport_map(x0, P3)]
    for horizon, steps in ((1.0, 16), (4.0, 64)):
        end = implied_flow(x0, P3, horizon, steps)
        want = vertex + (1 - horizon / steps) ** steps * (x0 - vertex)
        straight = np.linalg.norm(end - want, axis=-1) < 1e-9
        assert straight.mean() > 0.8, "most lines stay in their basin"
        assert np.exp(-horizon) == pytest.approx((1 - horizon / steps) ** steps, rel=0.15)
