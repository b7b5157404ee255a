"""The DiT trunk (app:general-exp-details): adaLN from a learned constant, since the map knows no time."""

import torch
from torch import Tensor, nn

from dbtm.kernels.product import product
from dbtm.nn.delta import DeltaMixer
from dbtm.nn.layers import Around, Attention, Dropout, Dual, FeedForward, LayerNorm, Linear


def add(x: Tensor, dx: Tensor | None, branch: Dual) -> Dual:
    """The residual connection; the stream keeps its own (wide) dtype."""
    y, dy = branch
    x = x + y
    if dx is None or dy is None:
        return x, None
    with torch.no_grad():
        return x, dx + dy


def narrow(pair: Dual, dtype: torch.dtype) -> Dual:
    """Value and tangent in the dtype of the matrix products."""
    x, dx = pair
    return x.to(dtype), None if dx is None else dx.to(dtype)


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
        self.fixed: torch.dtype | None = None  # that of the folded matrices, see `fix`

    def surroundings(self, constant: Tensor) -> tuple[Around, Around]:
        """Norm weight, scale, shift and gate of both branches: constants, since the map knows no time."""
        modulation = self.modulation(constant)
        modulation = modulation.to(torch.promote_types(modulation.dtype, torch.float32))
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = modulation.chunk(6)
        return (
            Around(self.norm_1.weight * (1 + scale_1), shift_1, self.gate_init + gate_1),
            Around(self.norm_2.weight * (1 + scale_2), shift_2, self.gate_init + gate_2),
        )

    def fix(self, constant: Tensor, dtype: torch.dtype) -> None:
        """Fold the surroundings into the matrices once and for all."""
        first, second = self.surroundings(constant)
        self.attention.fix(first, dtype)
        self.feed_forward.fix(second, dtype)
        self.fixed = dtype

    def forward(self, x: Tensor, dx: Tensor | None, constant: Tensor, rotary, dtype: torch.dtype) -> Dual:
        first, second = (Around(), Around()) if self.fixed == dtype else self.surroundings(constant)
        branch = self.attention(*narrow(self.norm_1.unit(x, dx), dtype), rotary, first)
        x, dx = add(x, dx, self.dropout(*branch))
        branch = self.feed_forward(*narrow(self.norm_2.unit(x, dx), dtype), second)
        return add(x, dx, self.dropout(*branch))


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
        taps: int = 0,
    ):
        """`mixers` names the blocks' mixers, attn or gdn; attention everywhere unless it is given."""
        super().__init__()
        self.loops = loops
        self.constant = nn.Parameter(torch.randn(cond_dim) * cond_dim**-0.5)
        self.blocks = nn.ModuleList(
            Block(
                DeltaMixer(width, heads) if mixer == "gdn" else Attention(width, heads, softcap, taps),
                width,
                ffn,
                cond_dim,
                dropout,
                gate_init,
            )
            for mixer in mixers or ("attn",) * depth
        )
        self.norm = LayerNorm(width)

    def fix(self, dtype: torch.dtype) -> None:
        for block in self.blocks:
            assert isinstance(block, Block)
            block.fix(self.constant, dtype)

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
        if not torch.is_grad_enabled() and dx is None:  # as the losses see them: sums are not rounded to x's dtype
            z = product(x.flatten(0, -2), self.weight.to(x.dtype).T) + self.bias.to(wide)
            return z.unflatten(0, x.shape[:-1]), None
        z, dz = super().forward(x, dx)
        return z.to(wide), None if dz is None else dz.to(wide)
