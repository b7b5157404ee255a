"""What causal blocks remember of the positions before: keys, values, and the last inputs of short convolutions."""

import torch
from torch import Tensor


class LayerCache:
    """Of one block, applied once; a stack that is applied several times has one for each."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None  # (B, H, m, d)
        self.values: Tensor | None = None
        self.tail: Tensor | None = None  # (B, taps - 1, 3 D): the last inputs of the convolution

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values so far, these at their end."""
        self.keys = k if self.keys is None else torch.cat((self.keys, k), -2)
        self.values = v if self.values is None else torch.cat((self.values, v), -2)
        return self.keys, self.values


class Cache:
    """Of a whole network: `length` positions have been read."""

    def __init__(self) -> None:
        self.length = 0
        self.layers: list[LayerCache] = []

    def layer(self, number: int) -> LayerCache:
        while len(self.layers) <= number:
            self.layers.append(LayerCache())
        return self.layers[number]
