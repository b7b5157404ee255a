"""Noising tokens to a mask or to a uniform token, and one reverse step from t to s < t given a prediction D.

alpha_t is the share of clean tokens at t; it falls from 1 at t = 0 to 0 at t = 1.
"""

from typing import TypeVar

import torch
from torch import Tensor

Number = TypeVar("Number", float, Tensor)


def unmask_probability(alpha_t: float, alpha_s: float, sigma: Number) -> Number:
    """(alpha_s - (1 - sigma) alpha_t) / (1 - alpha_t): the probability to unmask a masked token in a step that remasks
    others with probability sigma. The share of masked tokens at s is 1 - alpha_s for every sigma (ReMDM); sigma = 0 is
    MDLM.
    """
    return (alpha_s - (1 - sigma) * alpha_t) / (1 - alpha_t)


def most_remasked(alpha_t: float, alpha_s: float) -> float:
    """The largest possible sigma of a step from t to s: min(1, (1 - alpha_s) / alpha_t)."""
    return min(1.0, (1 - alpha_s) / alpha_t) if alpha_t > 0 else 1.0


def loop_alpha(t: float, start: float, end: float, level: float) -> float:
    """ReMDM's loop: alpha rises to `level` at t = start, stays until t = end, and rises to 1 at t = 0."""
    if t > start:
        return (1 - t) * level / (1 - start)
    return level if t >= end else 1 - t * (1 - level) / end


def uniform_posterior(D_nV: Tensor, z_n: Tensor, alpha_t: Tensor | float, alpha_s: Tensor | float) -> Tensor:
    """q(z_s | z_t, D), (n, V), if a token is kept with probability alpha and is uniform otherwise:

        [alpha_t V D e_z + (r - alpha_t) e_z + (alpha_s - alpha_t) D + (1 - r)(1 - alpha_s) / V]
        / (alpha_t V D_z + 1 - alpha_t)

    with r = alpha_t / alpha_s. alpha are numbers or (n, 1). At alpha_s = 1 it is the posterior of D given z_t.
    """
    V = D_nV.shape[-1]
    r = alpha_t / alpha_s
    D_z = D_nV.gather(-1, z_n[:, None])
    q = (alpha_s - alpha_t) * D_nV + (1 - r) * (1 - alpha_s) / V
    own = alpha_t * V * D_z + (r - alpha_t)
    return q.scatter_add_(-1, z_n[:, None], own) / (alpha_t * V * D_z + 1 - alpha_t)


def renoised(D_nV: Tensor, alpha_s: Tensor | float) -> Tensor:
    """The distribution of a clean draw from D, noised to s: alpha_s D + (1 - alpha_s) / V."""
    return alpha_s * D_nV + (1 - alpha_s) / D_nV.shape[-1]


def confident(score_BL: Tensor, unmasked_BL: Tensor) -> Tensor:
    """Weights over the unmasked positions of every row, softmax of their negative scores; 0 elsewhere."""
    weight = torch.where(unmasked_BL, -score_BL, -torch.inf).softmax(-1)
    return torch.nan_to_num(weight)  # a row without unmasked positions has no weights
