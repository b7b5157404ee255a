"""Token sequences of one's own from a .npy file: `dbtm train own --data tokens.npy --vocab V --length L`."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from dbtm.core import rng
from dbtm.core.arrays import open_array
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.tasks.base import Batch, Task, register


@lru_cache(maxsize=2)  # a batch may straddle two epochs
def _permutation(key: int, n: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(key)).permutation(n)


@register
@dataclass(frozen=True)
class Own(Task):
    """Integer tokens (N, L), or one long stream (N,), which is cut into blocks of `length`."""

    name = "own"

    data: str = ""
    """A .npy file."""
    vocab: int = 2
    """Tokens are 0..vocab - 1."""
    length: int = 1
    """Tokens per sequence."""
    prompt: int = 0
    """How many leading positions are given, never generated."""
    seed: int = 0
    """Seed of the order of sequences."""

    def __post_init__(self):
        if self.vocab < 2 or self.length < 1:
            raise UsageError(f"task.vocab={self.vocab} and task.length={self.length} must be at least 2 and 1")
        if not 0 <= self.prompt < self.length:
            raise UsageError(f"task.prompt={self.prompt} must leave something to generate of length {self.length}")

    @cached_property
    def blocks(self) -> np.ndarray:
        """(N, L) tokens, memory-mapped; checked once."""
        if not self.data or not Path(self.data).is_file():
            raise UsageError(f"no such data file: '{self.data}'; name a .npy file of integer tokens")
        array = open_array(self.data)
        if array.dtype.kind not in "iu" or array.ndim not in (1, 2):
            raise UsageError(f"{self.data} must hold integers of shape (N, L) or (N,), not {array.dtype} {array.shape}")
        if array.ndim == 1:
            array = array[: len(array) // self.length * self.length].reshape(-1, self.length)
        if array.shape[1] != self.length:
            raise UsageError(f"{self.data} has sequences of length {array.shape[1]}, but task.length is {self.length}")
        if not len(array):
            raise UsageError(f"{self.data} has no full sequence of length {self.length}")
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= self.vocab:
            raise UsageError(
                f"{self.data} has token {low if low < 0 else high}, outside 0..{self.vocab - 1} (task.vocab)"
            )
        return array

    def data_sha256(self) -> str:
        return sha256(Path(self.data))

    def order(self, index: np.ndarray) -> np.ndarray:
        """Rows for global sample indices: every epoch visits each row once, in an order of its own."""
        epoch, place = np.divmod(index, len(self.blocks))
        rows = np.empty_like(place)
        for e in np.unique(epoch):
            key = int(rng.fold(self.seed, int(e)).item()) & (2**64 - 1)
            rows[epoch == e] = _permutation(key, len(self.blocks))[place[epoch == e]]
        return rows

    def batch(self, index: np.ndarray) -> Batch:
        tokens = self.blocks[self.order(np.asarray(index))]
        prompt = np.broadcast_to(np.arange(self.length) < self.prompt, tokens.shape)
        return Batch(tokens.astype(np.int64), prompt)
