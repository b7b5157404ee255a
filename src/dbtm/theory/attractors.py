"""Attractors of the frozen field b_t: all of them, exactly, from one scalar equation per branch.

A zero of b_t solves x = softmax(log p + beta x), eq. (attractor eqn indpt c), beta = (1 - alpha) / (alpha sigma)^2.
With xi = beta x, every coordinate solves xi_i exp(-xi_i) = kappa p_i for one common kappa, so it is one of two numbers:
on the lower branch xi_i <= 1, on the upper branch xi_i >= 1. A stable zero has at most one coordinate on the upper
branch: with two, the Hessian of the Lyapunov function is negative along their difference. Hence each attractor belongs
to one of the curves

    beta_j(kappa) = xi_j^+(kappa) + sum_{i != j} xi_i^-(kappa)        (attractor A_j), or
    beta_0(kappa) = sum_i xi_i^-(kappa)                               (the attractor that starts at x = p),

and is stable where d beta / d log kappa = sum_i xi_i / (1 - xi_i) is negative on the first, positive on the second. The
birth of A_j is the minimum of its curve. In the code, kappa is exp(-1 - w) / max(p), w >= 0.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import lambertw, softmax, xlogy

from dbtm.theory.moments import Array

_GRID = 96
_W_MIN = 1e-14
_EXP_UNDERFLOW = 700.0
_SERIES = 1e-3  # below this distance from the branch point the series is exact to rounding
_SAFE = 1.0 + 1e-9  # any y beyond the branch point: its value is not used there, but it must not be NaN


class Attractor(NamedTuple):
    """A stable zero of b_t. `vertex` is None for the one that starts at x = p."""

    vertex: int | None
    x: Array


class Turn(NamedTuple):
    """A turning point of the curve beta_j, where the stability of its zeros changes."""

    beta: float
    w: float


def inverse_temperature(t: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Array:
    """beta(t) = (1 - alpha_t) / (alpha_t sigma)^2; t / (sigma (1 - t))^2 for a = 1, the paper's beta_1."""
    alpha = (1.0 - np.asarray(t, dtype=np.float64)) ** a
    return (1.0 - alpha) / (alpha * sigma) ** 2


