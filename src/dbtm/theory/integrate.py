"""Dormand-Prince 5(4) for a batch of independent trajectories, each with its own step size and end."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbtm.theory.moments import Array

# rhs(s, y): times (n,), states (n, d) -> derivatives (n, d).   stop(s, y) -> (n,) True for a finished trajectory.
Rhs = Callable[[Array, Array], Array]
Stop = Callable[[Array, Array], NDArray[np.bool_]]
# observe(rows, s, y): called with the trajectories after each accepted step.
Observe = Callable[[NDArray[np.intp], Array, Array], None]

_C = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_A = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_E = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])


class End(NamedTuple):
    """The trajectories when they stop, or at `s_end`."""

    s: Array  # (N,)
    y: Array  # (N, d)
    stopped: NDArray[np.bool_]  # (N,) False if `s_end` came first


def integrate(
    rhs: Rhs,
    y0: Array,
    s_end: float,
    stop: Stop | None = None,
    tol: float = 1e-6,
    observe: Observe | None = None,
    max_steps: int = 100_000,
) -> End:
    """Integrate dy/ds = rhs(s, y) from s = 0 for all rows of y0 at once; local error below tol (1 + |y|) per step.

    Finished trajectories leave the batch, so the cost is the sum of all lengths, not rows times the longest.
    """
    s, y = np.zeros(len(y0)), np.array(y0, dtype=np.float64)
    stopped = np.zeros(len(y0), dtype=bool)
    if stop is not None:
        stopped |= stop(s, y)
    rows = np.flatnonzero(~stopped)
    h = np.full(len(y0), min(1e-2, s_end))
    k1 = np.zeros_like(y)
    k1[rows] = rhs(s[rows], y[rows])
    for _ in range(max_steps):
        if not len(rows):
            return End(s, y, stopped)
        step = np.minimum(h[rows], s_end - s[rows])
        trial, k7, error = _step(rhs, s[rows], y[rows], k1[rows], step)
        worst = np.abs(error / (tol * (1.0 + np.maximum(np.abs(y[rows]), np.abs(trial))))).max(axis=-1)
        good = worst <= 1.0
        moved = rows[good]
        s[moved], y[moved], k1[moved] = s[moved] + step[good], trial[good], k7[good]
        h[rows] = step * np.clip(0.9 * np.maximum(worst, 1e-10) ** -0.2, 0.2, 5.0)
        if observe is not None:
            observe(moved, s[moved], y[moved])
        if stop is not None:
            stopped[moved] = stop(s[moved], y[moved])
        rows = rows[~stopped[rows] & (s[rows] < s_end)]
    raise RuntimeError(f"{len(rows)} trajectories are not finished after {max_steps} steps: the tolerance is too small")


def _step(rhs: Rhs, s: Array, y: Array, k1: Array, h: Array) -> tuple[Array, Array, Array]:
    """One trial step of every row: new state, its derivative, and the error estimate."""
    k = [k1]
    state = y
    for c, row in zip(_C[1:], _A):
        state = y + h[:, None] * sum(w * ki for w, ki in zip(row, k) if w)
        k.append(rhs(s + c * h, state))
    # The last row of A holds the fifth-order weights, so the last stage is the derivative at the new state.
    return state, k[-1], h[:, None] * sum(w * ki for w, ki in zip(_E, k) if w)
