"""One chunk of the head's losses in a Triton kernel: logits and tangents are read three times.

In plain PyTorch the same formulas (losses/head.py) read the (n, V) chunk about fifteen times, which takes longer than
the four matrix products around them.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

LOWEST = tl.constexpr(-1e38)  # below every logit; finite, so that a column without logits gives no nan


@triton.jit
def adaptive_weight(mismatch, C: tl.constexpr, R: tl.constexpr):
    """(|Delta|^2 + c)^-r."""
    return mismatch * 0.0 + 1.0 if R == 0.0 else tl.exp2(-R * tl.log2(mismatch + C))


@triton.jit
def load_logits(f_ptr, bias_ptr, at, V: tl.constexpr):
    """f + b at these columns of a row, -inf beyond the last."""
    inside = at < V
    return tl.load(f_ptr + at, mask=inside, other=float("-inf")) + tl.load(bias_ptr + at, mask=inside, other=0.0)


@triton.jit
def row_kernel(
    f_ptr,
    df_ptr,
    bias_ptr,
    tokens_ptr,
    alpha_ptr,
    beta_ptr,
    transport_ptr,
    endpoint_ptr,
    argmax_ptr,
    confidence_ptr,
    right_ptr,
    gradient_ptr,
    V: tl.constexpr,
    COLUMNS: tl.constexpr,
    C: tl.constexpr,
    R: tl.constexpr,
    ENDPOINT_C: tl.constexpr,
    ENDPOINT_R: tl.constexpr,
    TANGENT: tl.constexpr,
    GRADIENT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row per program: V logits in COLUMNS columns of memory; the gradient of further columns is 0.

    Pass 1: maximum, argmax, l = sum exp(f - m), mean of df under T. Pass 2: the squares. Pass 3: the gradient. Each
    needs the sums of the previous one; expanding the squares instead would cancel in float32. Within a pass every
    column of a block has its own sums, which are added at the end: threads synchronize once per pass.
    """
    row = tl.program_id(0)
    f_ptr += row.to(tl.int64) * COLUMNS
    df_ptr += row.to(tl.int64) * COLUMNS
    gradient_ptr += row.to(tl.int64) * COLUMNS
    columns = tl.arange(0, BLOCK)
    tops, best = tl.full([BLOCK], LOWEST, tl.float32), tl.full([BLOCK], V, tl.int32)
    ls, means = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, V, BLOCK):
        at = start + columns
        f = load_logits(f_ptr, bias_ptr, at, V)
        best = tl.where(f > tops, at, best)
        higher = tl.maximum(tops, f)
        p, shrink = tl.exp(f - higher), tl.exp(tops - higher)
        ls = ls * shrink + p
        if TANGENT:
            means = means * shrink + p * tl.load(df_ptr + at, mask=at < V, other=0.0)
        tops = higher
    m = tl.max(tops, 0)
    shrink = tl.exp(tops - m)
    l, mean = tl.sum(ls * shrink, 0), 0.0
    best = tl.minimum(tl.min(tl.where(tops == m, best, V), 0), V - 1)  # a valid index even if all logits are nan
    if TANGENT:
        mean = tl.sum(means * shrink, 0) / l

    squares = tl.zeros([BLOCK], tl.float32)
    lengths, alongs = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, V, BLOCK):
        at = start + columns
        T = tl.exp(load_logits(f_ptr, bias_ptr, at, V) - m) / l
        squares += T * T
        if TANGENT:
            dT = T * (tl.load(df_ptr + at, mask=at < V, other=0.0) - mean)
            lengths += dT * dT
            alongs += T * dT
    length, along = tl.sum(lengths, 0), tl.sum(alongs, 0)

    token = tl.load(tokens_ptr + row)
    log_right = load_logits(f_ptr, bias_ptr, token, V) - m - tl.log(l)
    right = tl.exp(log_right)
    endpoint_w = adaptive_weight(tl.sum(squares, 0) - 2 * right + 1, ENDPOINT_C, ENDPOINT_R)
    tl.store(endpoint_ptr + row, -log_right * endpoint_w)
    tl.store(right_ptr + row, right)
    tl.store(confidence_ptr + row, 1.0 / l)
    tl.store(argmax_ptr + row, best)
    pull, push = tl.load(beta_ptr + row) * endpoint_w, 0.0
    if TANGENT:
        w = adaptive_weight(length, C, R)
        tl.store(transport_ptr + row, w * length)
        push = 2 * tl.load(alpha_ptr + row) * w
    else:
        tl.store(transport_ptr + row, 0.0)
    if GRADIENT:
        for start in range(0, COLUMNS, BLOCK):
            at = start + columns
            T = tl.exp(load_logits(f_ptr, bias_ptr, at, V) - m) / l
            g = T * pull
            if TANGENT:
                dT = T * (tl.load(df_ptr + at, mask=at < V, other=0.0) - mean)
                g -= T * push * (dT - along)
            g = tl.where(at == token, g - pull, g)
            tl.store(gradient_ptr + at, g.to(gradient_ptr.dtype.element_ty), mask=at < COLUMNS)


def row_terms(
    f: Tensor,
    df: Tensor | None,
    bias: Tensor,
    tokens: Tensor,
    alpha: Tensor,
    beta: Tensor,
    adaptive: Sequence[float],
    gradient_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Transport, endpoint, argmax, confidence and right of every row, as in `losses.head.row_terms`, from contiguous
    float32 f and df, the constants (c, r, c', r') and a bias (V,); and the gradient of f, if its dtype is given. Rows
    may be longer than V: further columns are not read.
    """
    c, r, endpoint_c, endpoint_r = adaptive
    n, columns = f.shape
    transport, endpoint, confidence, right = (f.new_empty(n) for _ in range(4))
    argmax, gradient = torch.empty_like(tokens), None
    if gradient_dtype is not None:
        gradient = torch.empty_like(f, dtype=gradient_dtype)
    block = min(2048, triton.next_power_of_2(columns))
    with torch.cuda.device_of(f):
        row_kernel[(n,)](
            *(f, f if df is None else df, bias, tokens, alpha, beta),
            *(transport, endpoint, argmax, confidence, right, f if gradient is None else gradient),
            V=len(bias),
            COLUMNS=columns,
            C=c,
            R=r,
            ENDPOINT_C=endpoint_c,
            ENDPOINT_R=endpoint_r,
            TANGENT=df is not None,
            GRADIENT=gradient is not None,
            BLOCK=block,
            num_warps=max(1, block // 256),
        )
    return transport, endpoint, argmax, confidence, right, gradient
