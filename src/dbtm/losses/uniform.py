"""The bound of diffusion to uniform tokens (Duo), Rao-Blackwellised over the next jump.

With xb = V alpha e_x + (1 - alpha) 1, its prediction xb' = V alpha D + (1 - alpha) 1, and the noisy token i = z,

    l = (alpha' / (V alpha)) [ V / xb_i - V / xb'_i - sum_j (xb_j / xb_i) log( xb'_i xb_j / (xb'_j xb_i) ) ]

xb has two values, so the sum needs only xb'_x, xb'_z and sum_j log xb'_j. Everything is divided by 1 - alpha, which
cancels: with rho = V alpha / (1 - alpha), xb_x becomes 1 + rho and xb'_j becomes 1 + rho D_j. This avoids cancellation
for alpha close to 0 or 1.
"""

import torch
from torch import Tensor

from dbtm.core.device import wide, widest


def uniform_bound(logits_nV: Tensor, x_n: Tensor, z_n: Tensor, noise_n: Tensor, rate_n: Tensor) -> Tensor:
    """l of every row, (n,), with D = softmax(logits); noise is 1 - alpha, above 0 and below 1, rate is alpha' < 0.

    Sums are float64, and l is on `wide_device`. The minimiser is the distribution of x given the noisy tokens at the
    *other* positions.
    """
    V, at = logits_nV.shape[-1], logits_nV.device
    noise, rate, x_n, z_n = wide(noise_n), wide(rate_n), x_n.to(at), z_n.to(at)
    rho = V * (1 - noise) / noise
    p_nV = logits_nV.softmax(-1)
    log_nV = torch.log1p(rho[:, None].to(p_nV) * p_nV)
    D_z, log_z, log_x = (wide(a.gather(-1, of[:, None]).squeeze(-1)) for a, of in (
        (p_nV, z_n), (log_nV, z_n), (log_nV, x_n)
    ))  # fmt: skip
    others = wide(log_nV.sum(-1, dtype=widest(at))) - log_x  # sum_{j != x} log xb'_j
    log_a = torch.log1p(rho)
    same = rho * (D_z - 1) / ((1 + rho) * (1 + rho * D_z)) * V / noise
    same = same - ((V - 1) * (log_z - log_a) - others) / (1 + rho)
    other = rho * D_z / (1 + rho * D_z) * V / noise
    other = other - ((V - 1) * log_z - others) - (1 + rho) * (log_z - log_x + log_a)
    return rate / (V * (1 - noise)) * torch.where((z_n == x_n).to(rate.device), same, other)
