"""Gaussian noise on one-hots and its argmax: the link between Gaussian and uniform-token diffusion (Duo).

x~ = a e_x + s eps with a^2 = sigmoid(-gamma), s^2 = sigmoid(gamma), so that a / s = e^(-gamma/2) = m. The argmax of x~
is x with probability Q(m), and uniform over the other tokens otherwise: it is distributed as x noised to a uniform
token with alpha = (V Q - 1) / (V - 1). Only the largest noise values are needed; they are drawn as order statistics.
"""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from dbtm.core import rng
from dbtm.core.device import wide, wide_device, widest

NODES, REACH = 200, 9.0
SORTED_UP_TO = 64  # other tokens: below it, distinct tokens are drawn by sorting


@lru_cache(maxsize=8)
def _quadrature(device: torch.device) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes on [-9, 9] and their weights times the normal density."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    u = torch.from_numpy(REACH * nodes)
    density = torch.from_numpy(REACH * weights) * torch.exp(-0.5 * u**2) / math.sqrt(2 * math.pi)
    return u.to(device), density.to(device)


def clean_share(gamma: Tensor, vocab: int) -> tuple[Tensor, Tensor]:
    """alpha of the argmax and its derivative d alpha / d gamma, float64, of gamma's shape."""
    u, density = _quadrature(wide_device(gamma.device))
    m = torch.exp(-0.5 * wide(gamma))
    z = u + m[..., None]
    log_cdf = torch.special.log_ndtr(z)
    Q = torch.exp((vocab - 1) * log_cdf) @ density
    slope = torch.exp((vocab - 2) * log_cdf - 0.5 * z**2) @ density * (vocab - 1) / math.sqrt(2 * math.pi)
    alpha, slope = (vocab * Q - 1) / (vocab - 1), -0.5 * m * slope * vocab / (vocab - 1)
    return alpha.to(gamma.device, widest(gamma.device)), slope.to(gamma.device, widest(gamma.device))


@lru_cache(maxsize=64)
def gamma_at(alpha: float, vocab: int) -> float:
    """gamma at which the share of clean tokens is alpha, by bisection; a larger gamma is noisier."""
    low, high = -8.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        clean = clean_share(torch.tensor(middle), vocab)[0].item()
        low, high = (middle, high) if clean > alpha else (low, middle)
    return (low + high) / 2


def largest_noises(key_B: Tensor, tokens_BL: Tensor, vocab: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """eps of x (B, L), and the k largest of the other tokens' eps in falling order with their tokens, (B, L, k) each.

    The j-th largest of n uniforms is the (j - 1)-th times u^(1 / (n - j + 1)), so V normals are never drawn. float64.
    """
    L, n, at = tokens_BL.shape[1], vocab - 1, key_B.device
    key_B = key_B.to(wide_device(at))
    k = min(k, n)
    own_BL = torch.special.ndtri(rng.uniform(rng.fold(key_B, 0), L))
    left = n - torch.arange(k, device=key_B.device)
    log_u = (rng.uniform(rng.fold(key_B, 1), L, k).log() / left).cumsum(-1)
    values_BLk = -torch.special.ndtri(-torch.expm1(log_u))
    others_BLk = distinct(rng.fold(key_B, 2), L, n, k).to(at)
    return own_BL.to(at, widest(at)), values_BLk.to(at, widest(at)), others_BLk + (others_BLk >= tokens_BL[..., None])


def distinct(key_B: Tensor, length: int, n: int, k: int) -> Tensor:
    """k distinct numbers below n in random order, (B, L, k)."""
    if n <= SORTED_UP_TO:
        return rng.uniform(key_B, length, n).argsort(-1)[..., :k]
    u_BLk = rng.uniform(key_B, length, k)
    drawn: list[Tensor] = []
    for j in range(k):
        number = (u_BLk[..., j] * (n - j)).long()  # rank among the remaining n - j
        taken = torch.stack(drawn, -1).sort(-1).values.unbind(-1) if drawn else ()
        for one in taken:
            number = number + (number >= one)
        drawn.append(number)
    return torch.stack(drawn, -1)


def argmax_token(tokens_BL: Tensor, gamma_B: Tensor, own_BL: Tensor, best_BL: Tensor, other_BL: Tensor) -> Tensor:
    """argmax x~ at noise level gamma: x if m + eps_x exceeds the largest other eps, else the token of that eps."""
    m_B = torch.exp(-0.5 * gamma_B.to(widest(gamma_B.device)))
    return torch.where(m_B[:, None] + own_BL > best_BL, tokens_BL, other_BL)


def soft_token(gamma_B: Tensor, own_BL: Tensor, values_BLk: Tensor, tau: float) -> Tensor:
    """Weights of x and of the k other tokens in softmax(x~ / tau), (B, L, 1 + k)."""
    a_B, s_B = (torch.sigmoid(sign * gamma_B.to(widest(gamma_B.device))).sqrt()[:, None, None] for sign in (-1.0, 1.0))
    own_BL1 = a_B + s_B * own_BL[..., None]
    return (torch.cat((own_BL1, s_B * values_BLk), -1) / tau).softmax(-1)
