"""The adaptive loss weight (app:training-hyperparams)."""

from torch import Tensor


def adaptive_weight(mismatch: Tensor, c: float, r: float) -> Tensor:
    """w = sg[(|Delta|^2 + c)^-r] per token, from |Delta|^2 summed over the vocabulary."""
    return (mismatch.detach() + c) ** -r
