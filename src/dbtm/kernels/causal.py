"""Causal attention, with keys and values of earlier positions from a cache; values only, no tangents."""

import torch
import torch.nn.functional as F
from torch import Tensor

from dbtm.kernels import reference


def causal_attention(q: Tensor, k: Tensor, v: Tensor, softcap: float = 0.0) -> Tensor:
    """Queries of the last n positions, (B, H, n, d), over keys and values of all m >= n positions so far.

    PyTorch's fused attention without a softcap; else the reference, whose logits are masked after the cap.
    """
    n, m = q.shape[-2], k.shape[-2]
    if not softcap and n == m:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if not softcap and n == 1:
        return F.scaled_dot_product_attention(q, k, v)
    allowed = torch.ones(n, m, dtype=torch.bool, device=q.device).tril(m - n)
    if not softcap:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    dtype = v.dtype
    q, k, v = reference.widen(q, k, v)
    s, _ = reference.scores(q, k, softcap)
    return (s.masked_fill(~allowed, -torch.inf).softmax(-1) @ v).to(dtype)
