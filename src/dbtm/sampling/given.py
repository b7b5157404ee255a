"""What is given of the samples that a sampler is asked for."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dbtm.core import rng


@dataclass(frozen=True)
class Given:
    """A batch: tokens (B, L) that count where clean (B, L) is true - prompt, suffix, any infilling."""

    tokens: Tensor
    clean: Tensor
    index: Tensor  # (B,) numbers of the samples, which their randomness depends on

    def rows(self, keep: Tensor) -> "Given":
        return Given(self.tokens[keep], self.clean[keep], self.index[keep])

    def keys(self, seed: int, stream: int, rounds: int) -> Tensor:
        """The keys of all rounds at once, (B, rounds): one by one, their hashes would be most of a round's launches."""
        return rng.fold(seed, stream, self.index[:, None], torch.arange(1, rounds + 1, device=self.index.device))
