"""Cache of causal blocks for earlier positions: keys, values, and the last inputs of short convolutions."""

import torch
from torch import Tensor


class LayerCache:
    """The cache of one block in one loop; looped blocks have one per loop."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None  # (B, H, m, d)
        self.values: Tensor | None = None
        self.tail: Tensor | None = None  # (B, taps - 1, 3 D): the last inputs of the convolution

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values; return all so far."""
        self.keys = k if self.keys is None else torch.cat((self.keys, k), -2)
        self.values = v if self.values is None else torch.cat((self.values, v), -2)
        return self.keys, self.values


class Cache:
    """The cache of a whole network after `length` positions."""

    def __init__(self) -> None:
        self.length = 0
        self.layers: list[LayerCache] = []

    def layer(self, number: int) -> LayerCache:
        while len(self.layers) <= number:
            self.layers.append(LayerCache())
        return self.layers[number]
