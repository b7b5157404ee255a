"""Reflow (beyond the paper): one evaluation learns what a frozen copy of the map draws in many rounds with its noise.

    x_0 <- the prompt;  n = ceil(L / k) positions per round, in the spread order;  k <- ceil(L / n)
    for r = 1 .. k:
        f <- copy(x_{r-1} where known, 1/V elsewhere)               softmax(f / temperature): p(x1 | context)
        x_r <- argmax_v f_v / temperature + g_v(x0) on the next n positions
    the map learns x_k at (x_k on the positions of m rounds, x0 elsewhere), m = 0 and random

g is Gumbel noise computed from what the map reads of x0, so x_r is a draw, but a function of x0 and the prompt. So
nothing is averaged over answers, and one evaluation can learn it. As in rectified flow, noise is paired with the
model's own samples.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dbtm.core import rng
from dbtm.core.device import wide_device
from dbtm.losses.head import Adaptive
from dbtm.methods.base import Examples, Part
from dbtm.methods.dbtm.config import ReflowConfig
from dbtm.methods.dbtm.network import TransportMap
from dbtm.methods.dbtm.streams import REFLOW
from dbtm.simplex import spread

if TYPE_CHECKING:
    from dbtm.methods.dbtm.training import DBTM

RIDGE = 1e-10  # of the Gram matrix, relative to its mean diagonal, in float64


def reflow_parts(method: "DBTM", noise_BLD: Tensor, examples: Examples) -> Iterator[Part]:
    """CE(T(x), x_k) where x is noise, at all states of an answer."""
    config, copy, network = method.settings.reflow, method.frozen["teacher"], method.network
    assert isinstance(copy, TransportMap)
    reader_DV = noise_reader(network) if method.noise_reader is None else method.noise_reader
    h_BLD = noise_BLD.detach() / method.settings.path.sigma
    tokens, round_BL = drawn(copy, config, examples, h_BLD, reader_DV)
    answer, plain = replace(examples, tokens=tokens), Adaptive(endpoint_r=0.0)
    for number in range(config.states):
        known = round_BL <= known_rounds(config, examples, number)
        h = torch.where(known[..., None], network.embed_tokens(tokens).to(noise_BLD.dtype), noise_BLD)
        yield method.cross_entropy_part("reflow", h, ~known, answer, plain)


@torch.no_grad()
def drawn(
    copy: TransportMap, config: ReflowConfig, examples: Examples, h_BLD: Tensor, reader_DV: Tensor
) -> tuple[Tensor, Tensor]:
    """The copy's tokens (B, L), and the round (B, L) in which each is drawn, 0 where it is given; h: x0 W / sigma."""
    length = examples.tokens.shape[1]
    order = spread(length, examples.tokens.device).argsort(descending=True)
    tokens, known, round_BL = examples.tokens, examples.prompt, torch.zeros_like(examples.tokens)
    for r, at in enumerate(order.split(-(-length // drawn_rounds(config, length))), 1):
        trunk, _ = copy.hidden(copy.embed_known(tokens, known))
        z = h_BLD[:, at].to(reader_DV.dtype) @ reader_DV
        best = (copy.head(trunk[:, at])[0] / config.temperature + gumbel(z)).argmax(-1)
        here = torch.zeros_like(known).index_fill(1, at, True) & ~examples.prompt
        tokens = torch.where(here, tokens.index_copy(1, at, best), tokens)
        known, round_BL = known | here, round_BL + r * here
    return tokens, round_BL


def gumbel(normal: Tensor) -> Tensor:
    """Standard Gumbel noise from standard normals."""
    return -torch.log(-torch.special.log_ndtr(normal))


@torch.no_grad()
def noise_reader(model: TransportMap) -> Tensor:
    """R (D, V): every entry of x0 W R / sigma is N(0, 1), and nearly independent of the others.

    The map reads x0 W, that is, P x0, the projection onto the column space of W, P = W W^+. R = W^+ / sqrt(diag P)
    gives the projection's entries, each divided by its standard deviation. If the width is at least V, P = I, and these
    are x0's own. Else correlations are about 1/sqrt(D); only tokens with nearly the same embedding share their noise.
    With W^T in place of W^+, a direction that all embeddings have in common would be shared by all, and draws would
    have too little entropy.
    """
    W = model.token_embedding.detach()
    wide = W.to(wide_device(W.device)).double()
    tall = len(wide) > wide.shape[1]
    gram = wide.T @ wide if tall else wide @ wide.T
    gram.diagonal().add_(RIDGE * gram.diagonal().mean())
    factor, _ = torch.linalg.cholesky_ex(gram)
    inverse_DV = torch.cholesky_solve(wide.T, factor) if tall else torch.cholesky_solve(wide, factor).T
    deviation_V = (wide * inverse_DV.T).sum(-1).clamp_min(RIDGE).sqrt()
    return (inverse_DV / deviation_V).to(torch.promote_types(W.dtype, torch.float32)).to(W.device)


def drawn_rounds(config: ReflowConfig, length: int) -> int:
    """The number of rounds that have positions to draw, if all have the same number but the last."""
    return -(-length // -(-length // config.rounds))


def known_rounds(config: ReflowConfig, examples: Examples, number: int) -> Tensor:
    """m (B, 1): how many rounds of a row's answer the map reads at a state; 0 at the first. The others share 1 .. k - 1
    in equal parts.
    """
    if not number:
        return torch.zeros_like(examples.sample_key[:, None])
    u_B1 = rng.uniform(rng.fold(examples.key(REFLOW), number), 1)
    rounds = drawn_rounds(config, examples.tokens.shape[1])
    return 1 + ((rounds - 1) * (number - 1 + u_B1) / (config.states - 1)).long()
