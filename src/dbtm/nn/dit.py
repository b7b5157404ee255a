"""The DiT trunk (app:general-exp-details): adaLN from a learned constant, since the map knows no time."""

import torch
from torch import Tensor, nn

from dbtm.nn.delta import DeltaMixer
from dbtm.nn.layers import Attention, Dropout, Dual, FeedForward, LayerNorm, Linear


def modulate(normed: Dual, shift: Tensor, scale: Tensor, dtype: torch.dtype) -> Dual:
    """x (1 + scale) + shift and its tangent, handed on in the dtype of the matrix products."""
    x, dx = normed
    factor = 1 + scale.to(x.dtype)
    y = torch.addcmul(shift.to(x.dtype), x, factor).to(dtype)
    if dx is None:
        return y, None
    with torch.no_grad():
        return y, (dx * factor).to(dtype)


def add_gated(x: Tensor, dx: Tensor | None, gate: Tensor, branch: Dual) -> Dual:
    """The residual connection x + gate * branch; the residual stream keeps its own (wide) dtype."""
    y, dy = branch
    gate = gate.to(x.dtype)
    x = torch.addcmul(x, gate, y.to(x.dtype))
    if dx is None or dy is None:
        return x, None
    with torch.no_grad():
        return x, torch.addcmul(dx, gate, dy.to(dx.dtype))


class Block(nn.Module):
    """One transformer block: two residual branches, each shifted, scaled and gated by adaLN.

    The first is attention or, where its time has to be linear in the length, a delta-rule mixer.
    """

    def __init__(
        self, attention: Attention | DeltaMixer, width: int, ffn: int, cond_dim: int, dropout: float, gate_init: float
    ):
        super().__init__()
        self.norm_1, self.norm_2 = LayerNorm(width), LayerNorm(width)
        self.attention = attention
        self.feed_forward = FeedForward(width, ffn)
        self.modulation = nn.Linear(cond_dim, 6 * width, bias=False)  # of a constant: a bias would add nothing
        nn.init.zeros_(self.modulation.weight)
        self.dropout = Dropout(dropout)
        self.gate_init = gate_init

    def forward(self, x: Tensor, dx: Tensor | None, constant: Tensor, rotary, dtype: torch.dtype) -> Dual:
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = self.modulation(constant).chunk(6)
        h = modulate(self.norm_1(x, dx), shift_1, scale_1, dtype)
        x, dx = add_gated(x, dx, self.gate_init + gate_1, self.dropout(*self.attention(*h, rotary)))
        h = modulate(self.norm_2(x, dx), shift_2, scale_2, dtype)
        return add_gated(x, dx, self.gate_init + gate_2, self.dropout(*self.feed_forward(*h)))


class DiT(nn.Module):
    """`depth` blocks applied `loops` times (weight-tied depth), then a norm."""

    def __init__(
        self,
        width: int,
        depth: int,
        heads: int,
        ffn: int = 4,
        cond_dim: int = 128,
        dropout: float = 0.0,
        softcap: float = 0.0,
        gate_init: float = 0.0,
        loops: int = 1,
        mixers: tuple[str, ...] = (),
    ):
        """`mixers` names the blocks' mixers, attn or gdn; attention everywhere unless it is given."""
        super().__init__()
        self.loops = loops
        self.constant = nn.Parameter(torch.randn(cond_dim) * cond_dim**-0.5)
        self.blocks = nn.ModuleList(
            Block(
                DeltaMixer(width, heads) if mixer == "gdn" else Attention(width, heads, softcap),
                width,
                ffn,
                cond_dim,
                dropout,
                gate_init,
            )
            for mixer in mixers or ("attn",) * depth
        )
        self.norm = LayerNorm(width)

    def forward(self, x: Tensor, dx: Tensor | None, rotary, dtype: torch.dtype) -> Dual:
        for _ in range(self.loops):
            for block in self.blocks:
                x, dx = block(x, dx, self.constant, rotary, dtype)
        y, dy = self.norm(x, dx)
        return y.to(dtype), None if dy is None else dy.to(dtype)


class Head(Linear):
    """Trunk state to logits f, float32 or wider; starts at zero, so that T starts uniform."""

    def __init__(self, width: int, vocab: int):
        super().__init__(width, vocab, bias=True)
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor, dx: Tensor | None = None) -> Dual:  # type: ignore[override]
        wide = torch.promote_types(x.dtype, torch.float32)
        z, dz = super().forward(x, dx)
        return z.to(wide), None if dz is None else dz.to(wide)
