"""The map without renoising: T applied k times, and the flow of its field."""

import torch
from torch import Tensor

from dbtm.config import SampleConfig
from dbtm.nn import TransportMap
from dbtm.sampling.prior import Prior
from dbtm.sampling.refine import NOISE, Given, keys, noise, refine
from dbtm.sampling.trace import Trace
from dbtm.simplex import State


def iterate(
    model: TransportMap, given: Given, times: int, sigma: float = 1.0, seed: int = 0, prior: Prior | None = None
) -> Trace:
    """T^k(x0) (eq:transport-map: an exact map is idempotent, a learned one approaches its fixed point).

    These are rounds that hold all of T(x) and renoise nothing; so x0 is that of any other `refine` of this seed.
    """
    options = SampleConfig(nfe=times, kappa=0.0, scorer="none", commit=False, sigma=sigma)
    return refine(model, given, options, seed, prior=prior)


@torch.no_grad()
def integrate(
    model: TransportMap, given: Given, steps: int = 64, horizon: float = 4.0, sigma: float = 1.0, seed: int = 0
) -> Trace:
    """Euler steps along b(x) = T(x) - x up to the horizon H (remark:autonomous-flow): the field that the map implies.

    The speed Z(x) only rescales time, so it is left out. What is left of x0 takes part in the last argmax: so x0 itself
    is drawn, where `refine` is content with x0 W.
    """
    x0_BLV = noise(model, keys(given, seed, NOISE, 1)[:, 0], sigma).dense()
    free_BL = ~given.clean
    x_BLV: Tensor = State(given.tokens, free_BL.to(x0_BLV.dtype), x0_BLV).dense()
    for _ in range(steps):
        x_BLV = torch.where(free_BL[..., None], x_BLV + (horizon / steps) * (model(x_BLV) - x_BLV), x_BLV)
    tokens = torch.where(given.clean, given.tokens, x_BLV.argmax(-1))
    return Trace(tokens.cpu().numpy(), torch.full((len(tokens),), steps).numpy(), given.clean.cpu().numpy())
