"""The probability that the argmax of I_t is its target, for uniform targets: thm:optimal-t, exact and simulated.

With rho = (1 - alpha_t) / (alpha_t sigma), the argmax is right iff rho + z_k > max_{j != k} z_j for standard normal z,
so sigma, a and t enter only through rho.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import log_ndtr

from dbtm.theory.moments import Array

# Gauss-Legendre on [-9, 9] for the average over the target's own noise z_k.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
Z = 9.0 * NODES
DENSITY = 9.0 * WEIGHTS * np.exp(-0.5 * Z**2) / np.sqrt(2 * np.pi)


def signal_to_noise(t: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Array:
    """rho(t) = (1 - alpha_t) / (alpha_t sigma)."""
    alpha = (1.0 - np.asarray(t, dtype=np.float64)) ** a
    return (1.0 - alpha) / (alpha * sigma)


def recovery(rho: ArrayLike, V: int) -> Array:
    """Pr(argmax_j I_t = k) = int phi(z) Phi(z + rho)^(V - 1) dz: the curve that sharpens to a step at sqrt(2 log V)."""
    rho = np.asarray(rho, dtype=np.float64)
    return np.exp((V - 1) * log_ndtr(Z + rho[..., None])) @ DENSITY


def rho_at(probability: float, V: int) -> float:
    """The signal-to-noise ratio at which the recovery probability has this value, between 1/V and 1."""
    return float(brentq(lambda rho: recovery(rho, V) - probability, 0.0, 40.0, xtol=1e-12))


def transition_width(V: int) -> float:
    """Width of the transition in theta = rho / sqrt(2 log V), from 10 % to 90 % between chance and certainty."""
    low, high = (rho_at(1 / V + share * (1 - 1 / V), V) for share in (0.1, 0.9))
    return (high - low) / np.sqrt(2 * np.log(V))


def paper_error(theta: ArrayLike, V: int) -> Array:
    """The error probability that the proof of thm:optimal-t estimates, V^(-2 delta) with delta = theta - 1."""
    return float(V) ** (-2.0 * (np.asarray(theta, dtype=np.float64) - 1.0))


def simulate_recovery(rho: ArrayLike, V: int, samples: int, rng: np.random.Generator, block: int = 1 << 22) -> Array:
    """Monte Carlo recovery at each rho; the V - 1 competing noises are drawn in blocks, and only their maximum is kept.

    All rho use the same draws, so the curve is monotone and costs one pass over samples x V normals.
    """
    top = np.full(samples, -np.inf)
    for width in _widths(V - 1, max(1, block // samples)):
        np.maximum(top, rng.standard_normal((samples, width), dtype=np.float32).max(axis=-1), out=top)
    lead = np.sort(top - rng.standard_normal(samples))
    return np.searchsorted(lead, np.asarray(rho, dtype=np.float64)) / samples


def _widths(total: int, block: int) -> Iterator[int]:
    for start in range(0, total, block):
        yield min(block, total - start)
