"""Planned rounds of a trained map: the entropy of its proposals at the states visited by its sampler.

H[m, i] of `simplex.plan` is the entropy of place i of the spread order given the first m places, averaged over examples
of the task. The map estimates it: the m places have an example's tokens, the others noise or, if the sampler's rounds
use it, the prior's mean.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from dbtm.core import rng
from dbtm.core.device import wide
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm.evaluator import Evaluator, embed_state
from dbtm.methods.dbtm.options import Options
from dbtm.sampling.given import Given
from dbtm.simplex import spread
from dbtm.simplex.plan import MOST_PLACES, falling, filled, known_counts, plans

BUDGETS = (*range(2, 17), 32)
"""Numbers of network evaluations that get a plan; a single round has no choice."""
DRAW = 105  # stream of random numbers
NUMBERS = 1 << 26  # most probabilities and derived values in memory at once


def plan_by_nfe(
    network: Evaluator, given: Given, options: Options, budgets: Iterable[int] = BUDGETS, draws: int = 8
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Plans for budgets below the number of free positions; from there on every round commits one. Budgets that stay
    with noise while larger ones draw at the mean, whose entropies these are, get none.
    """
    H = falling(place_entropies(network, given, options, draws))
    least = options.mean_budget if options.mean_from else 2
    return tuple(plans(H, [k for k in budgets if least <= k < len(H)] or [len(H)]).items())


@torch.no_grad()
def place_entropies(network: Evaluator, given: Given, options: Options, draws: int = 8, seed: int = 0) -> np.ndarray:
    """H (F, F) in nats, F the largest number of free positions in a row. A row with fewer scales its places to F.

    A map from noise draws from the joint distribution: the noise determines much of T's proposal, so the entropy of T
    at one x0 is below that of the distribution, near zero for a good map. So T is averaged over `draws` of noise per
    row before its entropy is computed (`mixture_entropy`). The prior's mean is a single state; there T is the
    distribution itself.
    """
    given = given.rows(~given.clean.all(-1))
    if not len(given.tokens):
        raise UsageError("nothing to plan: every position of these rows is given")
    free_B = (~given.clean).sum(-1)
    F = int(free_B.max())
    if F > MOST_PLACES:
        raise UsageError(f"{F:,} positions are too many to plan: at most {MOST_PLACES:,} are allowed")
    network = network.looped(options.loops)
    key_B = rng.fold(seed, DRAW, given.index)
    order_BL = torch.where(given.clean, torch.inf, -spread(given.clean.shape[1], given.clean.device)).argsort(-1)
    place_BF = torch.arange(F, device=free_B.device) * free_B[:, None] // F
    at_BF = order_BL.gather(1, place_BF)  # position of each place of the order, per row
    rows = {}
    for m in known_counts(F):
        known = given.clean | (order_BL.argsort(-1) < place_BF[:, m, None])
        at_mean = options.mean_from == 1 or (options.mean_from > 1 and m > 0)
        keys: list[Tensor | None] = [None] if at_mean else [rng.fold(key_B, draw) for draw in range(draws)]
        parts = _entropies(network, given.tokens, known, at_BF[:, m:], keys, options)
        rows[m] = torch.cat([*parts]).mean(0).cpu().numpy()
    return filled(rows)


def _entropies(
    network: Evaluator, tokens: Tensor, known: Tensor, at_BN: Tensor, keys: list[Tensor | None], options: Options
) -> Iterator[Tensor]:
    """(B, N) entropies of T at some positions, averaged over noise, as many rows at a time as fit."""
    numbers = network.model.shape.vocab * at_BN.shape[1] * len(keys)
    for rows in torch.arange(len(tokens), device=tokens.device).split(max(1, NUMBERS // numbers)):
        draws, index = list[Tensor](), at_BN[rows, :, None]
        for key_B in keys:
            noise_B = None if key_B is None else key_B[rows]
            h = embed_state(network, tokens[rows], known[rows], noise_B, options)
            trunk = network.hidden(h if key_B is None else network.model.condition(h, None))
            states = trunk.gather(1, index.expand(-1, -1, trunk.shape[-1]))
            draws.append(wide(network.model.head(states)[0]).softmax(-1))
        yield mixture_entropy(torch.stack(draws))


def mixture_entropy(p: Tensor) -> Tensor:
    """Entropy (...) of the mixture from which K distributions (K, ..., V) are drawn.

    The entropy of their mean is too low, by about (V - 1) / 2K for one-hot draws. The bias is largest in the first
    rounds, where noise determines most; they would seem to lose little and be planned too large. The jackknife removes
    its first order: K H(all) - (K - 1) mean of H(all but one).
    """
    K, total = len(p), p.sum(0)
    whole = torch.special.entr(total / K).sum(-1)
    if K == 1:
        return whole
    others = torch.stack([torch.special.entr((total - each).clamp(min=0) / (K - 1)).sum(-1) for each in p]).sum(0)
    return K * whole - (K - 1) / K * others
