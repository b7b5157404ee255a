"""Exponential moving average of the weights."""

import copy

import torch

from dbtm.nn import Backbone
from dbtm.train.distributed import local


class EMA:
    """A frozen copy that follows the model: w_ema <- decay w_ema + (1 - decay) w. Both may be cut over devices: each
    follows with the part that it has.
    """

    def __init__(self, model: Backbone, decay: float, warmup: bool, twin: Backbone | None = None):
        """`twin`: the copy, where it has been made."""
        self.model = twin or copy.deepcopy(model).requires_grad_(False).eval()
        self.decay, self.warmup = decay, warmup

    @torch.no_grad()
    def update(self, model: Backbone, step: int) -> None:
        """After optimizer step `step` (counted from 1). The warm-up forgets the start quickly."""
        decay = min(self.decay, (1 + step) / (10 + step)) if self.warmup else self.decay
        averages = [local(w.data) for w in self.model.parameters()]
        torch._foreach_lerp_(averages, [local(w.data) for w in model.parameters()], 1 - decay)
