"""Times of a training batch, stratified over the step's whole batch: one in each of n equal intervals.

n is the number of rows of a step over all devices and micro-batches, so the draw does not depend on the split of the
batch. Each draw (a time, a distance, a share of context) has its own random stream and is stratified separately.
"""

import torch
from torch import Tensor

from dbtm.core import rng
from dbtm.methods.base import Examples


def stratified(
    examples: Examples, stream: int, n: int, low: float = 0.0, high: float = 1.0, permuted: bool = False
) -> Tensor:
    """low + (high - low) (u_i + p_i) / n, float64 (B,): u_i uniform, p_i the row's place in the batch of n rows.

    `permuted`: p is a random permutation of the places, different for every step and stream. Without it, row i always
    has a time of interval i, so two draws for the same rows would be correlated.
    """
    u_B = rng.uniform(examples.key(stream), 1)[:, 0]
    place_B = places(examples) % n
    if permuted:
        place_B = permutation(examples, stream, n)[place_B]
    return low + (high - low) * (u_B + place_B) / n


def places(examples: Examples) -> Tensor:
    """Row numbers in the step's whole batch, (B,)."""
    if examples.place is not None:
        return examples.place
    return torch.arange(len(examples.tokens), device=examples.tokens.device)


def permutation(examples: Examples, stream: int, n: int) -> Tensor:
    """A permutation of 0..n - 1, the same for all rows of a step on any device, (n,)."""
    return rng.uniform(rng.fold(examples.step_keys()[:1], stream), n)[0].argsort()
