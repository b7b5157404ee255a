"""Exponential moving average of the weights."""

import copy

import torch

from dbtm.nn import Backbone
from dbtm.train.distributed import local


class EMA:
    """A frozen average of the model: w_ema <- decay w_ema + (1 - decay) w. Both may be sharded: each device updates its
    own part.
    """

    def __init__(self, model: Backbone, decay: float, warmup: bool, twin: Backbone | None = None):
        """`twin`: the copy, if already created."""
        self.model = twin or copy.deepcopy(model).requires_grad_(False).eval()
        self.decay, self.warmup = decay, warmup

    @torch.no_grad()
    def update(self, model: Backbone, step: int) -> None:
        """Update after optimizer step `step` (counted from 1). The warm-up quickly forgets the initial weights."""
        decay = min(self.decay, (1 + step) / (10 + step)) if self.warmup else self.decay
        averages = [local(w.data) for w in self.model.parameters()]
        torch._foreach_lerp_(averages, [local(w.data) for w in model.parameters()], 1 - decay)
