"""Attention value and tangent in plain PyTorch: the reference that every other backend is tested against.

Inputs narrower than float32 are widened first, so only the inputs and the result are rounded to their dtype.
"""

import torch
from torch import Tensor
from torch.autograd import forward_ad


def widen(*tensors: Tensor) -> list[Tensor]:
    """The tensors in float32, or in their wider dtype."""
    return [x.to(torch.promote_types(x.dtype, torch.float32)) for x in tensors]


def scores(q: Tensor, k: Tensor, softcap: float) -> tuple[Tensor, Tensor | None]:
    """Attention logits s = q k^T / sqrt(d), capped as s <- c tanh(s / c), and that tanh for the tangent."""
    s = q @ k.mT * q.shape[-1] ** -0.5
    if softcap == 0:
        return s, None
    tanh = torch.tanh(s / softcap)
    return softcap * tanh, tanh


def attention(q: Tensor, k: Tensor, v: Tensor, softcap: float = 0.0) -> Tensor:
    """softmax(softcap(q k^T / sqrt(d))) v for q, k, v of shape (B, H, L, d)."""
    dtype = v.dtype
    q, k, v = widen(q, k, v)
    s, _ = scores(q, k, softcap)
    return (softmax(s) @ v).to(dtype)


def softmax(s: Tensor) -> Tensor:
    """Softmax over the last axis. In forward mode it is written out: the derivative of PyTorch's softmax overwrites a
    tensor that its backward pass needs.
    """
    if torch.compiler.is_compiling() or forward_ad.unpack_dual(s).tangent is None:
        return s.softmax(-1)
    weights = (s - forward_ad.unpack_dual(s).primal.detach().amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def attention_tangent(
    q: Tensor, k: Tensor, v: Tensor, dq: Tensor, dk: Tensor, dv: Tensor, softcap: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Value and tangent: do = (p * (ds - sum p ds)) v + p dv with ds = (dq k^T + q dk^T) / sqrt(d) * (1 - tanh^2)."""
    dtype = v.dtype
    q, k, v, dq, dk, dv = widen(q, k, v, dq, dk, dv)
    s, tanh = scores(q, k, softcap)
    p = s.softmax(-1)
    ds = (dq @ k.mT + q @ dk.mT) * q.shape[-1] ** -0.5
    if tanh is not None:
        ds = ds * (1 - tanh.square())
    pds = p * ds
    dp = pds - p * pds.sum(-1, keepdim=True)
    return (p @ v).to(dtype), (dp @ v + p @ dv).to(dtype)
