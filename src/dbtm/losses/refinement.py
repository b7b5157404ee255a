"""Refinement in the loop (sec:refinement-in-loop, app:ril-training): losses on the states of a rollout.

Each function is one round's contribution per token; the sums over rounds r and budgets k are the caller's, who runs the
rollout. `counted` is the mask of positions the round's sum runs over: l not in C_{r-1} (or C_r) for the committing
kinds, every target position for the non-committing ones.
"""

from torch import Tensor

from dbtm.losses.endpoint import endpoint
from dbtm.losses.quality import quality
from dbtm.losses.semigroup import soft_cross_entropy


def ril_c(logits: Tensor, tokens: Tensor, counted: Tensor, c: float = 1.0, r: float = 0.5) -> Tensor:
    """CE(T(x_hat_{r-1,k}), x1) over uncommitted positions (loss:ril, loss:ril-c)."""
    return endpoint(logits, tokens, c, r) * counted


def ril_nc(logits: Tensor, tokens: Tensor, target: Tensor, c: float = 1.0, r: float = 0.5) -> Tensor:
    """CE(T(x_hat_{r-1,k}), x1) over all target positions of a rollout that only holds its tokens (loss:ril-nc)."""
    return endpoint(logits, tokens, c, r) * target


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


def ril_quality(
    quality_logits: Tensor, proposed: Tensor, tokens: Tensor, counted: Tensor, positive_weight: float = 1.0
) -> Tensor:
    """BCE(1[x_hat = x1], q_phi) on a rollout's state (loss:ril-phi)."""
    return quality(quality_logits, proposed, tokens, positive_weight) * counted
