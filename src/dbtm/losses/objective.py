"""The full objective (end of sec:refinement-in-loop)."""

from collections.abc import Mapping

import torch
from torch import Tensor


def total(per_token: Tensor, target: Tensor) -> Tensor:
    """Sum over tokens, divided by B * L_target: the same denominator for every term, whatever its positions."""
    return per_token.sum() / target.sum().clamp(min=1)


def objective(terms: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """L = transport + l_semi semi + l_bnd bnd + l_anchor anchor + l_phi quality + l_ril (ril + l_quality ril_quality)
    + l_distill distill, over the terms that are present.
    """
    return torch.stack([weights[name] * term for name, term in terms.items()]).sum()
