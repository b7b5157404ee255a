"""Any loss of a row's logits, in chunks of rows: the logits of all rows never exist at once.

For every row n, with f_n = W h_n + b,

    loss = sum_n beta_n l(f_n, n)

As in `losses.head`, the gradient of f is computed in the forward pass, here by autograd within the chunk, and
multiplied into the gradients of h, W and b immediately.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dbtm.kernels.product import product
from dbtm.losses.head import rows_per_chunk
from dbtm.losses.soft_head import aligned

RowLoss = Callable[[Tensor, Tensor], Tensor]
"""From the logits (n, V) and indices (n,) of some rows to a loss for each, (n,)."""


def chunked_rows(
    h: Tensor, head: nn.Linear, row_loss: RowLoss, beta: Tensor, rows: Tensor, budget: int | None = None
) -> tuple[Tensor, Tensor]:
    """(sum_n beta_n l_n under autograd, l (N,) as a constant) over `rows` of h (N, D), which must include all rows with
    a nonzero weight; 0 elsewhere. Other inputs of `row_loss` besides the logits are constants.
    """
    loss, per_row = _Rows.apply(h, head.weight, head.bias, row_loss, beta, rows, budget)
    return loss, per_row


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, weight, bias, row_loss: RowLoss, beta, rows, budget):
        wide = torch.promote_types(h.dtype, torch.float32)
        V, W, b, beta = len(weight), aligned(weight, h.dtype), bias.to(wide), beta.to(wide)
        per_row = h.new_zeros(len(h), dtype=wide)
        grads = [torch.zeros_like(x, dtype=t) for x, t in ((h, h.dtype), (weight, wide), (bias, wide))]
        for index in rows.split(rows_per_chunk(len(W), h.dtype, True, budget)) if len(rows) else ():
            h_n = h[index]
            f = (product(h_n, W.T)[:, :V] + b).requires_grad_()
            with torch.enable_grad():
                l = row_loss(f, index)
                (gradient,) = torch.autograd.grad(l, f, beta[index].to(l.dtype))
            per_row[index] = l.detach().to(wide)
            g = torch.nn.functional.pad(gradient.to(h.dtype), (0, len(W) - V))
            grads[0][index] = product(g, W).to(h.dtype)
            grads[1] += product(g.T, h_n)[:V]
            grads[2] += gradient.sum(0, dtype=wide)
        ctx.save_for_backward(*grads)
        ctx.dtypes = (h.dtype, weight.dtype, bias.dtype)
        ctx.mark_non_differentiable(per_row)
        return (beta * per_row).sum(), per_row

    @staticmethod
    def backward(ctx, g_loss, _):
        grads = ((g_loss * x).to(t) for x, t in zip(ctx.saved_tensors, ctx.dtypes, strict=True))
        return *grads, None, None, None, None
