"""One chunk of the head's losses in a Triton kernel: logits and tangents are read three times over.

In plain PyTorch the same formulas (losses/head.py) cross the (n, V) chunk about fifteen times, which would take longer
than the four matrix products around them.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor


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
    """One row a program: V logits in COLUMNS columns of memory, with a gradient of 0 in those beyond.

    Pass 1: maximum, argmax, l = sum exp(f - m), mean of df under T. Pass 2: the squares. Pass 3: the gradient. Each
    needs the sums of the one before; expanding the squares instead would cancel in float32.
    """
    row = tl.program_id(0)
    f_ptr += row.to(tl.int64) * COLUMNS
    df_ptr += row.to(tl.int64) * COLUMNS
    gradient_ptr += row.to(tl.int64) * COLUMNS
    columns = tl.arange(0, BLOCK)
    m, l, best, mean = float("-inf"), 0.0, 0, 0.0
    for start in range(0, V, BLOCK):
        at = start + columns
        f = load_logits(f_ptr, bias_ptr, at, V)
        top = tl.max(f, 0)
        first = tl.min(tl.where(f == top, at, V), 0)
        best = tl.where(top > m, first, best)
        m_new = tl.maximum(m, top)
        p = tl.exp(f - m_new)
        shrink = tl.exp(m - m_new)
        l = l * shrink + tl.sum(p, 0)
        if TANGENT:
            df = tl.load(df_ptr + at, mask=at < V, other=0.0)
            mean = mean * shrink + tl.sum(p * df, 0)
        m = m_new
    mean = mean / l

    squares, length, along = 0.0, 0.0, 0.0  # sum T^2, |dT|^2, sum T dT
    for start in range(0, V, BLOCK):
        at = start + columns
        T = tl.exp(load_logits(f_ptr, bias_ptr, at, V) - m) / l
        squares += tl.sum(T * T, 0)
        if TANGENT:
            dT = T * (tl.load(df_ptr + at, mask=at < V, other=0.0) - mean)
            length += tl.sum(dT * dT, 0)
            along += tl.sum(T * dT, 0)

    token = tl.load(tokens_ptr + row)
    log_right = load_logits(f_ptr, bias_ptr, token, V) - m - tl.log(l)
    right = tl.exp(log_right)
    endpoint_w = adaptive_weight(squares - 2 * right + 1, ENDPOINT_C, ENDPOINT_R)
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
    float32 f and df, the constants (c, r, c', r') and a bias (V,); and, where a dtype is given for it, the gradient of
    f. Rows may be longer than V: what stands beyond is not read.
    """
    c, r, endpoint_c, endpoint_r = adaptive
    n, columns = f.shape
    transport, endpoint, confidence, right = (f.new_empty(n) for _ in range(4))
    argmax, gradient = torch.empty_like(tokens), None
    if gradient_dtype is not None:
        gradient = torch.empty_like(f, dtype=gradient_dtype)
    block = min(4096, triton.next_power_of_2(columns))
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
            num_warps=max(1, min(8, block // 256)),
        )
    return transport, endpoint, argmax, confidence, right, gradient
