"""The head with soft targets in chunks of rows: the logits of student and teacher never exist for all rows at once.

For every row n, with f = W h + b of the student and a distribution P_n that is computed per chunk,

    loss = sum_n beta_n CE(softmax f, P)          d loss / d f_n = beta_n (softmax f - P)

With a cap c, f = c tanh((W h + b) / c) and its gradient has the factor 1 - (f / c)^2. The returned value per row is the
cross-entropy or, for `divergence`, KL(P, softmax f). If `adaptive` = (c, r) is given, both are multiplied by
sg[(|softmax f - P|^2 + c)^-r]. As in `losses.head`, the gradient is computed in the forward pass.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dbtm.kernels.noise import ALIGN
from dbtm.kernels.product import product
from dbtm.losses.adaptive import adaptive_weight
from dbtm.losses.head import rows_per_chunk

Target = Callable[[Tensor], Tensor]  # from indices of rows (n,) to their distributions (n, V), float32 or wider


@dataclass(frozen=True)
class SoftTarget:
    """The teacher's target per row: its last trunk state, and the tokens it committed earlier.

    P is softmax(f' / temperature) of its logits f', or the vertex of a token (loss:soft-ril-c, loss:soft-ril-nc).
    """

    trunk: Tensor  # (N, D)
    tokens: Tensor  # (N,) int64
    kept: Tensor  # (N,) bool: the target is the token
    head: nn.Linear
    temperature: float = 1.0

    def probabilities(self, rows: Tensor, weight: Tensor | None = None) -> Tensor:
        """P of some rows, (n, V), float32 or wider; `weight` is the head's weight, if already aligned."""
        W = aligned(self.head.weight, self.trunk.dtype) if weight is None else weight
        f = product(self.trunk[rows], W.T)
        p = ((f[:, : len(self.head.bias)] + self.head.bias.to(f.dtype)) / self.temperature).softmax(-1)
        kept = self.kept[rows, None]
        return torch.where(kept, torch.zeros_like(p).scatter_(-1, self.tokens[rows, None], 1.0), p)


def aligned(weight_VD: Tensor, dtype: torch.dtype) -> Tensor:
    """W in a dtype, with rows of zeros up to a length that GPUs like."""
    return torch.nn.functional.pad(weight_VD.to(dtype), (0, 0, 0, -len(weight_VD) % ALIGN))


def capped(logits: Tensor, cap: float) -> Tensor:
    """cap tanh(logits / cap); 0 is off."""
    return cap * torch.tanh(logits / cap) if cap else logits


def chunked_soft_head(
    h: Tensor, head: nn.Linear, target: SoftTarget, beta: Tensor, rows: Tensor, budget: int | None = None
) -> tuple[Tensor, Tensor]:
    """(sum_n beta_n CE_n under autograd, CE (N,) as a constant) over `rows` of h (N, D), all that have a weight among
    them; 0 elsewhere.
    """
    weight = aligned(target.head.weight, target.trunk.dtype)
    return distribution_head(h, head, lambda index: target.probabilities(index, weight), beta, rows, budget=budget)


def distribution_head(
    h: Tensor,
    head: nn.Linear,
    target: Target,
    beta: Tensor,
    rows: Tensor,
    cap: float = 0.0,
    divergence: bool = False,
    adaptive: tuple[float, float] | None = None,
    budget: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The same for any distributions, with capped logits."""
    kind = (cap, divergence, adaptive)
    loss, per_row = _SoftHead.apply(h, head.weight, head.bias, target, beta, rows, kind, budget)
    return loss, per_row


class _SoftHead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, weight, bias, target: Target, beta, rows, kind, budget):
        cap, divergence, adaptive = kind
        wide = torch.promote_types(h.dtype, torch.float32)
        V, W, b, beta = len(weight), aligned(weight, h.dtype), bias.to(wide), beta.to(wide)
        per_row = h.new_zeros(len(h), dtype=wide)
        grads = [torch.zeros_like(x, dtype=t) for x, t in ((h, h.dtype), (weight, wide), (bias, wide))]
        for index in rows.split(rows_per_chunk(len(W), h.dtype, True, budget)) if len(rows) else ():
            h_n = h[index]
            f = capped(product(h_n, W.T)[:, :V] + b, cap)
            log_T = f.log_softmax(-1)
            P = target(index)
            per_row[index] = -(P * log_T).sum(-1)
            if divergence:
                per_row[index] += torch.special.xlogy(P, P).sum(-1)
            gradient, scale = log_T.exp_().sub_(P), beta[index]
            if adaptive is not None:
                w = adaptive_weight(gradient.square().sum(-1), *adaptive)
                per_row[index], scale = per_row[index] * w, scale * w
            gradient.mul_(scale[:, None])
            if cap:
                gradient.mul_(1 - (f / cap).square())
            g = torch.nn.functional.pad(gradient.to(h.dtype), (0, len(W) - V))
            grads[0][index] = product(g, W).to(h.dtype)
            grads[1] += product(g.T, h_n)[:V]
            grads[2] += gradient.sum(0)
        ctx.save_for_backward(*grads)
        ctx.dtypes = (h.dtype, weight.dtype, bias.dtype)
        ctx.mark_non_differentiable(per_row)
        return (beta * per_row).sum(), per_row

    @staticmethod
    def backward(ctx, g_loss, _):
        grads = ((g_loss * x).to(t) for x, t in zip(ctx.saved_tensors, ctx.dtypes, strict=True))
        return *grads, None, None, None, None, None
