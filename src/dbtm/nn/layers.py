"""Layers that carry a tangent.

Every layer maps (x, dx) to (y, dy): the value under autograd, and the tangent dy = J(x) dx under no_grad from detached
intermediates and the same dropout mask; dx = None means no tangent is wanted. The transport target stands inside a
stop-gradient (loss:transport), so a tangent is never differentiated: it costs a forward pass, not a backward one.
Weights are used in the dtype of the activations, whatever they are kept in; norms are computed in float32 or wider.
"""

import math
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dbtm.kernels.dispatch import attention

Dual = tuple[Tensor, Tensor | None]


class Around(NamedTuple):
    """What stands around a residual branch: y = gate * branch(scale * x + shift), each a constant for every channel.

    Constants next to a matrix are folded into it. Then neither the products with them nor, in the backward pass, their
    gradients' sums over all tokens exist; the gradients come out of the matrix's.
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
        self.fixed: tuple[Tensor, Tensor | None] | None = None  # what `fix` has folded

    def folded(self, around: Around, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """Matrix and bias of gate * (W (scale * x + shift) + b)."""
        wide = torch.promote_types(self.weight.dtype, torch.float32)
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        if any(constant is not None for constant in around):  # rounded once, at the end
            weight, bias = weight.to(wide), None if bias is None else bias.to(wide)
        if around.shift is not None:
            bias = F.linear(around.shift.to(wide), weight, bias)
        if around.scale is not None:
            weight = weight * around.scale
        if around.gate is not None:
            weight = weight * around.gate[:, None]
            bias = None if bias is None else bias * around.gate
        return weight.to(dtype), None if bias is None else bias.to(dtype)

    def fix(self, around: Around, dtype: torch.dtype) -> None:
        """Keep the folded matrix from now on: for weights that are not trained any more."""
        self.fixed = self.folded(around, dtype)

    def used(self, around: Around, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """Matrix and bias of a pass: those of `fix`, or folded now."""
        if self.fixed is not None and self.fixed[0].dtype == dtype and all(c is None for c in around):
            return self.fixed
        return self.folded(around, dtype)

    def forward(self, x: Tensor, dx: Tensor | None = None, around: Around = Around()) -> Dual:  # type: ignore[override]
        weight, bias = self.used(around, x.dtype)
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
        """u and du: the weight is left to the matrix that follows."""
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
    """Whether a matrix product can apply the GELU as it writes its result: sampling in bfloat16 on a CPU that has it.

    PyTorch's own GELU takes as long as the product there. The operator is the one that its compiler uses.
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
    """cos and sin of the rotary position embedding, (L, head_dim / 2); the angles are computed in float64."""
    frequency = 10000.0 ** (-torch.arange(0, head_dim, 2, device=device, dtype=torch.float64) / head_dim)
    angle = torch.arange(length, device=device, dtype=torch.float64)[:, None] * frequency
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding of x (..., L, head_dim): linear, so it serves value and tangent alike."""
    cos, sin = rotary
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


class ShortConvolution(nn.Module):
    """A filter of a few taps along the sequence for each channel: linear, so it serves value and tangent alike.

    It starts as noise around `own` times the position itself, the tap number taps // 2.
    """

    def __init__(self, channels: int, taps: int, noise: float, own: float = 0.0):
        super().__init__()
        weight = torch.randn(taps, 1, channels) * noise
        weight[taps // 2] += own
        self.weight = nn.Parameter(weight)

    def filter(self, x: Tensor) -> Tensor:
        taps, length = len(self.weight), x.shape[1]
        padded, weight = F.pad(x, (0, 0, taps // 2, (taps - 1) // 2)), self.weight.to(x.dtype)
        y = padded[:, :length] * weight[0]
        for tap in range(1, taps):
            y = torch.addcmul(y, padded[:, tap : tap + length], weight[tap])
        return y

    def forward(self, x: Tensor, dx: Tensor | None = None) -> Dual:
        y = self.filter(x)
        if dx is None:
            return y, None
        with torch.no_grad():
            return y, self.filter(dx)


class Attention(nn.Module):
    """Bidirectional multi-head self-attention with rotary positions and an optional tanh softcap on its logits.

    With `taps`, queries, keys and values also see their neighbours, through a short convolution: what a token stands
    next to is then known in the same layer and need not be gathered in the one before.
    """

    def __init__(self, width: int, heads: int, softcap: float = 0.0, taps: int = 0):
        super().__init__()
        self.heads, self.softcap = heads, softcap
        self.qkv = Linear(width, 3 * width)
        self.convolution = ShortConvolution(3 * width, taps, 0.2, own=1.0) if taps else None
        self.out = Linear(width, width, gain=0.1)  # small: a block starts near the identity

    def heads_of(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor, Tensor]:
        """Split the joint projection into q, k, v of shape (B, H, L, d), rotating q and k."""
        qkv = x.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = qkv[:2] if rotary is None else rotate(qkv[:2], rotary)
        return q, k, qkv[2]

    def fix(self, around: Around, dtype: torch.dtype) -> None:
        self.qkv.fix(around._replace(gate=None), dtype)
        self.out.fix(Around(gate=around.gate), dtype)

    def forward(
        self,
        x: Tensor,
        dx: Tensor | None = None,
        rotary: tuple[Tensor, Tensor] | None = None,
        around: Around = Around(),
    ) -> Dual:
        qkv, dqkv = self.qkv(x, dx, around._replace(gate=None))
        if self.convolution is not None:
            qkv, dqkv = self.convolution(qkv, dqkv)
        tangents = None
        if dqkv is not None:
            with torch.no_grad():
                tangents = self.heads_of(dqkv, rotary)
        o, do = attention(*self.heads_of(qkv, rotary), tangents, self.softcap)
        do = None if do is None else do.transpose(1, 2).flatten(2)
        return self.out(o.transpose(1, 2).flatten(2), do, Around(gate=around.gate))


class FeedForward(nn.Module):
    """Linear, GELU, Linear, with hidden width `factor` times the width."""

    def __init__(self, width: int, factor: int, bias: bool = True):
        super().__init__()
        self.up = Linear(width, factor * width, bias)
        self.down = Linear(factor * width, width, bias, gain=0.1)

    def fix(self, around: Around, dtype: torch.dtype) -> None:
        self.up.fix(around._replace(gate=None), dtype)
        self.down.fix(Around(gate=around.gate), dtype)

    def forward(self, x: Tensor, dx: Tensor | None = None, around: Around = Around()) -> Dual:
        before, after = around._replace(gate=None), Around(gate=around.gate)
        if dx is None and gelu_joins_products(x):
            h = torch.ops.mkldnn._linear_pointwise(x, *self.up.used(before, x.dtype), "gelu", [], "tanh")
            return self.down(h, None, after)
        return self.down(*gelu(*self.up(x, dx, before)), after)
