"""The sum of the loss terms."""

from collections.abc import Mapping

import torch
from torch import Tensor


def total(per_token: Tensor, count: Tensor) -> Tensor:
    """Sum over tokens, divided by B * L_target: every term has the same denominator, for any set of positions."""
    return per_token.sum() / count


def objective(terms: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """The weighted sum of the terms that are present."""
    return torch.stack([weights[name] * term for name, term in terms.items()]).sum()
