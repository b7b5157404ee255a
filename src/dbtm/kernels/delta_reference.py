"""The gated delta rule as a recurrence, value and tangent: the reference for the chunked form.

    S <- e^g S        u = beta (v - k^T S)        S <- S + k u^T        o = q^T S

S (dk, dv) is a memory that maps a key to a value: it decays by the gate g <= 0, then the write gate beta in [0, 1]
moves its value for k towards v. q, k are (B, H, L, dk), v (B, H, L, dv), g and beta (B, H, L); a reverse scan starts at
the last position. Inputs narrower than float32 are widened first.
"""

import torch
from torch import Tensor

from dbtm.kernels.reference import widen


def gated_delta(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, reverse: bool = False) -> Tensor:
    """o of every position, (B, H, L, dv)."""
    dtype = v.dtype
    q, k, v, g, beta = widen(q, k, v, g, beta)
    S = torch.zeros_like(k[..., 0, :, None] * v[..., 0, None, :])
    o = {}
    for l in _order(q.shape[-2], reverse):
        q_l, k_l, v_l = q[..., l, :, None], k[..., l, :, None], v[..., l, None, :]
        S = S * g[..., l, None, None].exp()
        u = beta[..., l, None, None] * (v_l - k_l.mT @ S)
        S = S + k_l @ u
        o[l] = q_l.mT @ S
    return torch.cat([o[l] for l in sorted(o)], -2).to(dtype)


def gated_delta_tangent(
    inputs: tuple[Tensor, ...], tangents: tuple[Tensor, ...], reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Value and tangent for inputs (q, k, v, g, beta) and their tangents: each line next to its derivative."""
    dtype = inputs[2].dtype
    q, k, v, g, beta = widen(*inputs)
    dq, dk, dv, dg, dbeta = widen(*tangents)
    S = torch.zeros_like(k[..., 0, :, None] * v[..., 0, None, :])
    dS = torch.zeros_like(S)
    o, do = {}, {}
    for l in _order(q.shape[-2], reverse):
        q_l, k_l, v_l = q[..., l, :, None], k[..., l, :, None], v[..., l, None, :]
        dq_l, dk_l, dv_l = dq[..., l, :, None], dk[..., l, :, None], dv[..., l, None, :]
        b, db, fade = beta[..., l, None, None], dbeta[..., l, None, None], g[..., l, None, None].exp()
        S, dS = fade * S, fade * (dS + dg[..., l, None, None] * S)
        error, derror = v_l - k_l.mT @ S, dv_l - dk_l.mT @ S - k_l.mT @ dS
        u, du = b * error, db * error + b * derror
        S, dS = S + k_l @ u, dS + dk_l @ u + k_l @ du
        o[l], do[l] = q_l.mT @ S, dq_l.mT @ S + q_l.mT @ dS
    rows = sorted(o)
    return torch.cat([o[l] for l in rows], -2).to(dtype), torch.cat([do[l] for l in rows], -2).to(dtype)


def _order(length: int, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)
