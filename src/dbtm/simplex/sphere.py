"""The unit sphere: arcs, and the maps from a point's tangent space to the sphere and back. For use in float64.

A tangent vector at x is orthogonal to x; its length is the angle that `exp_map` moves by.
"""

import math

import torch
from torch import Tensor

GUARD = 1e-6  # angles are clamped at this distance from 0 and pi, where an arc has no direction


def unit(v: Tensor) -> Tensor:
    """v / |v| over the last axis."""
    return v / v.norm(dim=-1, keepdim=True).clamp(min=1e-30)


def angle(x: Tensor, y: Tensor) -> Tensor:
    """Angles between unit vectors, (..., 1), clamped away from 0 and pi."""
    cosine = (x * y).sum(-1, keepdim=True).clamp(-1.0, 1.0)
    return torch.acos(cosine.clamp(math.cos(math.pi - GUARD), math.cos(GUARD)))


def slerp(n: Tensor, e: Tensor, alpha: Tensor) -> Tensor:
    """The point at share alpha of the arc from n to e: [sin((1 - alpha) w) n + sin(alpha w) e] / sin w."""
    w = angle(n, e)
    return (torch.sin((1 - alpha) * w) * n + torch.sin(alpha * w) * e) / torch.sin(w)


def log_map(x: Tensor, e: Tensor) -> Tensor:
    """The tangent vector at x that leads to e: (theta / sin theta)(e - cos theta x)."""
    theta = angle(x, e)
    return theta / torch.sin(theta) * (e - torch.cos(theta) * x)


def exp_map(x: Tensor, v: Tensor) -> Tensor:
    """The end of the arc from x along v: cos|v| x + sin|v| v / |v|."""
    length = v.norm(dim=-1, keepdim=True)
    return unit(torch.cos(length) * x + torch.sinc(length / math.pi) * v)


def mean_log_map(x_nD: Tensor, p_nV: Tensor, e_VD: Tensor) -> Tensor:
    """sum_k p_k log_x(e_k), (n, D): two products over the vocabulary, without an (n, V, D) tensor."""
    theta_nV = torch.acos((x_nD @ e_VD.T).clamp(math.cos(math.pi - GUARD), math.cos(GUARD)))
    weight_nV = p_nV * theta_nV / torch.sin(theta_nV)
    return weight_nV @ e_VD - (weight_nV * torch.cos(theta_nV)).sum(-1, keepdim=True) * x_nD


def truncation(vocab: int, width: int, delta: float = 0.1) -> float:
    """The share of the arc beyond which argmax <x, e_k> is already the token, with probability at least 1 - delta:
    (2 / pi) arcsin sqrt(2 ln(2 (V - 1) / delta) / D); 1 if the width is too small.
    """
    square = 2 * math.log(2 * (vocab - 1) / delta) / width
    return 2 / math.pi * math.asin(math.sqrt(square)) if square < 1 else 1.0
