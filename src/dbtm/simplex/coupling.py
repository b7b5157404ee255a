"""The coupling of noise and data: independent, or minibatch optimal transport (app:language-exp-details)."""

import torch
from torch import Tensor

from dbtm.simplex.noise import Noise


def ot_cost(noise: Tensor | Noise, tokens_BL: Tensor, target_BL: Tensor) -> Tensor:
    """Cost_ij = -sum_l x0_i[l, x1_j[l]] of assigning noise row i to data row j, over j's target positions, (B, B).

    If all rows have the same target positions, it is |x0_i - x1_j|^2 / 2 up to terms that no permutation changes. It
    needs only B entries of x0 per position, no one-hots.
    """
    rows = []
    for i in range(0, len(noise), at_once := max(1, 2**24 // tokens_BL.numel())):
        some = noise[i : i + at_once]
        wanted = tokens_BL.T.expand(len(some), -1, -1)
        reward_iLB = some.gather(wanted) if isinstance(some, Noise) else some.gather(-1, wanted)
        rows.append(-(reward_iLB * target_BL.T).sum(1))
    return torch.cat(rows)


def assignment(cost_BB: Tensor) -> Tensor:
    """The exact optimal assignment: noise row pi[j] for data row j, minimising sum_j cost[pi[j], j].

    Only the noise rows are permuted; prompts and tokens stay.
    """
    from scipy.optimize import linear_sum_assignment  # takes half a second to import, and sampling does not need it

    noise_rows, data_rows = linear_sum_assignment(cost_BB.detach().float().cpu().numpy())
    permutation = torch.empty(len(noise_rows), dtype=torch.int64)
    permutation[torch.from_numpy(data_rows)] = torch.from_numpy(noise_rows)
    return permutation.to(cost_BB.device)
