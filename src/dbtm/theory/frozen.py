"""The flow of b_t at fixed t: the attractor that each start converges to."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from dbtm.theory.attractors import Attractor
from dbtm.theory.integrate import integrate
from dbtm.theory.moments import Array


def settle(x0: ArrayLike, beta: float, p: ArrayLike, speed: float = 1e-6) -> Array:
    """Limit of dx/ds = softmax(log p + beta x) - x from each row of x0, eq. (form of time dependent flow) at fixed t.

    A trajectory stops when it is slower than `speed`: at an attractor, except for starts on a basin boundary.
    """
    x0, log_p = np.atleast_2d(np.asarray(x0, dtype=np.float64)), np.log(np.asarray(p, dtype=np.float64))

    def rhs(_: Array, x: Array) -> Array:
        return softmax(log_p + beta * x, axis=-1) - x

    return integrate(rhs, x0, 1e5, lambda s, x: np.abs(rhs(s, x)).max(axis=-1) < speed).y


def frozen_basins(x0: ArrayLike, beta: float, p: ArrayLike, candidates: list[Attractor]) -> NDArray[np.intp]:
    """Index of the attractor that each row of x0 converges to; `candidates` are all attractors at this beta."""
    ends = settle(x0, beta, p)
    places = np.array([attractor.x for attractor in candidates])
    return np.linalg.norm(ends[:, None, :] - places, axis=-1).argmin(axis=-1)
