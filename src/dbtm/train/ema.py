"""Exponential moving average of the weights; the map's and the quality head's are independent by construction."""

import copy

import torch
from torch import nn


class EMA:
    """A frozen copy that follows the model: w_ema <- decay w_ema + (1 - decay) w."""

    def __init__(self, model: nn.Module, decay: float, warmup: bool):
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.decay, self.warmup = decay, warmup

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """After optimizer step `step` (counted from 1). The warm-up forgets the random start quickly."""
        decay = min(self.decay, (1 + step) / (10 + step)) if self.warmup else self.decay
        averages, weights = list(self.model.parameters()), list(model.parameters())
        torch._foreach_lerp_(averages, [w.detach() for w in weights], 1 - decay)
