"""The map without renoising: T applied k times, and the flow of its field."""

import torch
from torch import Tensor

from dbtm.methods.dbtm.evaluator import Evaluator, noise
from dbtm.methods.dbtm.options import Options
from dbtm.methods.dbtm.refine import NOISE, refine
from dbtm.sampling.given import Given
from dbtm.sampling.trace import Trace
from dbtm.sampling.watch import Watch
from dbtm.simplex import State


def iterate(network: Evaluator, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
    """T^k(x0) (eq:transport-map: an exact map is idempotent, a learned one approaches its fixed point).

    Rounds hold all of T(x) and renoise nothing; x0 is the same as in `refine` with this seed. With a tolerance a sample
    stops when T(x) = x, the paper's "until it reaches a fixed point".
    """
    held = Options(
        nfe=options.nfe,
        kappa=0.0,
        scorer="none",
        commit=False,
        sigma=options.sigma,
        tolerance=options.tolerance,
    )
    return refine(network, given, held, seed, watch)


@torch.no_grad()
def integrate(network: Evaluator, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
    """Euler steps along b(x) = T(x) - x up to the horizon H (remark:autonomous-flow): the field implied by the map.

    The speed Z(x) only rescales time, so it is omitted. The remainder of x0 enters the last argmax, so x0 itself is
    drawn, while `refine` needs only x0 W.
    """
    x0_BLV = noise(network.model, given.keys(seed, NOISE, 1)[:, 0], options.sigma or 1.0).dense()
    free_BL, step = ~given.clean, options.horizon / options.nfe
    x_BLV: Tensor = State(given.tokens, free_BL.to(x0_BLV.dtype), x0_BLV).dense()
    T = watch.counted(network.model)
    for r in range(1, options.nfe + 1):
        x_BLV = torch.where(free_BL[..., None], x_BLV + step * (T(x_BLV) - x_BLV), x_BLV)
        tokens = torch.where(given.clean, given.tokens, x_BLV.argmax(-1))
        if watch.tracing:
            watch.round(tokens, time=r * step)
    return watch.trace(tokens, given.clean)


SAMPLERS = {"refine": refine, "iterate": iterate, "integrate": integrate}
