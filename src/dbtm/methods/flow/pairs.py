"""Training of flow maps: a pair of times per row, half of them equal, and targets from two shorter steps.

s and t are times of the network's clock; `linear` times are those of x_t = (1 - t) noise + t e_x.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dbtm import losses
from dbtm.losses.soft_head import Target
from dbtm.methods.base import Examples, Part
from dbtm.methods.flow.readout import Readout
from dbtm.methods.times import places, stratified
from dbtm.simplex.flowmap import advance, first_share

DISTANCE, START, EDGE = 31, 32, 33  # streams of random numbers

Rows = slice | Tensor
Read = Callable[[Tensor, tuple[Tensor, ...]], Tensor]  # (embedded state, times) to trunk state


@dataclass(frozen=True)
class Pairs:
    """Start and end of every row's step, (B,) float64; `same` are the rows with s = t, `apart` the others."""

    s: Tensor
    t: Tensor
    same: Rows
    apart: Rows


def draw_pairs(examples: Examples, n: int, edge: float) -> Pairs:
    """A distance d ~ U(0, 1), then s ~ U(0, 1 - d), t = s + d, both stratified over the batch of n rows. Every second
    row has s = t = d instead; a share `edge` of the others steps from 0 to 1.
    """
    d, u, e = (stratified(examples, stream, n, permuted=True) for stream in (DISTANCE, START, EDGE))
    odd_size = len(d) % 2  # a micro-batch of odd size may start with either kind of row
    even = (places(examples) if odd_size else torch.arange(len(d), device=d.device)) % 2 == 0
    s = torch.where(even, d, torch.where(e < edge, 0.0, u * (1 - d)))
    t = torch.where(even, d, torch.where(e < edge, 1.0, (u * (1 - d) + d).clamp(max=1.0)))
    if odd_size:
        return Pairs(s, t, even.nonzero().squeeze(-1), (~even).nonzero().squeeze(-1))
    return Pairs(s, t, slice(0, None, 2), slice(1, None, 2))


def both_halves(
    readout: Readout,
    trunk_BLD: Tensor,
    pairs: Pairs,
    on_diagonal: Tensor | Target,
    apart: Target,
    rows: tuple[Tensor, Tensor],
    free_BL: Tensor,
    count: Tensor,
) -> Part:
    """Cross-entropies of the free tokens: for s = t the target is the data (tokens) or distributions, else `apart`.
    `rows` are the positions that the head visits in either half.
    """
    beta, same, other = free_BL / count, pairs.same, pairs.apart
    if isinstance(on_diagonal, Tensor):
        diagonal, per_same = readout.token_loss(trunk_BLD[same], on_diagonal[same], beta[same], rows[0])
    else:
        diagonal, per_same = readout.loss(trunk_BLD[same], on_diagonal, beta[same], rows[0])
    semigroup, per_apart = readout.loss(trunk_BLD[other], apart, beta[other], rows[1])
    terms = {
        "diagonal": losses.total(per_same * free_BL[same], count),
        "semigroup": losses.total(per_apart * free_BL[other], count),
    }
    return Part(diagonal + semigroup, terms)


@torch.no_grad()
def two_steps(
    read: Read,
    readout: Readout,
    h_BLD: Tensor,
    times: tuple[Tensor, Tensor, Tensor],
    linear: tuple[Tensor, Tensor, Tensor],
) -> Target:
    """delta_{s,t}(x) via u, from the network itself: g delta_{s,u}(x) + (1 - g) delta_{u,t}(X_{s,u}(x)).

    `times` (s, u, t) are the network's time inputs; `linear` are (B, L), with 1 at clean positions, which do not move.
    """
    (s, u, t), (s_BL, u_BL, t_BL) = times, linear
    first = read(h_BLD, (s, u))
    mean = readout.mean_embedding(first).to(h_BLD.dtype)
    second = read(advance(h_BLD, mean, s_BL[..., None], u_BL[..., None]), (u, t)).flatten(0, 1)
    first, g = first.flatten(0, 1), first_share(s_BL, u_BL, t_BL).flatten()

    def target(index: Tensor) -> Tensor:
        p, q = readout.probabilities(first[index]), readout.probabilities(second[index])
        return torch.lerp(q, p, g[index, None].to(p.dtype))

    return target
