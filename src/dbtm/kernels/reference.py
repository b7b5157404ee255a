"""Attention value and tangent in plain PyTorch: the specification every other backend is tested against."""

import torch
from torch import Tensor


def scores(q: Tensor, k: Tensor, softcap: float) -> tuple[Tensor, Tensor | None]:
    """Attention logits s = q k^T / sqrt(d), capped as s <- c tanh(s / c), and that tanh for the tangent; float32 up."""
    s = (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)) * q.shape[-1] ** -0.5
    if softcap == 0:
        return s, None
    tanh = torch.tanh(s / softcap)
    return softcap * tanh, tanh


def attention(q: Tensor, k: Tensor, v: Tensor, softcap: float = 0.0) -> Tensor:
    """softmax(softcap(q k^T / sqrt(d))) v for q, k, v of shape (B, H, L, d)."""
    s, _ = scores(q, k, softcap)
    return s.softmax(-1).to(v.dtype) @ v


def attention_tangent(
    q: Tensor, k: Tensor, v: Tensor, dq: Tensor, dk: Tensor, dv: Tensor, softcap: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Value and tangent: do = (p * (ds - sum p ds)) v + p dv with ds = (dq k^T + q dk^T) / sqrt(d) * (1 - tanh^2)."""
    s, tanh = scores(q, k, softcap)
    p = s.softmax(-1)
    ds = ((dq @ k.mT + q @ dk.mT) * q.shape[-1] ** -0.5).to(p.dtype)
    if tanh is not None:
        ds = ds * (1 - tanh.square())
    pds = p * ds
    dp = pds - p * pds.sum(-1, keepdim=True)
    p = p.to(v.dtype)
    return p @ v, dp.to(v.dtype) @ v + p @ dv
