"""The DiT trunk (app:general-exp-details): adaLN from a learned constant or, if a method needs it, from times."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dbtm.kernels.product import product
from dbtm.nn.cache import Cache, LayerCache
from dbtm.nn.condition import TimeEmbedding
from dbtm.nn.delta import DeltaMixer
from dbtm.nn.layers import Affine, Attention, Dropout, Dual, FeedForward, LayerNorm, Linear


def add(x: Tensor, dx: Tensor | None, branch: Dual) -> Dual:
    """The residual connection; the residual stream keeps its (wide) dtype."""
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

    The first is attention or a delta-rule mixer, whose time is linear in the length. Without a time, the input of adaLN
    is a learned constant, and its shifts, scales and gates are folded into the adjacent matrices.
    """

    def __init__(
        self,
        attention: Attention | DeltaMixer,
        width: int,
        ffn: int,
        cond_dim: int,
        dropout: float,
        gate_init: float,
        timed: bool = False,
    ):
        super().__init__()
        self.norm_1, self.norm_2 = LayerNorm(width), LayerNorm(width)
        self.attention = attention
        self.feed_forward = FeedForward(width, ffn)
        self.modulation = nn.Linear(cond_dim, 6 * width, bias=timed)  # with a constant input, a bias is redundant
        nn.init.zeros_(self.modulation.weight)
        if timed:
            nn.init.zeros_(self.modulation.bias)
        self.dropout = Dropout(dropout)
        self.gate_init = gate_init
        self.folded_dtype: torch.dtype | None = None  # dtype of the folded matrices, see `keep_folded`

    def affines(self, constant: Tensor) -> tuple[Affine, Affine]:
        """Norm weight, scale, shift and gate of both branches, from a learned constant (C,)."""
        modulation = self.modulation(constant)
        modulation = modulation.to(torch.promote_types(modulation.dtype, torch.float32))
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = modulation.chunk(6)
        return (
            Affine(self.norm_1.weight * (1 + scale_1), shift_1, self.gate_init + gate_1),
            Affine(self.norm_2.weight * (1 + scale_2), shift_2, self.gate_init + gate_2),
        )

    def keep_folded(self, constant: Tensor, dtype: torch.dtype) -> None:
        """Fold the constants into the matrices, until the weights change."""
        first, second = self.affines(constant)
        self.attention.keep_folded(first, dtype)
        self.feed_forward.keep_folded(second, dtype)
        self.folded_dtype = dtype

    def forward(
        self,
        x: Tensor,
        dx: Tensor | None,
        constant: Tensor,
        rotary,
        dtype: torch.dtype,
        cache: LayerCache | None = None,
    ) -> Dual:
        first, second = (Affine(), Affine()) if self.folded_dtype == dtype else self.affines(constant)
        past = {} if cache is None else {"cache": cache}
        branch = self.attention(*narrow(self.norm_1.unit(x, dx), dtype), rotary, first, **past)
        x, dx = add(x, dx, self.dropout(*branch))
        branch = self.feed_forward(*narrow(self.norm_2.unit(x, dx), dtype), second)
        return add(x, dx, self.dropout(*branch))


class TimedBlock(Block):
    """A block whose adaLN reads a condition (B, 1, C) or (B, L, C): its shifts, scales and gates differ by sample or by
    token, so nothing is folded. The tangent may enter through the condition as well as through the state.
    """

    def forward(  # type: ignore[override]
        self, x: Tensor, dx: Tensor | None, condition: Dual, rotary, dtype: torch.dtype
    ) -> Dual:
        c, dc = condition
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = linear_dual(self.modulation, c, dc)
        h = modulate(self.norm_1.unit(x, dx), self.norm_1.weight, scale_1, shift_1)
        branch = gated(self.attention(*narrow(h, dtype), rotary), gate_1, self.gate_init)
        x, dx = add(x, dx, self.dropout(*branch))
        h = modulate(self.norm_2.unit(x, dx), self.norm_2.weight, scale_2, shift_2)
        branch = gated(self.feed_forward(*narrow(h, dtype)), gate_2, self.gate_init)
        return add(x, dx, self.dropout(*branch))


def linear_dual(layer: nn.Linear, c: Tensor, dc: Tensor | None, parts: int = 6) -> list[Dual]:
    """The parts of a linear layer's output, each with its tangent, in float32 or wider."""
    wide = torch.promote_types(c.dtype, torch.float32)
    values = layer(c).to(wide).chunk(parts, -1)
    if dc is None:
        return [(value, None) for value in values]
    with torch.no_grad():
        tangents = F.linear(dc, layer.weight).to(wide).chunk(parts, -1)
    return list(zip(values, tangents, strict=True))


