"""Exact velocity fields for one position: a Gaussian prior N(0, sigma^2 I_V) and a target p on the V vertices.

Substituting u = 1/alpha_t in eq. (per vertex current) gives, with r_j = |x - e_j|, c_j = 1 - x_j and y = r_j u / sigma,

    J^(j)(x)  = p_j (e_j - x) (sigma/r_j)^V              C_V  M_{V-1}(z_j, L_j)           L_j = r_j / sigma
    nu^(j)(x) = p_j (1/a)     (sigma/r_j)^(V - 1/a)      C_V  M_{V-1-1/a}(z_j, L_j)       z_j = c_j / (sigma r_j)

where M_m(z, L) = int_L^inf y^m exp(-y^2/2 + z y) dy and C_V = (2 pi sigma^2)^(-V/2) exp(-1 / 2 sigma^2). Since |z_j| is
at most 1/sigma, nothing grows near a vertex but the powers of r_j, and those stay in the logarithm.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from dbtm.theory.moments import Array, log_moment_pair

# Elements (rows x V) evaluated at once: large enough for numpy to be efficient, small enough to stay in cache.
_BLOCK = 1 << 16


class Geometry(NamedTuple):
    """The geometry of a batch of points. `c` is 1 - x, stored separately because it is exact near a vertex."""

    x: Array  # (N, V)
    c: Array  # (N, V)
    r: Array  # (N, V), distance to each vertex


class Endpoint(NamedTuple):
    """Endpoint form of the autonomous field, b(x) = Z(x) (eta(x) - x), eq. (prop-eq:endpoint-b)."""

    log_Z: Array  # (..., )   log E[lambda_t | I_t = x]
    eta: Array  # (..., V)  averaged endpoint, a point of the simplex
    pull: Array  # (..., V)  eta - x, without cancellation near a vertex


def geometry(x: Array) -> Geometry:
    """Distances to all vertices, accurate when x lies next to one of them; x of shape (N, V)."""
    rows = np.arange(len(x))
    nearest = x.argmax(axis=-1)
    squares = x * x
    others = squares.sum(axis=-1, keepdims=True) - squares
    # For the nearest vertex the subtraction would cancel, so its neighbours are summed without it.
    squares[rows, nearest] = 0.0
    others[rows, nearest] = squares.sum(axis=-1)
    c = 1.0 - x
    return Geometry(x, c, np.hypot(c, np.sqrt(np.maximum(others, 0.0))))


def geometry_at_offset(offset: ArrayLike, j: int) -> Geometry:
    """Geometry of x = e_j + offset for offsets far below the rounding of x itself; offset of shape (N, V)."""
    offset = np.atleast_2d(np.asarray(offset, dtype=np.float64))
    x = offset.copy()
    x[:, j] += 1.0
    exact = geometry(x)
    exact.c[:, j] = -offset[:, j]
    exact.r[:, j] = np.linalg.norm(offset, axis=-1)
    return exact


def log_parts(at: Geometry, p: Array, sigma: float, a: float) -> tuple[Array, Array]:
    """log nu^(j) and log(|J^(j)| / r_j), both (N, V): eq. (per vertex current). Infinite at the vertex itself."""
    V = at.x.shape[-1]
    q = 1.0 / a
    with np.errstate(divide="ignore", invalid="ignore"):
        log_scale = np.log(sigma / at.r)
        z = np.where(at.r > 0, at.c / (sigma * at.r), 0.0)
    log_nu, log_J = log_moment_pair(z, at.r / sigma, V - 1 - q, q)
    constant = np.log(p) - 0.5 * V * np.log(2 * np.pi * sigma**2) - 0.5 / sigma**2
    return constant + (V - q) * log_scale + log_nu - np.log(a), constant + V * log_scale + log_J


def endpoint_at(at: Geometry, p: Array, sigma: float = 1.0, a: float = 1.0) -> Endpoint:
    """Endpoint form on a prepared geometry (N, V); Z is infinite and the pull zero at a vertex."""
    N, V = at.x.shape
    log_Z, eta, pull = np.empty(N), np.empty((N, V)), np.empty((N, V))
    step = max(1, _BLOCK // V)
    for start in range(0, N, step):
        part = slice(start, start + step)
        log_Z[part], eta[part], pull[part] = _endpoint_block(Geometry(*(v[part] for v in at)), p, sigma, a)
    return Endpoint(log_Z, eta, pull)


def _endpoint_block(at: Geometry, p: Array, sigma: float, a: float) -> Endpoint:
    log_nu, log_J = log_parts(at, p, sigma, a)
    arrived = (at.r == 0).any(axis=-1)
    log_nu[arrived], log_J[arrived] = 0.0, 0.0
    log_Z = logsumexp(log_J, axis=-1) - logsumexp(log_nu, axis=-1)
    eta = softmax(log_J, axis=-1)
    rows, top = np.arange(len(eta)), eta.argmax(axis=-1)
    pull = eta - at.x
    # Next to vertex `top` both eta and x are close to one there: subtract their small complements instead.
    rest = eta.copy()
    rest[rows, top] = 0.0
    pull[rows, top] = at.c[rows, top] - rest.sum(axis=-1)
    log_Z[arrived], eta[arrived], pull[arrived] = np.inf, at.x[arrived], 0.0
    return Endpoint(log_Z, eta, pull)


def endpoint_form(x: ArrayLike, p: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Endpoint:
    """Z and averaged endpoint eta at x of shape (..., V), eq. (prop-eq:endpoint-b)."""
    flat, p, shape = _points(x, p)
    form = endpoint_at(geometry(flat), p, sigma, a)
    return Endpoint(form.log_Z.reshape(shape[:-1]), form.eta.reshape(shape), form.pull.reshape(shape))


def autonomous_field(x: ArrayLike, p: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Array:
    """b(x) = sum_j J^(j) / sum_j nu^(j), eq. (simplex-drift), for x of shape (..., V); zero at the vertices."""
    return _velocity(endpoint_form(x, p, sigma, a))


def autonomous_field_at_offset(offset: ArrayLike, j: int, p: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Array:
    """b(e_j + offset) for offsets of shape (N, V) as small as floating point allows (1e-100, say)."""
    return _velocity(endpoint_at(geometry_at_offset(offset, j), np.asarray(p, dtype=np.float64), sigma, a))


def _velocity(form: Endpoint) -> Array:
    speed = np.exp(np.where(np.isfinite(form.log_Z), form.log_Z, 0.0))
    return speed[..., None] * form.pull


def log_occupation(x: ArrayLike, p: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Array:
    """log nu(x), the log density of the occupation measure, eq. (occupancy); +inf at the vertices."""
    flat, p, shape = _points(x, p)
    return logsumexp(log_parts(geometry(flat), p, sigma, a)[0], axis=-1).reshape(shape[:-1])


def vertex_currents(x: ArrayLike, p: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> tuple[Array, Array]:
    """nu^(j) of shape (..., V) and J^(j) of shape (..., V, V), row j the current towards e_j; eq. (per vertex current).

    Returned as plain numbers: use `log_occupation` and `endpoint_form` where they would over- or underflow.
    """
    flat, p, shape = _points(x, p)
    log_nu, log_J = log_parts(geometry(flat), p, sigma, a)
    towards = np.eye(shape[-1]) - flat[:, None, :]
    return np.exp(log_nu).reshape(shape), (np.exp(log_J)[..., None] * towards).reshape(*shape, shape[-1])


def denoiser(t: float, x: ArrayLike, p: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Array:
    """eta_1(t, x) = E[x_1 | I_t = x], the softmax of eq. (time dependent denoiser) with c = 0; t < 1."""
    alpha = (1.0 - t) ** a
    beta = (1.0 - alpha) / (alpha * sigma) ** 2
    return softmax(np.log(p) + beta * np.asarray(x, dtype=np.float64), axis=-1)


def time_dependent_field(t: float, x: ArrayLike, p: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Array:
    """b_t(x) = a / (1 - t) (eta_1(t, x) - x), eq. (fm-velocity) in its endpoint form; t < 1."""
    return a / (1.0 - t) * (denoiser(t, x, p, sigma, a) - np.asarray(x, dtype=np.float64))


def arrival_speed(omega: ArrayLike, j: ArrayLike, sigma: float = 1.0, a: float = 1.0) -> Array:
    """kappa(omega) of lemma:approach-vertex: |b(e_j + r omega)| / r^(1 - 1/a) as r -> 0; unit omega, shape (..., V).

    `j` is one vertex, or one for each row of omega.

    For a = 1 it is the paper's kappa, the speed itself. For a > 1 the speed vanishes like r^(1 - 1/a)
    (prop:continuity at the vertices) and kappa is the coefficient.
    """
    omega = np.asarray(omega, dtype=np.float64)
    q = 1.0 / a
    towards = np.take_along_axis(omega, np.broadcast_to(j, omega.shape[:-1])[..., None], axis=-1)[..., 0]
    z = -towards / sigma
    log_nu, log_J = log_moment_pair(z, np.zeros_like(z), omega.shape[-1] - 1 - q, q)
    return a * sigma**q * np.exp(log_J - log_nu)


def _points(x: ArrayLike, p: ArrayLike) -> tuple[Array, Array, tuple[int, ...]]:
    x, p = np.asarray(x, dtype=np.float64), np.asarray(p, dtype=np.float64)
    if p.ndim != 1 or x.shape[-1] != len(p):
        raise ValueError(f"x has {x.shape[-1]} coordinates and p has {len(p)} probabilities")
    return x.reshape(-1, len(p)), p, x.shape
