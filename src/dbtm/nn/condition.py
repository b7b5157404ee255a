"""The input of adaLN in a network with a time input: sinusoids of one or two times through a small MLP."""

import math

import torch
from torch import Tensor, nn

from dbtm.nn.delta import silu
from dbtm.nn.layers import Dual, Linear

FEATURES = 256
MAX_PERIOD = 10_000.0


def time_features(t: Tensor, dt: Tensor | None = None) -> Dual:
    """cos and sin of t at FEATURES / 2 frequencies from 1 to 1 / MAX_PERIOD, (..., FEATURES), and their tangent."""
    half = FEATURES // 2
    frequency = torch.exp(-math.log(MAX_PERIOD) * torch.arange(half, device=t.device, dtype=t.dtype) / half)
    angle = t[..., None] * frequency
    cos, sin = angle.cos(), angle.sin()
    features = torch.cat((cos, sin), -1)
    if dt is None:
        return features, None
    with torch.no_grad():
        return features, torch.cat((-sin, cos), -1) * frequency.repeat(2) * dt[..., None]


class TimeEmbedding(nn.Module):
    """Linear, SiLU, Linear, SiLU on the features of a time; several times have one each, summed after the last SiLU,
    or before it (`sum_first`).
    """

    def __init__(self, cond_dim: int, times: int, sum_first: bool = False):
        super().__init__()
        self.sum_first = sum_first
        self.up = nn.ModuleList(Linear(FEATURES, cond_dim, bias=True) for _ in range(times))
        self.down = nn.ModuleList(Linear(cond_dim, cond_dim, bias=True) for _ in range(times))

    def forward(self, times: tuple[Tensor, ...], rates: tuple[Tensor | None, ...] | None = None) -> Dual:
        """(B,) or (B, L) times to a condition (B, 1, C) or (B, L, C), and its tangent if a time has a rate."""
        if len(times) != len(self.up):
            raise ValueError(f"this network reads {len(self.up)} time(s), not {len(times)}")
        rates = rates or (None,) * len(times)
        total: Tensor | None = None
        tangent: Tensor | None = None
        for t, dt, up, down in zip(times, rates, self.up, self.down, strict=True):
            c, dc = down(*silu(*up(*time_features(t, dt))))
            if not self.sum_first:
                c, dc = silu(c, dc)
            if t.dim() == 1:
                c, dc = c[:, None], None if dc is None else dc[:, None]
            total = c if total is None else total + c
            if dc is not None:
                tangent = dc if tangent is None else tangent + dc
        assert total is not None
        return silu(total, tangent) if self.sum_first else (total, tangent)
