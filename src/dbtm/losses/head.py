"""Head and losses in chunks of rows, without (N, V) logits, probabilities, tangents or one-hots for all rows at once.

For every row n of the trunk state h with its tangent dh, with f = W h + b, df = W dh and T = softmax f,

    transport_n = w |dT|^2             w = sg[(|dT|^2 + c)^-r]       dT = T (df - sum_j T_j df_j)
    endpoint_n  = w' CE(T, x1)         w' = sg[(|T - x1|^2 + c')^-r']
    loss        = sum_n alpha_n transport_n + beta_n endpoint_n

The row weights alpha, beta contain masks, lambdas and the common denominator. They are constants, so the gradient of
the loss follows directly from a chunk's logits:

    d loss / d f_n = T (beta w' - 2 alpha w (dT - sum_j T_j dT_j)) - beta w' x1

It is computed in the forward pass and multiplied into the gradients of h, W and b immediately; backward only scales
them by the gradient of the loss. This takes 4 products of N x V x D (f, df, h's gradient, W's), while recomputing the
logits in backward would take 6. The price is W's gradient held in float32 from forward to backward.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dbtm.kernels.dispatch import TRITON_LACKS
from dbtm.kernels.noise import ALIGN
from dbtm.kernels.product import product
from dbtm.losses.adaptive import adaptive_weight

BUDGET = 2**28  # bytes of one chunk's logits, tangents and gradients
MIN_CHUNK_ROWS = 1536  # smaller chunks make the weight-gradient update a bottleneck


class HeadLosses(NamedTuple):
    """The loss, and constants per row for named terms, commits and the quality head.

    Rows that were not visited contain 0, and -1 as their argmax.
    """

    loss: Tensor  # () sum_n alpha_n transport_n + beta_n endpoint_n
    transport: Tensor  # (N,) w |dT|^2
    endpoint: Tensor  # (N,) w' CE(T, x1)
    argmax: Tensor  # (N,) argmax T
    confidence: Tensor  # (N,) max T
    right: Tensor  # (N,) T at x1


class Adaptive(NamedTuple):
    """c and r of the two adaptive weights."""

    c: float = 1.0
    r: float = 0.5
    endpoint_c: float = 1.0
    endpoint_r: float = 0.5


def chunked_head(
    h: Tensor,
    dh: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    tokens: Tensor,
    alpha: Tensor,
    beta: Tensor,
    adaptive: Adaptive = Adaptive(),
    rows: Tensor | None = None,
    budget: int | None = None,
) -> HeadLosses:
    """HeadLosses from h (N, D), dh (N, D) or None, W (V, D), b (V,), tokens (N,), alpha, beta (N,).

    Equal to `reference.transport` and `reference.endpoint` on the dense logits, weighted and summed. Only `rows` are
    visited. The default is all rows with a nonzero weight; finding them synchronizes with the GPU, so pass their
    indices if they are known before the network runs. Pass further rows to get their constants too. Without dh there is
    no transport. Products use the dtype of h, sums are float32 or wider; the range of float16 is too small for these
    gradients.
    """
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in (h, weight, bias))
    chunk = rows_per_chunk(weight.shape[0], h.dtype, dh is not None, budget)
    loss, transport, endpoint, argmax, confidence, right, *_ = head_sweep(
        h, dh, weight, bias, tokens, alpha, beta, rows, list(adaptive), chunk, wanted
    )
    return HeadLosses(loss, transport, endpoint, argmax, confidence, right)


def cross_entropy(
    trunk_BLD: Tensor, head: nn.Linear, tokens_BL: Tensor, beta_BL: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """sum_l beta_l CE(T_l, x1_l) at some positions, without dense logits, and the cross-entropies, (B, L)."""
    beta = beta_BL.flatten()
    plain = Adaptive(endpoint_r=0.0)
    tokens = tokens_BL.flatten()
    read = chunked_head(trunk_BLD.flatten(0, 1), None, head.weight, head.bias, tokens, beta * 0, beta, plain, rows)
    return read.loss, read.endpoint.view_as(tokens_BL)


@torch.no_grad()
def predictions(trunk_BLD: Tensor, head: nn.Linear, rows: Tensor) -> tuple[Tensor, Tensor]:
    """(max T, argmax T), (B, L) each, at some positions, numbered through the batch; 0 and -1 elsewhere."""
    h = trunk_BLD.flatten(0, 1)
    nothing, tokens = h.new_zeros(len(h), dtype=torch.float32), h.new_zeros(len(h), dtype=torch.int64)
    read = chunked_head(h, None, head.weight, head.bias, tokens, nothing, nothing, rows=rows)
    return read.confidence.view(trunk_BLD.shape[:2]), read.argmax.view(trunk_BLD.shape[:2])


def rows_per_chunk(vocab: int, dtype: torch.dtype, tangent: bool, budget: int | None = None) -> int:
    """The number of rows whose wide logits, tangents and gradients fit the budget: a multiple of 128 if possible.

    The default budget is BUDGET, or the size of MIN_CHUNK_ROWS rows if that is larger.
    """
    row = vocab * torch.promote_types(dtype, torch.float32).itemsize * (3 if tangent else 2)
    rows = max(1, budget // row) if budget else max(MIN_CHUNK_ROWS, BUDGET // row)
    return rows if rows < 128 else rows // 128 * 128


class RowTerms(NamedTuple):
    """The rows of one chunk: as in HeadLosses, and the loss's gradient with respect to their logits if requested."""

    transport: Tensor
    endpoint: Tensor
    argmax: Tensor
    confidence: Tensor
    right: Tensor
    gradient: Tensor | None


