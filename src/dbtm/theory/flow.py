"""Flows of the two fields: the transport map T, hitting times, path lengths and trajectories.

Both fields have the form rate * (endpoint - x), and a positive rate changes the clock but not the path. So the
integrations run on clocks where the rate is one: d lambda = Z(x) ds for the autonomous flow, and -log alpha_t for the
time-dependent one (its paths therefore do not depend on a). On these clocks a vertex is reached exponentially, without
a singularity, and the true time is integrated as one more coordinate.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from dbtm.theory.field import arrival_speed, autonomous_field, endpoint_form
from dbtm.theory.integrate import End, Observe, Rhs, Stop, integrate
from dbtm.theory.moments import Array

# Long enough for every start that is not exactly on a basin boundary: the distance to it grows exponentially.
_CLOCK_END = 400.0
_UNDECIDED = -1


class Journey(NamedTuple):
    """The result for each start x_0; all of shape (N,)."""

    vertex: NDArray[np.intp]  # T(x_0), or -1 for a start that stays on a basin boundary
    hitting_time: Array  # tau(x_0): s for the autonomous flow, 1 for the time-dependent one
    path: Array  # arc length of the trajectory
    chord: Array  # |x_0 - T(x_0)|

    @property
    def ratio(self) -> Array:
        """Path length over chord length, at least one; one means a straight trajectory."""
        return self.path / self.chord


def transport_map(
    x0: ArrayLike, p: ArrayLike, sigma: float = 1.0, a: float = 1.0, tol: float = 1e-6
) -> NDArray[np.intp]:
    """T(x_0) as a vertex index per row, eq. (transport-map); -1 if x_0 stays on a basin boundary (a null set)."""
    end = integrate(_clocked(p, sigma, a), _rows(x0), _CLOCK_END, _captured(p, sigma, a), tol)
    return _vertex(end, len(np.asarray(p)))


def basins(points: ArrayLike, p: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> NDArray[np.intp]:
    """Basin label of every point of a grid of shape (..., V): T(point), eq. (transport-map)."""
    points = np.asarray(points, dtype=np.float64)
    return transport_map(points.reshape(-1, points.shape[-1]), p, sigma, a, tol=1e-5).reshape(points.shape[:-1])


def flow(x0: ArrayLike, s: float, p: ArrayLike, sigma: float = 1.0, a: float = 1.0, tol: float = 1e-10) -> Array:
    """X_s(x_0), the autonomous flow at its own time s, eq. (autonomous-flow); the vertex for s >= tau(x_0)."""
    # For a = 1 the field jumps at a vertex, so a trajectory ends just before it rather than on it.
    stop = _near(p, sigma, a, radius=1e-8)
    end = integrate(lambda _, x: autonomous_field(x, p, sigma, a), _rows(x0), s, stop, tol)
    arrived = np.eye(end.y.shape[-1])[end.y.argmax(axis=-1)]
    return np.where(end.stopped[:, None], arrived, end.y)


def travel(
    x0: ArrayLike,
    p: ArrayLike,
    sigma: float = 1.0,
    a: float = 1.0,
    radius: float = 1e-5,
    tol: float = 1e-7,
    observe: Observe | None = None,
) -> Journey:
    """Integrate the autonomous flow to within `radius` of its vertex, then use the rate of lemma:approach-vertex."""
    x0 = _rows(x0)
    V = x0.shape[-1]

    def rhs(_: Array, y: Array) -> Array:
        form = endpoint_form(y[:, :V], p, sigma, a)
        return np.column_stack([form.pull, np.linalg.norm(form.pull, axis=-1), np.exp(-form.log_Z)])

    end = integrate(rhs, _with_clock(x0, 2), _CLOCK_END, _near(p, sigma, a, radius), tol, observe)
    vertex = _vertex(end, V)
    offset = end.y[:, :V] - np.eye(V)[vertex]
    r = np.linalg.norm(offset, axis=-1)
    # dr/ds = -kappa r^(1 - 1/a) from here on: the last stretch is straight and takes a r^(1/a) / kappa.
    kappa = arrival_speed(offset / np.maximum(r, 1e-300)[:, None], vertex, sigma, a)
    tau = end.y[:, V + 1] + a * r ** (1 / a) / kappa
    tau[vertex == _UNDECIDED] = np.inf
    return Journey(vertex, tau, end.y[:, V] + r, np.linalg.norm(x0 - np.eye(V)[vertex], axis=-1))


def travel_time_dependent(
    x0: ArrayLike, p: ArrayLike, sigma: float = 1.0, tol: float = 1e-7, observe: Observe | None = None
) -> Journey:
    """Integrate dX/dt = b_t(X), eq. (probability-flow), to t = 1; the paths are the same for every exponent a.

    The clock is -log alpha_t. A trajectory stops when its denoiser is one-hot up to rounding: the rest is straight.
    """
    x0 = _rows(x0)
    V = x0.shape[-1]
    log_p = np.log(np.asarray(p, dtype=np.float64))

    def eta(clock: Array, x: Array) -> Array:
        alpha = np.exp(-clock)[:, None]
        return softmax(log_p + (1 - alpha) / (alpha * sigma) ** 2 * x, axis=-1)

    def rhs(clock: Array, y: Array) -> Array:
        pull = eta(clock, y[:, :V]) - y[:, :V]
        return np.column_stack([pull, np.linalg.norm(pull, axis=-1)])

    def stop(clock: Array, y: Array) -> NDArray[np.bool_]:
        x = y[:, :V]
        guess = eta(clock, x)
        return (guess.max(axis=-1) > 1 - 1e-12) & (guess.argmax(axis=-1) == x.argmax(axis=-1))

    end = integrate(rhs, _with_clock(x0, 1), 30.0, stop, tol, observe)
    vertex = _vertex(end, V)
    target = np.eye(V)[vertex]
    path = end.y[:, V] + np.linalg.norm(end.y[:, :V] - target, axis=-1)
    return Journey(vertex, np.ones(len(x0)), path, np.linalg.norm(x0 - target, axis=-1))


def trajectories(
    x0: ArrayLike, p: ArrayLike, sigma: float = 1.0, a: float = 1.0, autonomous: bool = True
) -> list[Array]:
    """The polyline of every start, its vertex included, as arrays (steps, V)."""
    x0 = _rows(x0)
    V = x0.shape[-1]
    lines = [[x] for x in x0]

    def observe(rows: NDArray[np.intp], _: Array, y: Array) -> None:
        for row, state in zip(rows, y):
            lines[row].append(state[:V])

    end = (
        travel(x0, p, sigma, a, observe=observe) if autonomous else travel_time_dependent(x0, p, sigma, observe=observe)
    )
    for line, j in zip(lines, end.vertex):
        if j != _UNDECIDED:
            line.append(np.eye(V)[j])
    return [np.array(line) for line in lines]


def _clocked(p: ArrayLike, sigma: float, a: float) -> Rhs:
    return lambda _, x: endpoint_form(x, p, sigma, a).pull


def _captured(p: ArrayLike, sigma: float, a: float) -> Stop:
    """True where x can only fall into its nearest vertex.

    On the clock, dr/d lambda <= -r + sqrt(2) (1 - eta_j) for r = |x - e_j|. Once the last term is a tenth of r it stays
    so, because 1 - eta_j shrinks like r^V.
    """

    def stop(_: Array, x: Array) -> NDArray[np.bool_]:
        j = x.argmax(axis=-1)
        rows = np.arange(len(x))
        offset = x.copy()
        offset[rows, j] -= 1.0
        r = np.linalg.norm(offset, axis=-1)
        inside = np.flatnonzero(r <= 0.25)
        captured = r == 0.0
        pull = endpoint_form(x[inside], p, sigma, a).pull[np.arange(len(inside)), j[inside]]
        others = -offset[inside, j[inside]] - pull
        captured[inside] |= np.sqrt(2.0) * others <= 0.1 * r[inside]
        return captured

    return stop


def _near(p: ArrayLike, sigma: float, a: float, radius: float) -> Stop:
    """Captured and within `radius` of the vertex."""
    V = len(np.asarray(p))
    captured = _captured(p, sigma, a)

    def stop(s: Array, y: Array) -> NDArray[np.bool_]:
        x = y[:, :V]
        near = np.linalg.norm(x - np.eye(V)[x.argmax(axis=-1)], axis=-1) <= radius
        near[near] = captured(s[near], x[near])
        return near

    return stop


def _vertex(end: End, V: int) -> NDArray[np.intp]:
    return np.where(end.stopped, end.y[:, :V].argmax(axis=-1), _UNDECIDED)


def _rows(x0: ArrayLike) -> Array:
    return np.atleast_2d(np.asarray(x0, dtype=np.float64))


def _with_clock(x0: Array, columns: int) -> Array:
    return np.column_stack([x0, np.zeros((len(x0), columns))])
