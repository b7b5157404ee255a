"""The commit rule (eq:commit-rule): threshold union floor, as a set."""

from collections.abc import Sequence

import torch
from torch import Tensor


def floor_count(remaining: Tensor, round: int, rounds: int) -> Tensor:
    """n_r = ceil(|R_r| / (k - r + 1)): what round r of k (counted from 1) must commit so that round k can finish."""
    left = rounds - round + 1
    return (remaining + left - 1) // left


def planned_count(free: Tensor, remaining: Tensor, sizes: Sequence[int], round: int) -> Tensor:
    """What round r (counted from 1) of a plan must commit: what is missing of ceil(free (s_1 + .. + s_r) / sum s), and
    at least one. `free` is what was to be generated at first: a plan made for another number of positions is scaled,
    and its last round commits everything in any case.
    """
    total, so_far = sum(sizes), sum(sizes[:round])
    due = (free * so_far + total - 1) // total
    return (due - (free - remaining)).clamp(min=1)


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


def commit(
    score_BL: Tensor, committed_BL: Tensor, round: int, rounds: int, kappa: float, count_B: Tensor | None = None
) -> Tensor:
    """C_r = C_{r-1} + {l: q_l >= kappa} + top_{n_r}(R_r; q), as a mask.

    `committed_BL` is C_{r-1} with the prompt in it; `round` counts from 1. After round k everything is committed.
    A score that is not a number counts as the lowest. n_r is `count_B`, where that is given.
    """
    score_BL = torch.nan_to_num(score_BL, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    remaining_BL = ~committed_BL
    if count_B is None:
        count_B = floor_count(remaining_BL.sum(-1), round, rounds)
    return committed_BL | (remaining_BL & (score_BL >= kappa)) | top(score_BL, remaining_BL, count_B)
