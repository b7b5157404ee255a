"""The map without renoising: T applied k times, and the flow of its field."""

import torch
from torch import Tensor

from dbtm.nn import TransportMap
from dbtm.sampling.refine import NOISE, Given, keys, noise
from dbtm.sampling.trace import Trace
from dbtm.simplex import State


def _start(model: TransportMap, given: Given, seed: int, sigma: float) -> tuple[Tensor, Tensor]:
    """x0 with the given tokens clean, and the mask of what is free, (B, L, 1)."""
    x0_BLV = noise(model, keys(given, seed, NOISE, 1)[:, 0], sigma).dense()
    free = ~given.clean
    return State(given.tokens, free.to(x0_BLV.dtype), x0_BLV).dense(), free[..., None]


def _finish(x_BLV: Tensor, given: Given, nfe: int) -> Trace:
    tokens = torch.where(given.clean, given.tokens, x_BLV.argmax(-1))
    return Trace(tokens.cpu().numpy(), torch.full((len(tokens),), nfe).numpy(), given.clean.cpu().numpy())


@torch.no_grad()
def iterate(model: TransportMap, given: Given, times: int, sigma: float = 1.0, seed: int = 0) -> Trace:
    """T^k(x0) (eq:transport-map: an exact map is idempotent, a learned one approaches its fixed point)."""
    x, free = _start(model, given, seed, sigma)
    for _ in range(times):
        x = torch.where(free, model(x), x)
    return _finish(x, given, times)


@torch.no_grad()
def integrate(
    model: TransportMap, given: Given, steps: int = 64, horizon: float = 4.0, sigma: float = 1.0, seed: int = 0
) -> Trace:
    """Euler steps along b(x) = T(x) - x up to the horizon H (remark:autonomous-flow): the field that the map implies.

    The speed Z(x) only rescales time, so it is left out.
    """
    x, free = _start(model, given, seed, sigma)
    for _ in range(steps):
        x = torch.where(free, x + (horizon / steps) * (model(x) - x), x)
    return _finish(x, given, steps)
