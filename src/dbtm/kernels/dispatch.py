"""Chooses how attention is computed, and says why (`dbtm doctor` prints it)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from dbtm.kernels import reference


def choose(softcap: float) -> tuple[str, str]:
    """(backend, reason) for the value of attention."""
    if softcap == 0:
        return "sdpa", "no softcap: PyTorch's fused scaled_dot_product_attention, value and backward"
    return "reference", "tanh softcap on the logits: plain PyTorch (the fused attention has no softcap)"


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tangents: tuple[Tensor, Tensor, Tensor] | None = None,
    softcap: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """Value under autograd and, where tangents (dq, dk, dv) are given, the tangent under no_grad; (B, H, L, d)."""
    if choose(softcap)[0] == "sdpa":
        o = F.scaled_dot_product_attention(q, k, v)
    else:
        o = reference.attention(q, k, v, softcap)
    if tangents is None:
        return o, None
    with torch.no_grad():
        return o, reference.attention_tangent(q, k, v, *tangents, softcap=softcap)[1]
