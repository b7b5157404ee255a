"""The Triton kernels of attention: value with tangent, value alone, and the value's backward.

Names: d* is a tangent, g* a gradient. For one head and one query, over the keys j,

    s_j  = cap(q . k_j / sqrt(d)),                  cap(x) = c tanh(x / c), or x where c = 0
    ds_j = cap'(.) (dq . k_j + q . dk_j) / sqrt(d)
    l = sum p_j,  r = sum p_j ds_j,  O = sum p_j v_j,  A = sum p_j (ds_j v_j + dv_j)      with p_j = exp(s_j - m)
    o = O / l,    do = A / l - (r / l) o

so one pass over keys and values gives both; when the running maximum m changes, the four sums are rescaled. Tensors are
(B, H, L, d) with any strides but a dense last axis; a program owns one block of one head's rows. Products accumulate in
float32. Exponentials are base 2, as in the hardware, so logits carry a factor log2(e). L is a compile-time constant,
since a task has one length: if blocks divide it, there are no masks.
"""

import torch
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
INLINE_PTX = tl.constexpr(not triton.knobs.runtime.interpret and torch.version.hip is None)


@triton.jit
def head_and_block(H, L: tl.constexpr, BLOCK: tl.constexpr):
    """This program's batch row, head, that head's start in a (B, H, L) tensor, and first row.

    One grid axis for all: the others are limited to 65535 programs.
    """
    blocks: tl.constexpr = (L + BLOCK - 1) // BLOCK
    program = tl.program_id(0)
    head = program // blocks
    return (head // H).to(tl.int64), head % H, head.to(tl.int64) * L, (program % blocks) * BLOCK


@triton.jit
def load_rows(
    base, strides, b, h, start, ROWS: tl.constexpr, L: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr
):
    """Rows of one head from `start` as a (ROWS, BLOCK_D) tile, zero beyond L and beyond the head's width."""
    rows, columns = start + tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    pointers = base + b * strides[0] + h * strides[1] + rows[:, None] * strides[2] + columns[None, :]
    if L % ROWS == 0 and HEAD_DIM == BLOCK_D:
        tile = tl.load(pointers)
    else:
        tile = tl.load(pointers, mask=(rows[:, None] < L) & (columns[None, :] < HEAD_DIM), other=0.0)
    return tile


@triton.jit
def store_rows(
    base, strides, b, h, start, tile, ROWS: tl.constexpr, L: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr
):
    """Store the rows that `load_rows` loads, in the dtype of the tensor."""
    rows, columns = start + tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    pointers = base + b * strides[0] + h * strides[1] + rows[:, None] * strides[2] + columns[None, :]
    mask = (rows[:, None] < L) & (columns[None, :] < HEAD_DIM)
    tl.store(pointers, tile.to(base.dtype.element_ty), mask=mask)


@triton.jit
def dot(a, b, PRECISION: tl.constexpr):
    """a b with float32 sums. PRECISION matters only for float32 inputs: "ieee" uses all their bits."""
    if INTERPRETED:  # Triton's interpreter would multiply bfloat16 bit patterns as integers
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def reciprocal(x):
    """1 / x of a float32 in [1, 2], up to its last bit: one instruction, while a division takes a dozen."""
    if INLINE_PTX:
        y = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    else:
        y = 1.0 / x
    return y


@triton.jit
def cap(qk, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Base-2 logits log2(e) s and the slope ds / d(q . k), from the products q . k.

    With e = exp(-2 |x|) and u = 1 / (1 + e), tanh |x| = (1 - e) u and tanh' x = 4 e u^2: no overflow, and an accurate
    slope for saturated logits too.
    """
    if SOFTCAP == 0.0:
        s = qk * (SCALE * LOG2E)
        slope = SCALE
    else:
        e = tl.exp2(tl.abs(qk) * (-2.0 * LOG2E * SCALE / SOFTCAP))
        u = reciprocal(1.0 + e)
        tanh = (1.0 - e) * u
        s = (SOFTCAP * LOG2E) * tl.where(qk < 0, -tanh, tanh)
        slope = (4.0 * SCALE) * e * u * u
    return s, slope


@triton.jit
def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    o_ptr,
    do_ptr,
    lse_ptr,
    q_strides,
    k_strides,
    v_strides,
    dq_strides,
    dk_strides,
    dv_strides,
    o_strides,
    H,
    L: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    TANGENT: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """o, the base-2 log-sum-exp and, if TANGENT, do, of BLOCK_M queries: 2 products per block of keys, or 6.

    Two measures reduce the rounding error of a narrow dtype in do, where A / l and (r / l) o may cancel. First, the
    sums l and r add the same rounded weights that multiply the values, so do is exactly sum w_j (v_j - o) for some
    weights w. Second, ds is taken relative to rho, its mean over the first block: a constant per query does not change
    do, but a large part common to all keys would cost p ds its digits.
    """
    b, h, head, own = head_and_block(H, L, BLOCK_M)
    rows = own + tl.arange(0, BLOCK_M)
    q = load_rows(q_ptr, q_strides, b, h, own, BLOCK_M, L, HEAD_DIM, BLOCK_D)
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    O = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    if TANGENT:
        dq = load_rows(dq_ptr, dq_strides, b, h, own, BLOCK_M, L, HEAD_DIM, BLOCK_D)
        r = tl.zeros([BLOCK_M], tl.float32)
        rho = tl.zeros([BLOCK_M], tl.float32)
        A = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)

    for start in range(0, L, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = load_rows(k_ptr, k_strides, b, h, start, BLOCK_N, L, HEAD_DIM, BLOCK_D)
        v = load_rows(v_ptr, v_strides, b, h, start, BLOCK_N, L, HEAD_DIM, BLOCK_D)
        s, slope = cap(dot(q, tl.trans(k), PRECISION), SCALE, SOFTCAP)
        if L % BLOCK_N != 0:
            s = tl.where(keys[None, :] < L, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        shrink = tl.exp2(m - m_new)
        p = tl.exp2(s - m_new[:, None])
        w = p.to(v.dtype)
        m = m_new
        l = l * shrink + tl.sum(w.to(tl.float32), 1)
        O = O * shrink[:, None] + dot(w, v, PRECISION)
        if TANGENT:
            dk = load_rows(dk_ptr, dk_strides, b, h, start, BLOCK_N, L, HEAD_DIM, BLOCK_D)
            dv = load_rows(dv_ptr, dv_strides, b, h, start, BLOCK_N, L, HEAD_DIM, BLOCK_D)
            ds = (dot(dq, tl.trans(k), PRECISION) + dot(q, tl.trans(dk), PRECISION)) * slope
            rho = tl.where(start == 0, tl.sum(p * ds, 1) / l, rho)
            wds = (p * (ds - rho[:, None])).to(v.dtype)
            r = r * shrink + tl.sum(wds.to(tl.float32), 1)
            A = A * shrink[:, None] + dot(wds, v, PRECISION) + dot(w, dv, PRECISION)

    o = O / l[:, None]
    store_rows(o_ptr, o_strides, b, h, own, o, BLOCK_M, L, HEAD_DIM, BLOCK_D)
    tl.store(lse_ptr + head + rows, m + tl.log2(l), mask=rows < L)
    if TANGENT:
        do = A / l[:, None] - (r / l)[:, None] * o
        store_rows(do_ptr, o_strides, b, h, own, do, BLOCK_M, L, HEAD_DIM, BLOCK_D)


@triton.jit
def backward_q_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    go_ptr,
    gq_ptr,
    lse_ptr,
    delta_ptr,
    q_strides,
    k_strides,
    v_strides,
    o_strides,
    go_strides,
    gq_strides,
    H,
    L: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """gq_i = sum_j gs_ij k_j with gs_ij = p_ij (go_i . v_j - delta_i) cap', of BLOCK_M queries: 3 products per block.

    It also stores delta_i = go_i . o_i = sum_j p_ij (go_i . v_j) for backward_kv_kernel, which runs after it.
    """
    b, h, head, own = head_and_block(H, L, BLOCK_M)
    rows = own + tl.arange(0, BLOCK_M)
    q = load_rows(q_ptr, q_strides, b, h, own, BLOCK_M, L, HEAD_DIM, BLOCK_D)
    go = load_rows(go_ptr, go_strides, b, h, own, BLOCK_M, L, HEAD_DIM, BLOCK_D)
    o = load_rows(o_ptr, o_strides, b, h, own, BLOCK_M, L, HEAD_DIM, BLOCK_D)
    delta = tl.sum(go.to(tl.float32) * o.to(tl.float32), 1)
    tl.store(delta_ptr + head + rows, delta, mask=rows < L)
    lse = tl.load(lse_ptr + head + rows, mask=rows < L, other=float("inf"))
    gq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start in range(0, L, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = load_rows(k_ptr, k_strides, b, h, start, BLOCK_N, L, HEAD_DIM, BLOCK_D)
        v = load_rows(v_ptr, v_strides, b, h, start, BLOCK_N, L, HEAD_DIM, BLOCK_D)
        s, slope = cap(dot(q, tl.trans(k), PRECISION), SCALE, SOFTCAP)
        p = tl.exp2(s - lse[:, None])
        if L % BLOCK_N != 0:  # keys beyond L are zero rows, but p may be infinite there, and inf * 0 is nan
            p = tl.where(keys[None, :] < L, p, 0.0)
        gs = p * (dot(go, tl.trans(v), PRECISION) - delta[:, None]) * slope
        gq += dot(gs.to(k.dtype), k, PRECISION)
    store_rows(gq_ptr, gq_strides, b, h, own, gq, BLOCK_M, L, HEAD_DIM, BLOCK_D)


@triton.jit
def backward_kv_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    go_ptr,
    gk_ptr,
    gv_ptr,
    lse_ptr,
    delta_ptr,
    q_strides,
    k_strides,
    v_strides,
    go_strides,
    gk_strides,
    gv_strides,
    H,
    L: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """gv_j = sum_i p_ij go_i and gk_j = sum_i gs_ij q_i, of BLOCK_N keys: 4 products per block of queries.

    Every matrix is held transposed, (keys, queries), so that it is the left factor of its product.
    """
    b, h, head, own = head_and_block(H, L, BLOCK_N)
    k = load_rows(k_ptr, k_strides, b, h, own, BLOCK_N, L, HEAD_DIM, BLOCK_D)
    v = load_rows(v_ptr, v_strides, b, h, own, BLOCK_N, L, HEAD_DIM, BLOCK_D)
    gk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    gv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for start in range(0, L, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        q = load_rows(q_ptr, q_strides, b, h, start, BLOCK_M, L, HEAD_DIM, BLOCK_D)
        go = load_rows(go_ptr, go_strides, b, h, start, BLOCK_M, L, HEAD_DIM, BLOCK_D)
        lse = tl.load(lse_ptr + head + rows, mask=rows < L, other=float("inf"))  # queries beyond L: p = 0
        delta = tl.load(delta_ptr + head + rows, mask=rows < L, other=0.0)
        s, slope = cap(dot(k, tl.trans(q), PRECISION), SCALE, SOFTCAP)
        p = tl.exp2(s - lse[None, :])
        gv += dot(p.to(go.dtype), go, PRECISION)
        gs = p * (dot(v, tl.trans(go), PRECISION) - delta[None, :]) * slope
        gk += dot(gs.to(q.dtype), q, PRECISION)
    store_rows(gk_ptr, gk_strides, b, h, own, gk, BLOCK_N, L, HEAD_DIM, BLOCK_D)
    store_rows(gv_ptr, gv_strides, b, h, own, gv, BLOCK_N, L, HEAD_DIM, BLOCK_D)
