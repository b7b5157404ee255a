"""Layers that carry a tangent.

Every layer maps (x, dx) to (y, dy): the value under autograd, and the tangent dy = J(x) dx under no_grad from detached
intermediates and the same dropout mask; dx = None: compute no tangent. The transport target is inside a stop-gradient
(loss:transport), so a tangent is never differentiated: it costs a forward pass, not a backward one. Weights are cast to
the dtype of the activations; norms are computed in float32 or wider.
"""

import math
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dbtm.core.device import wide_device
from dbtm.kernels.causal import causal_attention
from dbtm.kernels.dispatch import attention
from dbtm.nn.cache import LayerCache

Dual = tuple[Tensor, Tensor | None]


class Affine(NamedTuple):
    """adaLN's constants around a residual branch: y = gate * branch(scale * x + shift), one value per channel each.

    Constants next to a matrix are folded into it. This saves the products with them and, in the backward pass, the sums
    of their gradients over all tokens: the gradients follow from the matrix's gradient.
    """

    scale: Tensor | None = None
    shift: Tensor | None = None
    gate: Tensor | None = None


class Linear(nn.Linear):
    """y = W x + b, dy = W dx, in the dtype of x."""

    def __init__(self, n_in: int, n_out: int, bias: bool = False, gain: float = 1.0):
        super().__init__(n_in, n_out, bias)
        nn.init.normal_(self.weight, std=gain * n_in**-0.5)
        if bias:
            nn.init.zeros_(self.bias)
        self.kept: tuple[Tensor, Tensor | None] | None = None  # the folded matrix and bias of `keep_folded`

    def folded(self, affine: Affine, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """Matrix and bias of gate * (W (scale * x + shift) + b)."""
        wide = torch.promote_types(self.weight.dtype, torch.float32)
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        if any(constant is not None for constant in affine):  # rounded once, at the end
            weight, bias = weight.to(wide), None if bias is None else bias.to(wide)
        if affine.shift is not None:
            bias = F.linear(affine.shift.to(wide), weight, bias)
        if affine.scale is not None:
            weight = weight * affine.scale
        if affine.gate is not None:
            weight = weight * affine.gate[:, None]
            bias = None if bias is None else bias * affine.gate
        return weight.to(dtype), None if bias is None else bias.to(dtype)

    def keep_folded(self, affine: Affine, dtype: torch.dtype) -> None:
        """Store the folded matrix for later passes: for weights that are no longer trained."""
        self.kept = self.folded(affine, dtype)

    def matrices(self, affine: Affine, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """Matrix and bias of a pass: stored by `keep_folded`, or folded now."""
        if self.kept is not None and self.kept[0].dtype == dtype and all(c is None for c in affine):
            return self.kept
        return self.folded(affine, dtype)

    def forward(self, x: Tensor, dx: Tensor | None = None, affine: Affine = Affine()) -> Dual:  # type: ignore[override]
        weight, bias = self.matrices(affine, x.dtype)
        y = F.linear(x, weight, bias)
        if dx is None:
            return y, None
        with torch.no_grad():
            return y, F.linear(dx, weight)


class LayerNorm(nn.Module):
    """y = w u with u = (x - mean) / std in float32 or wider; du = (dx - mean(dx) - u mean(u dx)) / std."""

    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def unit(self, x: Tensor, dx: Tensor | None = None) -> Dual:
        """u and du, without the weight, which is folded into the next matrix."""
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        u = F.layer_norm(x, (x.shape[-1],), None, None, self.eps)
        if dx is None:
            return u, None
        with torch.no_grad():
            dx = dx.to(x.dtype)
            inverse_std = torch.rsqrt(torch.var(x, -1, correction=0, keepdim=True) + self.eps)
            return u, (dx - dx.mean(-1, keepdim=True) - u * (u * dx).mean(-1, keepdim=True)) * inverse_std

    def forward(self, x: Tensor, dx: Tensor | None = None) -> Dual:
        u, du = self.unit(x, dx)
        if du is None:
            return u * self.weight, None
        with torch.no_grad():
            du = du * self.weight
        return u * self.weight, du


def rms_norm(x: Tensor, dx: Tensor | None = None, eps: float = 1e-6) -> Dual:
    """y = x / rms(x), dy = (dx - y mean(y dx)) / rms(x): no parameters, float32 or wider."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    y = F.rms_norm(x, (x.shape[-1],), None, eps)
    if dx is None:
        return y, None
    with torch.no_grad():
        dx = dx.to(x.dtype)
        inverse_rms = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        unit = x * inverse_rms
        return y, (dx - unit * (unit * dx).mean(-1, keepdim=True)) * inverse_rms


def gelu(x: Tensor, dx: Tensor | None = None) -> Dual:
    """GELU in its tanh form, and its derivative times dx."""
    y = F.gelu(x, approximate="tanh")
    if dx is None:
        return y, None
    with torch.no_grad():
        x, dtype = x.to(torch.promote_types(x.dtype, torch.float32)), x.dtype
        c = math.sqrt(2 / math.pi)
        tanh = torch.tanh(c * (x + 0.044715 * x**3))
        slope = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * c * (1 + 3 * 0.044715 * x**2)
        return y, (slope * dx).to(dtype)


def gelu_joins_products(x: Tensor) -> bool:
    """Whether a matrix product can be fused with the GELU: sampling in bfloat16 on a CPU with bfloat16 products.

    PyTorch's separate GELU takes as long as the product there. The operator is the one used by PyTorch's compiler.
    """
    plain = x.device.type != "cpu" or x.dtype != torch.bfloat16 or torch.is_grad_enabled()
    return not plain and not torch.compiler.is_compiling() and _has_joint_gelu()


@cache
def _has_joint_gelu() -> bool:
    return hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.ops.mkldnn._is_mkldnn_bf16_supported()


class Dropout(nn.Module):
    """Inverted dropout with one mask for value and tangent."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor, dx: Tensor | None = None) -> Dual:
        if not self.training or self.p == 0:
            return x, dx
        mask = (torch.rand_like(x, dtype=torch.float32) >= self.p).to(x.dtype) / (1 - self.p)
        y = x * mask
        if dx is None:
            return y, None
        with torch.no_grad():
            return y, dx * mask


def rotary_angles(length: int, head_dim: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin of the rotary position embedding, (L, head_dim / 2); the angles are computed in float64 if the device
    supports it.
    """
    at = wide_device(device)
    frequency = 10000.0 ** (-torch.arange(0, head_dim, 2, device=at, dtype=torch.float64) / head_dim)
    angle = torch.arange(length, device=at, dtype=torch.float64)[:, None] * frequency
    return angle.cos().to(dtype).to(device), angle.sin().to(dtype).to(device)


def rotate(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding of x (..., L, head_dim): linear, so it applies to value and tangent alike."""
    cos, sin = rotary
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


class ShortConvolution(nn.Module):
    """A filter of a few taps along the sequence, per channel: linear, so it applies to value and tangent alike.

    Initialized to noise plus `own` at the position itself: the middle tap, or the last one if causal.
    """

    def __init__(self, channels: int, taps: int, noise: float, own: float = 0.0, causal: bool = False):
        super().__init__()
        self.before = taps - 1 if causal else taps // 2  # positions on the left that it reads
        weight = torch.randn(taps, 1, channels) * noise
        weight[self.before] += own
        self.weight = nn.Parameter(weight)

    def filter(self, x: Tensor) -> Tensor:
        taps = len(self.weight)
        return self.slide(F.pad(x, (0, 0, self.before, taps - 1 - self.before)), x.shape[1])

    def slide(self, padded: Tensor, length: int) -> Tensor:
        """The filter over `length` positions of an input padded with their neighbours at both ends."""
        weight = self.weight.to(padded.dtype)
        y = padded[:, :length] * weight[0]
        for tap in range(1, len(weight)):
            y = torch.addcmul(y, padded[:, tap : tap + length], weight[tap])
        return y

    def filter_next(self, x: Tensor, cache: LayerCache) -> Tensor:
        """The causal filter of the next positions, after the cached ones."""
        before = x.new_zeros(len(x), self.before, x.shape[-1]) if cache.tail is None else cache.tail
        padded = torch.cat((before, x), 1)
        cache.tail = padded[:, padded.shape[1] - self.before :]
        return self.slide(padded, x.shape[1])

    def forward(self, x: Tensor, dx: Tensor | None = None) -> Dual:
        y = self.filter(x)
        if dx is None:
            return y, None
        with torch.no_grad():
            return y, self.filter(dx)


class Attention(nn.Module):
    """Multi-head self-attention with rotary positions and an optional tanh softcap on its logits.

    With a `conv_width`, queries, keys and values also read their neighbours through a short convolution: they know
    their neighbours in the same layer, without an earlier layer that gathers them. Causal attention reads no later
    position, has no tangent, and may read earlier positions from a cache.
    """

    def __init__(self, width: int, heads: int, softcap: float = 0.0, conv_width: int = 0, causal: bool = False):
        super().__init__()
        self.heads, self.softcap, self.causal = heads, softcap, causal
        self.qkv = Linear(width, 3 * width)
        self.convolution = ShortConvolution(3 * width, conv_width, 0.2, own=1.0, causal=causal) if conv_width else None
        self.out = Linear(width, width, gain=0.1)  # small: a block starts near the identity

    def heads_of(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor, Tensor]:
        """Split the joint projection into q, k, v of shape (B, H, L, d), rotating q and k."""
        qkv = x.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = qkv[:2] if rotary is None else rotate(qkv[:2], rotary)
        return q, k, qkv[2]

    def keep_folded(self, affine: Affine, dtype: torch.dtype) -> None:
        self.qkv.keep_folded(affine._replace(gate=None), dtype)
        self.out.keep_folded(Affine(gate=affine.gate), dtype)

    def forward(
        self,
        x: Tensor,
        dx: Tensor | None = None,
        rotary: tuple[Tensor, Tensor] | None = None,
        affine: Affine = Affine(),
        cache: LayerCache | None = None,
    ) -> Dual:
        if self.causal:
            return self.causal_forward(x, dx, rotary, affine, cache)
        qkv, dqkv = self.qkv(x, dx, affine._replace(gate=None))
        if self.convolution is not None:
            qkv, dqkv = self.convolution(qkv, dqkv)
        tangents = None
        if dqkv is not None:
            with torch.no_grad():
                tangents = self.heads_of(dqkv, rotary)
        o, do = attention(*self.heads_of(qkv, rotary), tangents, self.softcap)
        do = None if do is None else do.transpose(1, 2).flatten(2)
        return self.out(o.transpose(1, 2).flatten(2), do, Affine(gate=affine.gate))

    def causal_forward(
        self,
        x: Tensor,
        dx: Tensor | None,
        rotary: tuple[Tensor, Tensor] | None,
        affine: Affine,
        cache: LayerCache | None,
    ) -> Dual:
        if dx is not None:
            raise ValueError("causal attention has no tangent")
        qkv, _ = self.qkv(x, None, affine._replace(gate=None))
        if self.convolution is not None:
            qkv = self.convolution.filter(qkv) if cache is None else self.convolution.filter_next(qkv, cache)
        q, k, v = self.heads_of(qkv, rotary)
        k, v = (k, v) if cache is None else cache.extend(k, v)
        o = causal_attention(q, k, v, self.softcap)
        return self.out(o.transpose(1, 2).flatten(2), None, Affine(gate=affine.gate))


class FeedForward(nn.Module):
    """Linear, GELU, Linear, with hidden width `factor` times the width."""

    def __init__(self, width: int, factor: int, bias: bool = True):
        super().__init__()
        self.up = Linear(width, factor * width, bias)
        self.down = Linear(factor * width, width, bias, gain=0.1)

    def keep_folded(self, affine: Affine, dtype: torch.dtype) -> None:
        self.up.keep_folded(affine._replace(gate=None), dtype)
        self.down.keep_folded(Affine(gate=affine.gate), dtype)

    def forward(self, x: Tensor, dx: Tensor | None = None, affine: Affine = Affine()) -> Dual:
        before, after = affine._replace(gate=None), Affine(gate=affine.gate)
        if dx is None and gelu_joins_products(x):
            h = torch.ops.mkldnn._linear_pointwise(x, *self.up.matrices(before, x.dtype), "gelu", [], "tanh")
            return self.down(h, None, after)
        return self.down(*gelu(*self.up(x, dx, before)), after)