def row_terms(
    f: Tensor,
    df: Tensor | None,
    bias: Tensor,
    tokens: Tensor,
    alpha: Tensor,
    beta: Tensor,
    adaptive: Adaptive,
    wanted: bool,
) -> RowTerms:
    """One chunk by the formulas above from f = W h, without the bias, and df (n, V); both are overwritten."""
    top, argmax = f.add_(bias).max(-1)
    below_top = f.sub_(top[:, None]).gather(-1, tokens[:, None]).squeeze(-1)
    T = f.exp_()
    l = T.sum(-1)
    T.div_(l[:, None])
    log_right = below_top - l.log()
    right = log_right.exp()
    mismatch = T.square().sum(-1) - 2 * right + 1
    endpoint_w = adaptive_weight(mismatch, adaptive.endpoint_c, adaptive.endpoint_r)
    pull = beta * endpoint_w
    transport, gradient = torch.zeros_like(l), None
    if df is not None:
        dT = df.sub_((T * df).sum(-1, keepdim=True)).mul_(T)
        length = dT.square().sum(-1)
        w = adaptive_weight(length, adaptive.c, adaptive.r)
        transport = w * length
        if wanted:
            along = (T * dT).sum(-1, keepdim=True)
            gradient = dT.sub_(along).mul_((-2 * alpha * w)[:, None]).add_(pull[:, None]).mul_(T)
    elif wanted:
        gradient = T.mul_(pull[:, None])
    if gradient is not None:
        gradient.scatter_add_(-1, tokens[:, None], -pull[:, None])
    return RowTerms(transport, -log_right * endpoint_w, argmax, 1 / l, right, gradient)


@torch.library.custom_op("dbtm::head_sweep", mutates_args=())
def head_sweep(
    h: Tensor,
    dh: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    tokens: Tensor,
    alpha: Tensor,
    beta: Tensor,
    rows: Tensor | None,
    adaptive: list[float],
    chunk: int,
    wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """One sweep over chunks of rows: loss, the five constants per row, and the gradients of h, W, b (empty unless
    `wanted`).

    A custom operator, because the number of rows is known only at run time: opaque to torch.compile, no graph break.
    """
    wide = torch.promote_types(h.dtype, torch.float32)
    fused = h.is_cuda and not TRITON_LACKS and wide == torch.float32
    if fused:
        from dbtm.kernels import triton_head
    V = len(weight)
    alpha, beta, bias, W = alpha.to(wide), beta.to(wide), bias.detach().to(wide), weight.detach().to(h.dtype)
    if fused and V > ALIGN:
        W = torch.nn.functional.pad(W, (0, 0, 0, -V % ALIGN))
    if rows is None:
        has_weight = beta != 0 if dh is None else (alpha != 0) | (beta != 0)
        rows = has_weight.nonzero().squeeze(-1)
    reads = [h.new_zeros(len(h), dtype=wide) for _ in range(5)]
    reads[2] = torch.full_like(tokens, -1)
    grads = [torch.zeros_like(x, dtype=t) for x, t in ((h, h.dtype), (weight, wide), (bias, wide)) if wanted]
    for index in rows.split(chunk) if len(rows) else ():
        h_n = h.detach()[index]
        f = product(h_n, W.T)
        df = None if dh is None else product(dh.detach()[index], W.T)
        given = (bias, tokens[index], alpha[index], beta[index])
        if fused:
            terms = RowTerms(*triton_head.row_terms(f, df, *given, adaptive, h.dtype if wanted else None))
        else:
            terms = row_terms(f, df, *given, Adaptive(*adaptive), wanted)
        for read, term in zip(reads, terms[:5], strict=True):
            read[index] = term
        if terms.gradient is not None:
            g = terms.gradient.to(h.dtype)
            grads[0][index] = product(g, W).to(h.dtype)
            grads[1] += product(g.T, h_n)[:V]
            grads[2] += terms.gradient.sum(0, dtype=wide)[:V]
    loss = (alpha * reads[0] + beta * reads[1]).sum()
    grad_h, grad_weight, grad_bias = grads or (h.new_empty(0), weight.new_empty(0), bias.new_empty(0))
    return loss, reads[0], reads[1], reads[2], reads[3], reads[4], grad_h, grad_weight, grad_bias


@head_sweep.register_fake
def _(h, dh, weight, bias, tokens, alpha, beta, rows, adaptive, chunk, wanted):
    wide = torch.promote_types(h.dtype, torch.float32)
    reads = [h.new_empty(len(h), dtype=wide) for _ in range(5)]
    reads[2] = torch.empty_like(tokens)
    grads = [torch.empty_like(x, dtype=t) for x, t in ((h, h.dtype), (weight, wide), (bias, wide)) if wanted]
    return h.new_empty((), dtype=wide), *reads, *(grads or (h.new_empty(0), weight.new_empty(0), bias.new_empty(0)))


def _save(ctx, inputs, output):
    _, _, weight, bias, *_ = inputs
    _, *others = output
    ctx.mark_non_differentiable(*others)
    ctx.save_for_backward(*others[-3:])
    ctx.dtypes, ctx.other_inputs = (weight.dtype, bias.dtype), len(inputs) - 4


def _backward(ctx, g_loss, *_):
    """The gradients of the sweep, times the gradient of the loss."""
    grad_h, grad_weight, grad_bias = (g_loss * x for x in ctx.saved_tensors)
    weight_dtype, bias_dtype = ctx.dtypes
    others = [None] * ctx.other_inputs
    return grad_h, None, grad_weight.to(weight_dtype), grad_bias.to(bias_dtype), *others


head_sweep.register_autograd(_backward, setup_context=_save)
