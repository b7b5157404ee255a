"""The prior x0 ~ N(0, sigma^2 I), stored as its keys: its B x L x V values need never exist all at once."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dbtm.core import rng


@dataclass(frozen=True)
class Noise:
    """x0 of a batch: entry v of position l of sample b is a function of (key_b, l V + v) only."""

    key: Tensor  # (B,) int64
    length: int
    vocab: int
    sigma: float = 1.0
    dtype: torch.dtype = torch.float32

    def __len__(self) -> int:
        return len(self.key)

    def __getitem__(self, rows: Tensor | slice) -> "Noise":
        """The noise of some of the samples."""
        return replace(self, key=self.key[rows])

    def dense(self) -> Tensor:
        """All of x0, (B, L, V)."""
        return self.sigma * rng.normal(self.key, self.length, self.vocab, dtype=self.dtype)

    def gather(self, tokens_BLK: Tensor) -> Tensor:
        """x0[b, l, tokens[b, l, k]], (B, L, K), without drawing the rest."""
        first = self.vocab * torch.arange(self.length, device=self.key.device)[:, None]
        return self.sigma * rng.normal_at(self.key[:, None, None], first + tokens_BLK, self.dtype)
