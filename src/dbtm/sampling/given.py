"""The given tokens of the requested samples."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dbtm.core import rng


@dataclass(frozen=True)
class Given:
    """A batch: tokens (B, L), given where clean (B, L) is true: prompt, suffix, any infilling."""

    tokens: Tensor
    clean: Tensor
    index: Tensor  # (B,) sample numbers, which determine their random numbers

    def rows(self, keep: Tensor) -> "Given":
        return Given(self.tokens[keep], self.clean[keep], self.index[keep])

    def keys(self, seed: int, stream: int, rounds: int) -> Tensor:
        """The keys of all rounds at once, (B, rounds): hashed per round, they would be most of its kernel launches."""
        return rng.fold(seed, stream, self.index[:, None], torch.arange(1, rounds + 1, device=self.index.device))
