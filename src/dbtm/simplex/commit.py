"""The commit rule (eq:commit-rule): positions above the threshold, and at least the floor."""

from collections.abc import Sequence

import torch
from torch import Tensor


def floor_count(remaining: Tensor, round: int, rounds: int) -> Tensor:
    """n_r = ceil(|R_r| / (k - r + 1)): the fewest commits of round r of k (from 1) such that round k can finish."""
    left = rounds - round + 1
    return (remaining + left - 1) // left


def planned_count(free: Tensor, remaining: Tensor, sizes: Sequence[int], round: int) -> Tensor:
    """Commits of round r (counted from 1) of a plan: up to a total of ceil(free (s_1 + .. + s_r) / sum s), and at least
    one. `free` is the initial number of positions to generate. A plan for another number of positions is scaled, and
    its last round always commits all remaining positions.
    """
    total, so_far = sum(sizes), sum(sizes[:round])
    due = (free * so_far + total - 1) // total
    return (due - (free - remaining)).clamp(min=1)


def top(score_BL: Tensor, among_BL: Tensor, count_B: Tensor) -> Tensor:
    """The count highest-scoring positions among the allowed ones, as a mask; ties go to the earlier position."""
    keyed = torch.where(among_BL, score_BL, torch.full_like(score_BL, -torch.inf))
    # -inf may be a valid score, so a second, stable sort moves allowed positions before the others
    order = keyed.argsort(dim=-1, descending=True, stable=True)
    allowed_first = (~among_BL.gather(-1, order)).to(torch.uint8).argsort(dim=-1, stable=True)
    order = order.gather(-1, allowed_first)
    positions = torch.arange(score_BL.shape[-1], device=score_BL.device).expand_as(order)
    rank = torch.empty_like(order).scatter_(-1, order, positions)
    return among_BL & (rank < count_B[:, None])


def spread(length: int, device: torch.device | None = None, turn_B: Tensor | None = None) -> Tensor:
    """Scores (L,) that spread commits over a sequence, independent of its tokens: 0, 64, 32, 96, 16, ... of 128.

    They are the negative van der Corput sequence (bit-reversed positions). Neighbours depend on each other most, but
    the tokens of one round are drawn independently. So a round's positions should be far apart and close to known
    positions. All scores are at most 0, so no threshold commits more. `turn_B` rotates the order of every row by so
    many positions: (B, L).
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

    `committed_BL` is C_{r-1} including the prompt; `round` counts from 1. After round k everything is committed.
    NaN counts as the lowest score. n_r is `count_B`, if given.
    """
    score_BL = torch.nan_to_num(score_BL, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    remaining_BL = ~committed_BL
    if count_B is None:
        count_B = floor_count(remaining_BL.sum(-1), round, rounds)
    return committed_BL | (remaining_BL & (score_BL >= kappa)) | top(score_BL, remaining_BL, count_B)
