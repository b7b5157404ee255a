"""What the trainer knows of a method."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from dbtm import rng
from dbtm.sampling.sampler import Sampler


@dataclass(frozen=True)
class Examples:
    """A micro-batch on its device: tokens x1 (B, L), prompt mask (B, L), global sample indices (B,)."""

    tokens: Tensor
    prompt: Tensor
    index: Tensor
    step: int
    seed: int

    def key(self, stream: int) -> Tensor:
        """key_B of one stream of random numbers: a function of (seed, step, sample, stream), not of the batch."""
        return rng.fold(self.seed, stream, self.step, self.index)


class Method(Protocol):
    """A way to train and sample: DBTM, and later its peers."""

    model: nn.Module  # what is trained, averaged (EMA) and saved
    frozen: dict[str, nn.Module]  # further modules whose weights belong to the state of the run (a teacher)

    def loss(self, examples: Examples) -> dict[str, Tensor]:
        """Named terms, each a scalar; 'loss' is the one that is minimised."""
        ...

    def after_step(self, step: int, ema: nn.Module) -> None:
        """Called once after every optimizer step, with the averaged model."""
        ...

    def sampler(self, model: nn.Module, device: torch.device) -> Sampler:
        """A sampler for these weights."""
        ...
