"""The recovery clock: time measured by how often the argmax of x_t = (1 - t) noise + t e_x is the token x.

    tau(t) = V / (V - 1) (Q - 1 / V),    Q = int phi(z) Phi(z + t / (1 - t))^(V - 1) dz

rises from 0 to 1. For a large vocabulary nearly all of the rise is in a narrow range of t (.74 to .85 for V = 50,257).
Times drawn uniformly in tau concentrate training there.
"""

from functools import lru_cache

import numpy as np
import torch
from scipy.special import log_ndtr
from torch import Tensor

from dbtm.core.device import wide, widest
from dbtm.theory.recovery import DENSITY, Z, recovery

STEP = 0.005  # step of the table in the signal-to-noise ratio t / (1 - t)
LAST = 1 - 1e-10  # last tau of the table; from there, a line to (1, 1)


class RecoveryClock:
    """t as a function of tau and back, for one vocabulary size."""

    def __init__(self, vocab: int):
        self.vocab = vocab
        tau, rho, slope = _table(vocab)
        self.tau_n, self.rho_n, self.slope_n = (torch.from_numpy(x) for x in (tau, rho, slope))

    def tau(self, t: float) -> float:
        """tau(t), by the integral."""
        if t >= 1:
            return 1.0
        return float(_scaled(recovery(t / (1 - t), self.vocab), self.vocab))

    def t(self, tau: Tensor) -> Tensor:
        """t(tau), float64: cubic Hermite interpolation of the table, error below 1e-8."""
        at, tau = tau.device, wide(tau).contiguous()
        tau_n, rho_n, slope_n = (x.to(tau.device) for x in (self.tau_n, self.rho_n, self.slope_n))
        right = torch.searchsorted(tau_n, tau, right=True).clamp(1, len(tau_n) - 1)
        left = right - 1
        width = tau_n[right] - tau_n[left]
        x = ((tau - tau_n[left]) / width).clamp(0, 1)
        rho = (
            (1 + 2 * x) * (1 - x) ** 2 * rho_n[left]
            + x * (1 - x) ** 2 * width * slope_n[left]
            + x**2 * (3 - 2 * x) * rho_n[right]
            + x**2 * (x - 1) * width * slope_n[right]
        )
        t = rho / (1 + rho)
        beyond = ((tau - tau_n[-1]) / (1 - tau_n[-1])).clamp(0, 1)
        return torch.lerp(t, torch.ones_like(t), beyond).to(at, widest(at))


def _scaled(probability: np.ndarray, vocab: int) -> np.ndarray:
    """A recovery probability, from 1 / V to 1, rescaled to 0 to 1."""
    return np.clip(vocab / (vocab - 1) * (probability - 1 / vocab), 0.0, 1.0)


@lru_cache(maxsize=8)
def _table(vocab: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """tau, rho = t / (1 - t) and d rho / d tau at points evenly spaced in rho."""
    rho = np.arange(0.0, 20.0, STEP)
    tau = _scaled(recovery(rho, vocab), vocab)
    tau[0] = 0.0
    keep = tau <= LAST
    rho, tau = rho[keep], tau[keep]
    # d Q / d rho = (V - 1) int phi(z) phi(z + rho) Phi(z + rho)^(V - 2) dz
    shifted = Z + rho[:, None]
    density = np.exp((vocab - 2) * log_ndtr(shifted) - 0.5 * shifted**2) / np.sqrt(2 * np.pi)
    return tau, rho, 1 / (vocab * (density @ DENSITY))
