"""The semigroup loss (loss:semigroup): one application of the map agrees with k of them."""

from collections.abc import Iterable

from torch import Tensor


def soft_cross_entropy(logits: Tensor, target_p: Tensor) -> Tensor:
    """CE(T, target) = -sum_j target_j log T_j per token; the target is a constant."""
    return -(target_p.detach() * logits.log_softmax(-1)).sum(-1)


def semigroup(logits: Tensor, iterates_p: Iterable[Tensor]) -> Tensor:
    """sum over k in K of CE(T(I_t), sg(T^k(I_t))) per token, from the distributions T^k(I_t)."""
    return sum((soft_cross_entropy(logits, p) for p in iterates_p), logits.new_zeros(logits.shape[:-1]))
