"""A mixture of products, p(x) = mean_k prod_l D_l(x_l | k): the terms of Di4C's losses, in chunks of positions.

With m_l = mean_k D_l(. | k),

    Joint(x) = log mean_k prod_l D_l(x_l | k)        Fact(x) = sum_l log m_l(x_l)

Joint couples all positions of a sequence. So each position returns its log-probabilities at the requested tokens, which
are summed afterwards. The logits of a chunk are recomputed in the backward pass.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

BUDGET = 2**27  # bytes of one chunk's logits


class Reads(NamedTuple):
    """The terms of n positions, under autograd."""

    at_nKT: Tensor  # log D(token | k)
    fact_nT: Tensor  # log m(token)
    to_mean_n: Tensor  # KL(target || m)
    to_each_n: Tensor  # mean_k KL(target || D(. | k))
    to_second_n: Tensor  # KL(second target || m); 0 without a second target


Targets = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""From positions (n,) to one or two distributions for each, (n, V): constants."""


def read_mixture(trunk_NKD: Tensor, head: nn.Linear, tokens_NT: Tensor, targets: Targets, each: bool) -> Reads:
    """Terms of N positions with K latents, at T tokens each; `each`: also the divergence of every latent."""
    K, V = trunk_NKD.shape[1], len(head.bias)
    at_once = max(1, BUDGET // (4 * K * V))

    def chunk(trunk_nKD: Tensor, index_n: Tensor) -> tuple[Tensor, ...]:
        wide = torch.promote_types(trunk_nKD.dtype, torch.float32)
        logits = nn.functional.linear(trunk_nKD, head.weight.to(trunk_nKD.dtype)).to(wide) + head.bias.to(wide)
        log_D = logits.log_softmax(-1)
        log_m = log_D.logsumexp(1) - math.log(K)
        tokens = tokens_NT[index_n]
        at = log_D.gather(-1, tokens[:, None].expand(-1, K, -1))
        with torch.no_grad():
            first, second = targets(index_n)
        to_each = divergence(first[:, None], log_D).mean(1) if each else log_m.new_zeros(len(index_n))
        to_second = log_m.new_zeros(len(index_n)) if second is None else divergence(second, log_m)
        return at, log_m.gather(-1, tokens), divergence(first, log_m), to_each, to_second

    pieces = []
    for index in torch.arange(len(trunk_NKD), device=trunk_NKD.device).split(at_once):
        pieces.append(checkpoint(chunk, trunk_NKD[index], index, use_reentrant=False))
    return Reads(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))


def divergence(target: Tensor, log_p: Tensor) -> Tensor:
    """KL(target || p) over the last axis; entries where the target is 0 add nothing."""
    return (torch.special.xlogy(target, target) - target * log_p).sum(-1)


def joint_minus_fact(at_nKT: Tensor, fact_nT: Tensor, sequence_n: Tensor, sequences: int) -> Tensor:
    """Joint(x) - Fact(x) of every sequence and of T token sequences each, (B, T); positions belong to `sequence_n`."""
    K = at_nKT.shape[1]
    sums = at_nKT.new_zeros(sequences, *at_nKT.shape[1:]).index_add(0, sequence_n, at_nKT)
    facts = fact_nT.new_zeros(sequences, fact_nT.shape[1]).index_add(0, sequence_n, fact_nT)
    return sums.logsumexp(1) - math.log(K) - facts
