"""The quality head's loss (sec:quality-correct): was the proposed token right?"""

import torch.nn.functional as F
from torch import Tensor


def quality(quality_logits: Tensor, proposed: Tensor, tokens: Tensor, positive_weight: float = 1.0) -> Tensor:
    """BCE(1[x_hat = x1], q_phi) per token, with right tokens weighted by `positive_weight`."""
    label = (proposed == tokens).to(quality_logits.dtype)
    weight = 1 + (positive_weight - 1) * label
    return F.binary_cross_entropy_with_logits(quality_logits, label, weight, reduction="none")
