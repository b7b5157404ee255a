"""Linear attention with a tangent: a bidirectional gated delta-rule mixer (app:language-exp-details)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dbtm.kernels.delta import Pair, gated_delta
from dbtm.nn.layers import Affine, Dual, Linear, ShortConvolution, rms_norm

TAPS = 4  # width of the short convolutions: two positions before, the position itself, one after


def silu(x: Tensor, dx: Tensor | None = None) -> Dual:
    """x sigma(x) and its derivative times dx."""
    y = F.silu(x)
    if dx is None:
        return y, None
    with torch.no_grad():
        x, dtype = x.to(torch.promote_types(x.dtype, torch.float32)), x.dtype
        sigma = x.sigmoid()
        return y, (sigma * (1 + x * (1 - sigma)) * dx).to(dtype)


def unit(x: Tensor, dx: Tensor | None = None, which: Tensor | None = None, eps: float = 1e-6) -> Dual:
    """y = x / |x|, dy = (dx - y (y . dx)) / |x| over the last axis, computed in float32 or wider; x and dx unchanged
    where `which` is given and false.
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    inverse_norm = torch.rsqrt(wide.square().sum(-1, keepdim=True) + eps)
    if which is not None:
        inverse_norm = torch.where(which, inverse_norm, 1.0)
    wide = wide * inverse_norm
    y = wide.to(x.dtype)
    if dx is None:
        return y, None
    with torch.no_grad():
        dx = dx.to(wide.dtype)
        along = (wide * dx).sum(-1, keepdim=True)
        along = along if which is None else torch.where(which, along, 0.0)
        return y, ((dx - wide * along) * inverse_norm).to(x.dtype)


class DeltaMixer(nn.Module):
    """The gated delta rule over the sequence in both directions, in place of attention.

    Width, heads and head width are attention's. Queries, keys and values have the full width and go through short
    convolutions; there is a full output gate, and two scalar gates per head, computed from the input:

        g = -e^a softplus(w_g x + b)        beta = sigma(w_beta x)        y = W_o (sum of RMS norms of o) silu(W_z x)

    This layout has 617,624 parameters more than attention at width 768, 5.56M in nine blocks; the paper's counts,
    177.5M and 171.9M, differ by 5.6M. (With our 171.6M for attention the total is 177.2M.) So both directions share
    their weights. If they shared all of them, the layer could not tell left from right: scanning backwards would equal
    scanning forwards. So the convolutions run from left to right for both directions, and each direction has its own
    scale after its norm.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = Linear(width, 3 * width)
        self.convolution = ShortConvolution(3 * width, TAPS, TAPS**-0.5)
        self.gate = Linear(width, width)
        self.rates = Linear(width, 2 * heads)
        step = torch.exp(torch.empty(heads).uniform_(-7.0, -2.3))  # decay rates from 0.001 to 16 x 0.1
        self.decay_bias = nn.Parameter(step.expm1().log())  # softplus^-1(step)
        self.decay_scale = nn.Parameter(torch.empty(heads).uniform_(1.0, 16.0).log())
        self.scale = nn.Parameter(torch.ones(2, width // heads))
        self.out = Linear(width, width, gain=0.1)  # small: a block starts near the identity

    def keep_folded(self, affine: Affine, dtype: torch.dtype) -> None:
        before = affine._replace(gate=None)
        for linear in (self.qkv, self.gate):
            linear.keep_folded(before, dtype)
        self.rates.keep_folded(before, torch.promote_types(dtype, torch.float32))
        self.out.keep_folded(Affine(gate=affine.gate), dtype)

    def gates(self, x: Tensor, dx: Tensor | None, before: Affine = Affine()) -> tuple[Pair, Pair | None]:
        """Log decay g and write gate beta, (B, H, L), in float32 or wider, and their tangents."""
        wide = torch.promote_types(x.dtype, torch.float32)
        rates, drates = self.rates(x.to(wide), None if dx is None else dx.to(wide), before)
        a, b = rates.transpose(1, 2).contiguous().chunk(2, 1)
        a, scale = a + self.decay_bias[:, None], self.decay_scale.to(wide).exp()[:, None]
        g, beta = scale * F.logsigmoid(-a), b.sigmoid()  # log sigma(-a) = -softplus(a)
        if drates is None:
            return (g, beta), None
        with torch.no_grad():
            da, db = drates.transpose(1, 2).contiguous().chunk(2, 1)
            return (g, beta), (-scale * a.sigmoid() * da, beta * (1 - beta) * db)

    def heads_of(self, x: Tensor, dx: Tensor | None, before: Affine = Affine()) -> Dual:
        """q, k, v as (3, B, H, L, d), q and k of norm 1, and their tangents; both are stored as (B, L, 3, H, d)."""
        x, dx = silu(*self.convolution(*self.qkv(x, dx, before)))
        heads = (3, self.heads, x.shape[-1] // (3 * self.heads))
        q_and_k = (torch.arange(3, device=x.device) < 2)[:, None, None]
        x, dx = unit(x.unflatten(-1, heads), None if dx is None else dx.unflatten(-1, heads), q_and_k)
        order = (2, 0, 3, 1, 4)
        return x.permute(order), None if dx is None else dx.permute(order)

    def forward(self, x: Tensor, dx: Tensor | None = None, rotary: object = None, affine: Affine = Affine()) -> Dual:
        """Positions come from the order of the scan: the rotary angles of attention are not used."""
        before, after = affine._replace(gate=None), Affine(gate=affine.gate)
        qkv, dqkv = self.heads_of(x, dx, before)
        gates, dgates = self.gates(x, dx, before)
        tangents = None if dqkv is None or dgates is None else (dqkv, dgates)
        o, do = gated_delta(qkv, gates, tangents, directions=(False, True))
        z, dz = silu(*self.gate(x, dx, before))
        n, dn = rms_norm(o, do, eps=1e-3)  # o is near zero at the start of a scan: a smaller eps amplifies rounding
        y = self.merge(n).to(z.dtype)
        if dn is None or dz is None:
            return self.out(y * z, None, after)
        with torch.no_grad():
            dy = self.merge(dn).to(z.dtype) * z + y * dz
        return self.out(y * z, dy, after)

    def merge(self, n: Tensor) -> Tensor:
        """Scale both directions' (2, B, H, L, d) and add them into (B, L, D)."""
        return (n * self.scale[:, None, None, None]).sum(0).transpose(1, 2).flatten(2)
