"""The paper's losses written out on dense logits, one function per label: the reference.

Training does not call them. `losses.head` and `losses.soft_head` compute the same values and gradients from the trunk's
state without storing the logits of all positions. Tests compare them with these functions, and benchmarks compare
speed and memory. Each function returns one value per token, (B, L).

The refinement losses (sec:refinement-in-loop, app:ril-training) are the contribution of one round; the sums over rounds
r and budgets k belong to the rollout. `counted` masks the positions of a round's sum: l not in C_{r-1} (or C_r) for the
committing kinds, every target position for the others.
"""

import torch
from torch import Tensor

from dbtm.losses.adaptive import adaptive_weight
from dbtm.losses.quality import quality
from dbtm.losses.semigroup import soft_cross_entropy

# -- transport ---------------------------------------------------------------------------------------------------------


def softmax_tangent(p: Tensor, dlogits: Tensor) -> Tensor:
    """dT = T * (df - sum_j T_j df_j): tangent to the simplex, sums to zero."""
    return p * (dlogits - (p * dlogits).sum(-1, keepdim=True))


def transport(logits: Tensor, dlogits: Tensor, c: float = 1.0, r: float = 0.5) -> Tensor:
    """w |T(I_t) - sg(T(I_t) + dT)|^2 with dT = dI_t . grad T(I_t) and w = sg[(|dT|^2 + c)^-r] (loss:transport).

    Its value is w |dT|^2; its gradient moves T by dT, since the target is a constant.
    """
    p = logits.softmax(-1)
    with torch.no_grad():
        dp = softmax_tangent(p, dlogits)
        target = p + dp
        weight = adaptive_weight(dp.square().sum(-1), c, r)
    return weight * (p - target).square().sum(-1)


# -- cross-entropies with the data as target ---------------------------------------------------------------------------


def endpoint(logits: Tensor, tokens: Tensor, c: float = 1.0, r: float = 0.5) -> Tensor:
    """w CE(T, x1) with the adaptive weight of Delta = T - x1; r = 0 gives the plain cross-entropy."""
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


# -- refinement in the loop --------------------------------------------------------------------------------------------


def ril_c(logits: Tensor, tokens: Tensor, counted: Tensor, c: float = 1.0, r: float = 0.5) -> Tensor:
    """CE(T(x_hat_{r-1,k}), x1) over uncommitted positions (loss:ril, loss:ril-c)."""
    return endpoint(logits, tokens, c, r) * counted


def ril_nc(logits: Tensor, tokens: Tensor, target: Tensor, c: float = 1.0, r: float = 0.5) -> Tensor:
    """CE(T(x_hat_{r-1,k}), x1) over all target positions of a rollout without commits (loss:ril-nc)."""
    return endpoint(logits, tokens, c, r) * target


def ril_quality(
    quality_logits: Tensor, proposed: Tensor, tokens: Tensor, counted: Tensor, positive_weight: float = 1.0
) -> Tensor:
    """BCE(1[x_hat = x1], q_phi) on a rollout's state (loss:ril-phi)."""
    return quality(quality_logits, proposed, tokens, positive_weight) * counted


# -- self-distillation -------------------------------------------------------------------------------------------------


def soft_target(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """The teacher's distribution as a target: softmax(f / temperature), detached."""
    return (logits.detach() / temperature).softmax(-1)


def soft_ril_c(logits: Tensor, target_p: Tensor, counted: Tensor) -> Tensor:
    """CE(T(x_hat_{r-1,k}), sg T(x_hat_{k-1,k})) over uncommitted positions (loss:soft-ril-c)."""
    return soft_cross_entropy(logits, target_p) * counted


def soft_ril_nc(logits: Tensor, target_p: Tensor, target: Tensor) -> Tensor:
    """CE(T(x_hat_{r-1,k}), sg T(x_hat_{k-1,k})) over all target positions (loss:soft-ril-nc)."""
    return soft_cross_entropy(logits, target_p) * target


def semi_r(logits: Tensor, final_logits: Tensor, counted: Tensor) -> Tensor:
    """CE(T(x_hat_{r-1,k}), sg T(x_hat_{k-1,k})), the semigroup loss with renoising between the maps."""
    return soft_cross_entropy(logits, soft_target(final_logits)) * counted
