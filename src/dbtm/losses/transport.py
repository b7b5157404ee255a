"""The transport loss (loss:transport): T moves along its own derivative in the direction of the interpolant."""

import torch
from torch import Tensor

from dbtm.losses.adaptive import adaptive_weight


def softmax_tangent(p: Tensor, dlogits: Tensor) -> Tensor:
    """dT = T * (df - sum_j T_j df_j): tangent to the simplex, sums to zero."""
    return p * (dlogits - (p * dlogits).sum(-1, keepdim=True))


def transport(logits: Tensor, dlogits: Tensor, c: float = 1.0, r: float = 0.5) -> Tensor:
    """w |T(I_t) - sg(T(I_t) + dT)|^2 per token, with dT = dI_t . grad T(I_t) and w = sg[(|dT|^2 + c)^-r].

    Its value is w |dT|^2; its gradient moves T by dT, since the target stands still.
    """
    p = logits.softmax(-1)
    with torch.no_grad():
        dp = softmax_tangent(p, dlogits)
        target = p + dp
        weight = adaptive_weight(dp.square().sum(-1), c, r)
    return weight * (p - target).square().sum(-1)
