"""A clock that concentrates times where the loss changes (S-FLM): times are drawn with density d loss / d t.

Every fit is a cubic spline of the loss over t, with few knots and a small ridge penalty, to recent pairs (t, loss). The
clock is the inverse of the density's distribution function, averaged over fits.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.interpolate import BSpline, PchipInterpolator
from torch import Tensor

GRID = 1_000  # points of density and clock
KNOTS, RIDGE, FLOOR = 20, 1e-3, 1e-3

Array = NDArray[np.float64]


def density(t: Array, loss: Array) -> Array:
    """max(d loss / d t, 0) of the fit, scaled to mean 1, plus FLOOR, at the centres of GRID intervals of [0, 1]."""
    inner = np.linspace(0, 1, KNOTS)
    knots = np.concatenate(([0.0] * 3, inner, [1.0] * 3))
    design = BSpline.design_matrix(np.clip(t, 0, 1), knots, 3).toarray()
    gram = design.T @ design / len(t) + RIDGE / design.shape[1] * np.eye(design.shape[1])
    centred = loss - loss.mean()  # without the mean: the ridge penalty would bend a constant at the ends
    fit = BSpline(knots, np.linalg.solve(gram, design.T @ centred / len(t)), 3)
    slope = np.maximum(fit.derivative()((np.arange(GRID) + 0.5) / GRID), 0.0)
    mean = slope.mean()
    return (slope / mean if mean > 0 else np.ones(GRID)) + FLOOR


def inverse(density: Array) -> Array:
    """t at the quantiles 0, 1 / GRID, ..., 1 of a density, by a monotone cubic through its distribution function."""
    cdf = np.concatenate(([0.0], np.cumsum(density)))
    cdf = cdf / cdf[-1]
    out = PchipInterpolator(cdf, np.linspace(0, 1, GRID + 1))(np.linspace(0, 1, GRID + 1))
    return np.clip(np.maximum.accumulate(out), 0.0, 1.0)


def read(clock: Tensor, u: Tensor) -> Tensor:
    """t at u in [0, 1], linear between the clock's GRID + 1 points."""
    place = (u.double() * GRID).clamp(0, GRID)
    low = place.floor().clamp(max=GRID - 1)
    at = low.long()
    return torch.lerp(clock[at].double(), clock[at + 1].double(), place - low)
