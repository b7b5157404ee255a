"""The field implied by the exact transport map, T(x) - x, versus the autonomous field b(x) = Z(x) (eta(x) - x).

remark:autonomous-flow equates the two: "the autonomous velocity is fully determined by a map onto the product of
simplices, which is exactly what T predicts". But b is determined by the averaged endpoint eta(x), a point inside the
simplex, while T(x) is the vertex where the flow through x ends. They agree only at the vertices.
"""

import numpy as np
from numpy.typing import ArrayLike

from dbtm.theory.field import endpoint_form
from dbtm.theory.flow import transport_map
from dbtm.theory.moments import Array


def implied_field(x: ArrayLike, p: ArrayLike, sigma: float = 1.0) -> Array:
    """T(x) - x with the exact T, for x of shape (N, V); NaN for a point that stays on a basin boundary."""
    x = np.asarray(x, dtype=np.float64)
    vertex = transport_map(x, p, sigma)
    return np.where((vertex >= 0)[:, None], np.eye(x.shape[-1])[vertex] - x, np.nan)


def alignment(x: ArrayLike, p: ArrayLike, sigma: float = 1.0) -> Array:
    """cos(T(x) - x, b(x)) of every point, (N,): 1 if both fields have the same direction. It does not depend on a."""
    implied, pull = implied_field(x, p, sigma), endpoint_form(x, p, sigma).pull
    lengths = np.linalg.norm(implied, axis=-1) * np.linalg.norm(pull, axis=-1)
    return (implied * pull).sum(-1) / lengths


def implied_flow(x0: ArrayLike, p: ArrayLike, horizon: float, steps: int, sigma: float = 1.0) -> Array:
    """Euler steps along T(x) - x up to the horizon, as in tab:autonomous-field-horizon, with the exact T."""
    x, step = np.array(x0, dtype=np.float64), horizon / steps
    for _ in range(steps):
        x += step * implied_field(x, p, sigma)
    return x
