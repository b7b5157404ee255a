"""The sampler of all flows: from embedded noise along a grid of times, with k evaluations of the network.

The state is stored embedded, z W: noise is drawn as x0 W, and a step adds the mean embedding D W of the predicted
distributions. No (B, L, V) tensor exists for all positions at once. Given tokens are clean one-hots at all times.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from dbtm.core import rng
from dbtm.core.device import widest
from dbtm.methods.flow.options import FlowOptions, noise_of
from dbtm.methods.flow.readout import Readout
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.prior import Prior

NOISE, CHOICE, FRESH = 221, 222, 223  # streams of random numbers

Move = Callable[[Tensor, Tensor, Callable[[], Tensor]], Tensor]
"""From the embedded state, the mean embedding D W and, if needed, fresh embedded noise to the next state."""


class Step(NamedTuple):
    """One evaluation of the network: its time inputs, and how its prediction moves the state."""

    times: tuple[float, ...]
    move: Move | None  # None: the last step, whose prediction is the result
    reached: float  # t after the step


def walk(
    readout: Readout, prior: Prior, given: Given, options: FlowOptions, seed: int, watch: Watch, steps: Iterable[Step]
) -> Trace:
    """Generate all tokens that are not given, by these steps."""
    network, length = readout.network, given.tokens.shape[1]
    read = watch.counted(lambda h, times: network.hidden(h, times=times)[0])
    tokens_BL, active = given.tokens.clone(), (~given.clean).any(-1).nonzero().squeeze(-1)
    if not len(active):
        return watch.trace(tokens_BL, given.clean)
    some = given.rows(active)
    clean_BLD = network.embed_tokens(some.tokens)
    keep = some.clean[..., None]
    h = torch.where(keep, clean_BLD, _noise(prior, some, seed, NOISE, 0, options.sigma).to(clean_BLD.dtype))
    slot: Tensor | None = None  # the previous step's prediction, if the network reads it
    uniform = rng.uniform(rng.fold(seed, CHOICE, some.index), length) if options.temperature else None
    for number, step in enumerate(steps, 1):
        times = tuple(torch.full((len(active),), t, dtype=widest(h.device), device=h.device) for t in step.times)
        trunk = read(h if slot is None else h + slot, times, rows=active)
        last = step.move is None
        found = readout.predict(trunk, ~some.clean, not last, options.temperature if last else 0.0, uniform)
        if last or watch.tracing:
            tokens_BL[active] = torch.where(some.clean, some.tokens, found.tokens)
        if watch.tracing:
            score = given.clean.to(found.top.dtype)
            score[active] = found.top
            settled = torch.ones_like(given.clean) if last else given.clean
            watch.round(tokens_BL, settled, score.float(), time=step.reached)
        if step.move is not None:
            assert found.mean is not None
            slot = None if found.recall is None else found.recall.to(h.dtype)
            fresh = partial(_noise, prior, some, seed, FRESH, number, 1.0)
            h = torch.where(keep, clean_BLD, step.move(h, found.mean.to(h.dtype), fresh).to(h.dtype))
    return watch.trace(tokens_BL, given.clean)


def _noise(prior: Prior, given: Given, seed: int, stream: int, number: int, sigma: float) -> Tensor:
    key_B = rng.fold(seed, stream, given.index, number)
    return prior.draw(noise_of(prior.model, key_B, sigma))