def time_at(beta: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Array:
    """The time t with inverse_temperature(t) = beta: alpha is the positive root of beta sigma^2 alpha^2 + alpha = 1."""
    alpha = 2.0 / (1.0 + np.sqrt(1.0 + 4.0 * sigma**2 * np.asarray(beta, dtype=np.float64)))
    return 1.0 - alpha ** (1.0 / a)


def lower_branch(y: Array) -> Array:
    """The root xi <= 1 of xi - log xi = y, y >= 1."""
    near = _near_one(y)
    return np.where(near < _SERIES, _series(near), -lambertw(-np.exp(-np.maximum(y, _SAFE)), 0).real)


def upper_branch(y: Array) -> Array:
    """The root xi >= 1 of xi - log xi = y, y >= 1."""
    near = _near_one(y)
    xi = -lambertw(-np.exp(-np.clip(y, _SAFE, _EXP_UNDERFLOW)), -1).real
    for _ in range(4):  # beyond the underflow of exp(-y), the contraction xi <- y + log xi is exact in four steps
        xi = np.where(y > _EXP_UNDERFLOW, y + np.log(xi), xi)
    return np.where(near < _SERIES, _series(-near), xi)


def _near_one(y: Array) -> Array:
    """The expansion variable sqrt(2 (1 - exp(1 - y))) of the Lambert function at its branch point, y = 1."""
    return np.sqrt(-2.0 * np.expm1(-np.maximum(y - 1.0, 0.0)))


def _series(d: Array) -> Array:
    """-W near the branch point, where lambertw loses half of its digits: 1 - d + d^2/3 - 11/72 d^3 + ..."""
    return 1.0 - d * (1.0 - d * (1 / 3 - d * (11 / 72 - d * 43 / 540)))


def birth(p: ArrayLike, j: int) -> Turn:
    """Smallest beta at which attractor A_j exists: the first minimum of beta_j coming from the vertex (kappa = 0).

    For the dominant vertex without a fold the minimum is at w = 0, where its curve joins the one that starts at p.
    """
    gaps = _gaps(p)
    # At this w the lower coordinates sum to less than exp(-4) and the upper one contributes less than -1.
    far = 4.0 + np.log(np.sum(np.exp(-gaps)))
    grid = far * np.linspace(1.0, 0.0, _GRID) ** 2
    grid[-1] = _W_MIN
    # In a few blocks, so that a vocabulary of 50,000 needs no grid x V array at once.
    blocks = np.array_split(grid, 1 + _GRID * len(gaps) // 1_000_000)
    rising = np.flatnonzero(np.concatenate([_slope(block, gaps, j) for block in blocks]) > 0)
    w = 0.0
    if len(rising):
        w = float(brentq(_slope, grid[rising[0]], grid[rising[0] - 1], args=(gaps, j), xtol=1e-14))
    return Turn(_beta(w, gaps, j), w)


def death(p: ArrayLike) -> Turn | None:
    """Largest beta at which the attractor that starts at p exists, or None if it becomes the dominant vertex's.

    prop:largest attractor says it always does. For flat targets, and for Zipf's law over a vocabulary, it does not: the
    dominant vertex attractor is born at a separate fold, both exist for a while, and the old one ends in a fold.
    """
    l = int(np.argmax(p))
    born, gaps = birth(p, l), _gaps(p)
    if born.w == 0.0:
        return None
    w = 0.0  # if several vertices have the largest probability, the curve ends there without turning
    if _slope(_W_MIN, gaps, l) < 0:
        w = float(brentq(_slope, _W_MIN, born.w * (1.0 - 1e-3), args=(gaps, l), xtol=1e-18))
    return Turn(_beta(w, gaps, l), w)


def birth_times(p: ArrayLike, vertices: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Array:
    """The exact t_j at which each attractor A_j appears (prop:attractor formation times estimates it)."""
    return time_at([birth(p, int(j)).beta for j in np.atleast_1d(vertices)], sigma, a)


def attractors(beta: float, p: ArrayLike) -> list[Attractor]:
    """Every attractor of b_t at inverse temperature beta, the one that starts at p first, then by vertex."""
    p = np.asarray(p, dtype=np.float64)
    if beta <= 0:
        return [Attractor(None, p.copy())]
    gaps = _gaps(p)
    stable = []
    end = death(p)
    if beta <= _beta(0.0, gaps, None):
        stable.append(Attractor(None, _coordinates(_solve(beta, gaps, None, 0.0), gaps, None) / beta))
    elif end is not None and beta < end.beta:
        # Its largest coordinate has passed 1 / beta, to the upper branch, but the fold is still ahead.
        l = int(p.argmax())
        w = float(brentq(lambda w: _beta(w, gaps, l) - beta, 0.0, end.w, xtol=1e-18))
        stable.append(Attractor(None, _coordinates(w, gaps, l) / beta))
    for j in range(len(p)):
        born = birth(p, j)
        if beta > born.beta:
            w = _solve(beta, gaps, j, born.w)
            stable.append(Attractor(j, _coordinates(w, gaps, j) / beta))
    return stable


def early_attractor(t: float, p: ArrayLike, sigma: float = 1.0) -> Array:
    """First-order position of the attractor near t = 0, eq. (early attractors); a = 1."""
    p = np.asarray(p, dtype=np.float64)
    return p + p * (p - np.sum(p * p)) * t / sigma**2


def late_attractor(beta: float, p: ArrayLike, j: int) -> Array:
    """Leading position of attractor A_j for large beta, eq. (late attractors)."""
    p = np.asarray(p, dtype=np.float64)
    x = p / p[j] * np.exp(-beta)
    x[j] = 1.0 + (p[j] - 1.0) / p[j] * np.exp(-beta)
    return x


def formula_beta(p: ArrayLike, j: int, m: int) -> float:
    """beta* of eq. (attractor appearance times), -W_{-1}(-p_j / (p_l (1 + m) e)), for a given count m."""
    p = np.asarray(p, dtype=np.float64)
    return float(-lambertw(-p[j] / (p.max() * (1 + m) * np.e), -1).real)


def comparable(p: ArrayLike, j: int, ratio: float = 0.5) -> int:
    """The number of probabilities other than p_j of at least `ratio` times the largest, including the largest.

    The proof of prop:attractor formation times sums over these; its statement omits the largest (docs/theory.md).
    """
    others = np.delete(np.asarray(p, dtype=np.float64), j)
    return int(np.sum(others >= ratio * np.max(p)))


def lyapunov(x: ArrayLike, beta: float, p: ArrayLike) -> Array:
    """V(x) = KL(x || p) - beta/2 |x|^2, eq. (lyapunov), on the simplex."""
    x, p = np.asarray(x, dtype=np.float64), np.asarray(p, dtype=np.float64)
    return np.sum(xlogy(x, x) - xlogy(x, p) - 0.5 * beta * x * x, axis=-1)


def lyapunov_rate(x: ArrayLike, beta: float, p: ArrayLike) -> Array:
    """(1 - t) b_t . grad V = -(KL(P || x) + KL(x || P)), eq. (two divergences), P the denoiser at x."""
    x = np.asarray(x, dtype=np.float64)
    P = softmax(np.log(p) + beta * x, axis=-1)
    return -np.sum((P - x) * (np.log(P) - np.log(x)), axis=-1)


def _gaps(p: ArrayLike) -> Array:
    """log(p_l / p_i): how far each coordinate's y = 1 + gap + w is behind the dominant one."""
    log_p = np.log(np.asarray(p, dtype=np.float64))
    return log_p.max() - log_p


def _coordinates(w: ArrayLike, gaps: Array, j: int | None) -> Array:
    """xi at one w or at many: shape (..., V)."""
    y = 1.0 + gaps + np.asarray(w, dtype=np.float64)[..., None]
    xi = lower_branch(y)
    if j is not None:
        xi[..., j] = upper_branch(y[..., j])
    return xi


def _beta(w: float, gaps: Array, j: int | None) -> float:
    return float(_coordinates(w, gaps, j).sum())


def _slope(w: ArrayLike, gaps: Array, j: int) -> Array:
    """d beta_j / d log kappa."""
    xi = _coordinates(w, gaps, j)
    with np.errstate(divide="ignore"):
        return np.sum(xi / (1.0 - xi), axis=-1)


def _solve(beta: float, gaps: Array, j: int | None, w_birth: float) -> float:
    """The w on the stable side of the birth with beta_j(w) = beta."""
    far = w_birth + 1.0
    while (_beta(far, gaps, j) > beta) if j is None else (_beta(far, gaps, j) < beta):
        far = w_birth + 2.0 * (far - w_birth)
    return float(brentq(lambda w: _beta(w, gaps, j) - beta, w_birth, far, xtol=1e-14, rtol=1e-15))
