"""The commit rule (eq:commit-rule): threshold union floor, as a set."""

import torch
from torch import Tensor


def floor_count(remaining: Tensor, round: int, rounds: int) -> Tensor:
    """n_r = ceil(|R_r| / (k - r + 1)): what round r of k (counted from 1) must commit so that round k can finish."""
    left = rounds - round + 1
    return (remaining + left - 1) // left


def top(score_BL: Tensor, among_BL: Tensor, count_B: Tensor) -> Tensor:
    """The count highest-scoring positions among the allowed ones, as a mask; ties go to the earlier position."""
    keyed = torch.where(among_BL, score_BL, torch.full_like(score_BL, -torch.inf))
    # -inf may be a legitimate score, so allowed positions are put before the others by a second, stable sort
    order = keyed.argsort(dim=-1, descending=True, stable=True)
    allowed_first = (~among_BL.gather(-1, order)).to(torch.uint8).argsort(dim=-1, stable=True)
    order = order.gather(-1, allowed_first)
    positions = torch.arange(score_BL.shape[-1], device=score_BL.device).expand_as(order)
    rank = torch.empty_like(order).scatter_(-1, order, positions)
    return among_BL & (rank < count_B[:, None])


def spread(length: int, device: torch.device | None = None, turn_B: Tensor | None = None) -> Tensor:
    """Scores (L,) by which commits are spread over a sequence, whatever stands there: 0, 64, 32, 96, 16, ... of 128.

    They are minus the van der Corput sequence, a position's bits in reverse. Neighbours depend on each other most, and
    those of one round are proposed apart: so a round's positions should be far from each other and close to what is
    known. None is above 0, so no threshold commits more. With `turn_B` every row has the order turned by so many
    positions: (B, L).
    """
    position, bits = torch.arange(length, device=device), max(1, (length - 1).bit_length())
    if turn_B is not None:
        position = (position + turn_B[:, None]) % length
    reversed_bits = sum(((position >> i) & 1) << (bits - 1 - i) for i in range(bits))
    return -reversed_bits / 2**bits


def commit(score_BL: Tensor, committed_BL: Tensor, round: int, rounds: int, kappa: float) -> Tensor:
    """C_r = C_{r-1} + {l: q_l >= kappa} + top_{n_r}(R_r; q), as a mask.

    `committed_BL` is C_{r-1} with the prompt in it; `round` counts from 1. After round k everything is committed.
    A score that is not a number counts as the lowest.
    """
    score_BL = torch.nan_to_num(score_BL, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    remaining_BL = ~committed_BL
    count_B = floor_count(remaining_BL.sum(-1), round, rounds)
    return committed_BL | (remaining_BL & (score_BL >= kappa)) | top(score_BL, remaining_BL, count_B)
