"""Cross-entropies towards the data token: boundary, anchor, and what both are made of."""

import torch
from torch import Tensor

from dbtm.losses.adaptive import adaptive_weight


def endpoint(logits: Tensor, tokens: Tensor, c: float = 1.0, r: float = 0.5) -> Tensor:
    """w CE(T, x1) per token with the adaptive weight of Delta = T - x1; r = 0 gives the plain cross-entropy."""
    log_p = logits.log_softmax(-1)
    log_right = log_p.gather(-1, tokens[..., None]).squeeze(-1)
    if r == 0:
        return -log_right
    with torch.no_grad():
        # |T - e|^2 = sum T^2 - 2 T_x1 + 1, without the one-hot
        mismatch = (2 * log_p).exp().sum(-1) - 2 * log_right.exp() + 1
    return -log_right * adaptive_weight(mismatch, c, r)


def boundary(logits_at_x1: Tensor, tokens: Tensor, c: float = 1.0, r: float = 0.5) -> Tensor:
    """CE(T(x1), x1) (sec:training-objectives): data is a fixed point. The logits are those of the clean sequence."""
    return endpoint(logits_at_x1, tokens, c, r)


def anchor(
    logits: Tensor, tokens: Tensor, t: Tensor, free: Tensor, t_anchor: float, c: float = 1.0, r: float = 0.5
) -> Tensor:
    """1[t > t_anchor] CE(T(I_t), x1) (eq:anchor-loss) on the noisy positions, `free`."""
    return endpoint(logits, tokens, c, r) * (free & (t > t_anchor))