def modulate(u: Dual, weight: Tensor, scale: Dual, shift: Dual) -> Dual:
    """w (1 + scale) u + shift and its tangent."""
    (x, dx), (s, ds), (b, db) = u, scale, shift
    y = weight * (1 + s) * x + b
    if dx is None and ds is None:
        return y, None
    with torch.no_grad():
        dy = torch.zeros_like(y)
        if dx is not None:
            dy = dy + weight * (1 + s) * dx
        if ds is not None and db is not None:
            dy = dy + weight * ds * x + db
        return y, dy


def gated(branch: Dual, gate: Dual, gate_init: float) -> Dual:
    """(gate_init + gate) y and its tangent."""
    (y, dy), (g, dg) = branch, gate
    g = gate_init + g
    if dy is None:
        return g * y, None
    with torch.no_grad():
        return g * y, g * dy + (0 if dg is None else dg * y)


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
        conv_width: int = 0,
        causal: bool = False,
        times: int = 0,
        sum_first: bool = False,
    ):
        """`mixers` names the blocks' mixers, attn or gdn; default: attention in all blocks."""
        super().__init__()
        self.loops, self.times = loops, times
        self.recompute = False  # keep only the blocks' inputs for the backward pass
        kind = TimedBlock if times else Block
        if not times:
            self.constant = nn.Parameter(torch.randn(cond_dim) * cond_dim**-0.5)
        self.blocks = nn.ModuleList(
            kind(
                DeltaMixer(width, heads) if mixer == "gdn" else Attention(width, heads, softcap, conv_width, causal),
                width,
                ffn,
                cond_dim,
                dropout,
                gate_init,
                bool(times),
            )
            for mixer in mixers or ("attn",) * depth
        )
        self.norm = LayerNorm(width)
        if times:
            self.time = TimeEmbedding(cond_dim, times, sum_first)
            self.modulation = nn.Linear(cond_dim, 2 * width)
            nn.init.zeros_(self.modulation.weight)
            nn.init.zeros_(self.modulation.bias)

    def keep_folded(self, dtype: torch.dtype) -> None:
        """Fold constants; only a network without times has some."""
        for block in self.blocks:
            if isinstance(block, Block) and not self.times:
                block.keep_folded(self.constant, dtype)

    def forward(
        self,
        x: Tensor,
        dx: Tensor | None,
        rotary,
        dtype: torch.dtype,
        condition: Dual | None = None,
        cache: Cache | None = None,
        loops: int | None = None,
    ) -> Dual:
        """`condition`: the output of `time`, if the network has time inputs; `loops`: overrides the number of loops."""
        if condition is not None:
            return self.timed_forward(x, dx, rotary, dtype, condition)
        for loop in range(self.loops if loops is None else loops):
            for number, block in enumerate(self.blocks):
                past = {} if cache is None else {"cache": cache.layer(loop * len(self.blocks) + number)}
                x, dx = self.run(block, x, dx, self.constant, rotary, dtype, **past)
        y, dy = self.norm(x, dx)
        return y.to(dtype), None if dy is None else dy.to(dtype)

    def run(self, block: nn.Module, x: Tensor, *others: Any, **past: Any) -> Dual:
        """One block; with `recompute`, computed again in the backward pass, with the same dropout."""
        if self.recompute and torch.is_grad_enabled():
            # FSDP2 passes a block the parameter itself in only one of the two passes: compiled, they would differ
            plain = (other.view_as(other) if isinstance(other, nn.Parameter) else other for other in others)
            return checkpoint(block, x, *plain, use_reentrant=False, **past)
        return block(x, *others, **past)

    def timed_forward(self, x: Tensor, dx: Tensor | None, rotary, dtype: torch.dtype, condition: Dual) -> Dual:
        if dx is None and condition[1] is not None:
            dx = torch.zeros_like(x)  # the tangent enters only through the condition
        for _ in range(self.loops):
            for block in self.blocks:
                x, dx = self.run(block, x, dx, condition, rotary, dtype)
        shift, scale = linear_dual(self.modulation, *condition, parts=2)
        return narrow(modulate(self.norm.unit(x, dx), self.norm.weight, scale, shift), dtype)


class Head(Linear):
    """Trunk state to logits f, float32 or wider; starts at zero, so that T starts uniform."""

    def __init__(self, width: int, vocab: int):
        super().__init__(width, vocab, bias=True)
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor, dx: Tensor | None = None) -> Dual:  # type: ignore[override]
        wide = torch.promote_types(x.dtype, torch.float32)
        if not torch.is_grad_enabled() and dx is None:  # as in the losses: sums are not rounded to x's dtype
            z = product(x.flatten(0, -2), self.weight.to(x.dtype).T) + self.bias.to(wide)
            return z.unflatten(0, x.shape[:-1]), None
        z, dz = super().forward(x, dx)
        return z.to(wide), None if dz is None else dz.to(wide)
