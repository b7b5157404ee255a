"""The Lagrangian residual of a flow map, in chunks of rows, with gradients through a derivative.

For every row n with trunk state h, its derivative dh with respect to the end time t, f = W h + b, df = W dh,
D = softmax f, dD = D (df - <D, df>), and a distribution P_n,

    R = D + c dD - P                  loss = sum_n beta_n |R|^2

R is (1 - t) dX/dt + X - P for the map X = x + (t - s) / (1 - s) (D - x), c = (1 - t) (t - s) / (1 - s): the noise x
cancels, so no dense state is needed. The gradient flows only through dX/dt, that is through c dD and through the share
a = (1 - t) / (1 - s) of D; the rest of D belongs to X, which is a constant. With q = 2 beta R,

    d loss / d df = c D (q - <D, q>)
    d loss / d f  = a D (q - <D, q>) + c D [q df - <D, q df> - (q - <D, q>) <D, df> - <D, q> (df - <D, df>)]
"""

import torch
from torch import Tensor, nn

from dbtm.kernels.product import product
from dbtm.losses.head import rows_per_chunk
from dbtm.losses.soft_head import Target, capped


def lagrangian_head(
    h: Tensor,
    dh: Tensor,
    head: nn.Linear,
    target: Target,
    s: Tensor,
    t: Tensor,
    beta: Tensor,
    rows: Tensor,
    cap: float = 0.0,
    budget: int | None = None,
) -> tuple[Tensor, Tensor]:
    """(sum_n beta_n |R_n|^2 under autograd, |R|^2 (N,) as a constant) over `rows` of h, dh (N, D); s, t, beta (N,)."""
    loss, per_row = _LagrangianHead.apply(h, dh, head.weight, head.bias, target, s, t, beta, rows, cap, budget)
    return loss, per_row


class _LagrangianHead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, dh, weight, bias, target: Target, s, t, beta, rows, cap, budget):
        wide = torch.promote_types(h.dtype, torch.float32)
        W, b = weight.to(h.dtype), bias.to(wide)
        kept = (1 - t) / (1 - s)
        through, moved = (x.to(wide)[:, None] for x in (kept, (1 - t) * (1 - kept)))
        beta, per_row = beta.to(wide), h.new_zeros(len(h), dtype=wide)
        grads = [torch.zeros_like(x, dtype=wide) for x in (h, dh, weight, bias)]
        for index in rows.split(rows_per_chunk(len(W), h.dtype, True, budget)) if len(rows) else ():
            h_n, dh_n, a, c = h[index], dh[index], through[index], moved[index]
            f, df = capped(product(h_n, W.T) + b, cap), product(dh_n, W.T)
            if cap:
                slope = 1 - (f / cap).square()
                raw, df = df, slope * df
            D = f.softmax(-1)
            mean = (D * df).sum(-1, keepdim=True)
            R = D + c * D * (df - mean) - target(index)
            per_row[index] = R.square().sum(-1)
            q = 2 * beta[index, None] * R
            mean_q = (D * q).sum(-1, keepdim=True)
            centred = D * (q - mean_q)
            crossed = D * (q * df) - D * (D * q * df).sum(-1, keepdim=True)
            g_df = c * centred
            g_f = a * centred + c * (crossed - centred * mean - mean_q * D * (df - mean))
            if cap:  # f = cap tanh(z / cap), df = slope dz: slope depends on z too
                g_f = slope * g_f - g_df * raw * (2 / cap) * (f / cap) * slope
                g_df = slope * g_df
            g, dg = g_f.to(h.dtype), g_df.to(h.dtype)
            grads[0][index], grads[1][index] = product(g, W), product(dg, W)
            grads[2] += product(g.T, h_n) + product(dg.T, dh_n)
            grads[3] += g_f.sum(0)
        ctx.save_for_backward(*grads)
        ctx.dtypes = (h.dtype, dh.dtype, weight.dtype, bias.dtype)
        ctx.mark_non_differentiable(per_row)
        return (beta * per_row).sum(), per_row

    @staticmethod
    def backward(ctx, g_loss, _):
        grads = ((g_loss * x).to(dtype) for x, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True))
        return *grads, None, None, None, None, None, None, None
