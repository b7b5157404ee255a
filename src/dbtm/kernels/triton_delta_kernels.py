"""The chunked delta rule in Triton, in the notation of `delta`: one program holds one chunk of one head and direction.

    scores_kernel -> inverse_kernel -> chunk_kernel -> pass_kernel -> output_kernel             value
    tangent_chunk_kernel -> pass_kernel -> tangent_output_kernel                                tangent, after the value
    gradient_chunk_kernel -> pass_kernel, last chunk first
                          -> gradient_state_kernel -> gradient_output_kernel                    gradient

q, k, v and their tangents are (B, H, L, d) with any common strides and a dense last axis; gates are dense. Results have
one part per direction: o and do are stored as (directions, B, L, H, d), and gradients as (directions, B, L, 3, H, d).
Positions beyond L count as zeros. A reverse direction reads positions in its scan order. Intermediate results are in
scan order, (directions, B, H, n, ...). D and similar matrices are recomputed where needed: the products cost less than
memory traffic. No kernel writes to its inputs.
"""

import triton
import triton.language as tl

from dbtm.kernels.triton_delta_chunk import (
    below,
    block_of,
    decays,
    differences,
    dot,
    gates_of,
    input_at,
    places,
    result_at,
    rows_of,
    running,
    solve,
    to_last,
    write_block,
    write_rows,
)


@triton.jit
def scores_kernel(
    k_ptr, g_ptr, beta_ptr, n_ptr, L, H, HEADS, REVERSED, strides,
    C: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """N = beta D k k^T, strictly lower triangular."""
    chunk, part, at, inside = places(L, HEADS, REVERSED, C)
    rows, gates = input_at(part, at, L, H, HEADS, strides)
    k = rows_of(k_ptr, rows, inside, D, BLOCK_D)
    beta = gates_of(beta_ptr, gates, inside)[:, None]
    _, _, _, decay = decays(gates_of(g_ptr, gates, inside), C)
    write_block(n_ptr, beta * below(dot(k, tl.trans(k), PRECISION) * decay, C), chunk, C, C, C, C)


@triton.jit
def next_row(M, n_ptr, i, C: tl.constexpr):
    """Row i of a block's (I + N)^-1 by substitution: e_i - sum_{j < i} N_ij row_j."""
    index = tl.arange(0, 16)
    row = (index == i) - tl.sum(tl.load(n_ptr + i * C + index)[:, None] * M, 0)
    return tl.where(index[:, None] == i, row[None, :], M)


@triton.jit
def inverse_kernel(n_ptr, inverse_ptr, C: tl.constexpr, PRECISION: tl.constexpr):
    """(I + N)^-1 for C = 16, 32, 64, in blocks of 16: diagonal blocks by substitution, in parallel; those below by
    -B^-1 L A^-1, first in pairs of blocks, then in pairs of pairs. One warp holds everything, so that no row waits.
    """
    begin = tl.program_id(0).to(tl.int64) * C * C
    index = tl.arange(0, 16)
    n, out = n_ptr + begin, inverse_ptr + begin
    block = index[:, None] * C + index[None, :]
    down, right = 16 * C, 16
    A = (index[:, None] == index[None, :]).to(tl.float32)
    B, E, F = A, A, A
    for i in range(1, 16):
        A = next_row(A, n, i, C)
        if C >= 32:
            B = next_row(B, n + down + right, i, C)
        if C == 64:
            E = next_row(E, n + 2 * (down + right), i, C)
            F = next_row(F, n + 3 * (down + right), i, C)
    zero = tl.zeros_like(A)
    tl.store(out + block, A)
    if C >= 32:
        BA = -dot(dot(B, tl.load(n + down + block), PRECISION), A, PRECISION)
        tl.store(out + right + block, zero)
        tl.store(out + down + block, BA)
        tl.store(out + down + right + block, B)
    if C == 64:
        FE = -dot(dot(F, tl.load(n + 3 * down + 2 * right + block), PRECISION), E, PRECISION)
        for i in tl.static_range(2):
            tl.store(out + i * down + 2 * right + block, zero)
            tl.store(out + i * down + 3 * right + block, zero)
        tl.store(out + 2 * (down + right) + block, E)
        tl.store(out + 2 * down + 3 * right + block, zero)
        tl.store(out + 3 * down + 2 * right + block, FE)
        tl.store(out + 3 * (down + right) + block, F)
        # [[E, 0], [FE, F]] L [[A, 0], [BA, B]], L the lower left quarter of N
        left, other = tl.load(n + 2 * down + block), tl.load(n + 2 * down + right + block)
        EA, EB = dot(left, A, PRECISION) + dot(other, BA, PRECISION), dot(other, B, PRECISION)
        left, other = tl.load(n + 3 * down + block), tl.load(n + 3 * down + right + block)
        FA, FB = dot(left, A, PRECISION) + dot(other, BA, PRECISION), dot(other, B, PRECISION)
        tl.store(out + 2 * down + block, -dot(E, EA, PRECISION))
        tl.store(out + 2 * down + right + block, -dot(E, EB, PRECISION))
        tl.store(out + 3 * down + block, -dot(FE, EA, PRECISION) - dot(F, FA, PRECISION))
        tl.store(out + 3 * down + right + block, -dot(FE, EB, PRECISION) - dot(F, FB, PRECISION))


@triton.jit
def transition(inverse, k, beta, start, end, PRECISION: tl.constexpr):
    """W, and P without its diagonal e^Gamma_C: the chunk's transition of the state apart from its decay.

    The pass takes the diagonal from `through`. If P were rounded to bfloat16 with its diagonal, a slow decay would be
    off by the same factor in every chunk, and a decay close to 1 would vanish.
    """
    W = solve(inverse, beta * start * k, PRECISION)
    return W, -dot(tl.trans(end * k), W, PRECISION)


@triton.jit
def chunk_kernel(
    k_ptr, v_ptr, g_ptr, beta_ptr, inverse_ptr, w_ptr, alone_ptr, through_ptr, p_ptr, z_ptr,
    L, H, HEADS, REVERSED, strides,
    C: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """W, U for a zero state before the chunk, and `through`, P, Z of the pass."""
    chunk, part, at, inside = places(L, HEADS, REVERSED, C)
    rows, gates = input_at(part, at, L, H, HEADS, strides)
    k, v = rows_of(k_ptr, rows, inside, D, BLOCK_D), rows_of(v_ptr, rows, inside, D, BLOCK_D)
    beta = gates_of(beta_ptr, gates, inside)[:, None]
    start, end, through, _ = decays(gates_of(g_ptr, gates, inside), C)
    inverse = block_of(inverse_ptr, chunk, C, C, C, C)
    W, P = transition(inverse, k, beta, start, end, PRECISION)
    U = solve(inverse, beta * v, PRECISION)
    write_block(w_ptr, W, chunk, C, D, C, BLOCK_D)
    write_block(alone_ptr, U, chunk, C, D, C, BLOCK_D)
    tl.store(through_ptr + chunk, through)
    write_block(p_ptr, P, chunk, D, D, BLOCK_D, BLOCK_D)
    write_block(z_ptr, dot(tl.trans(end * k), U, PRECISION), chunk, D, D, BLOCK_D, BLOCK_D)


@triton.jit
def pass_kernel(
    through_ptr, p_ptr, z_ptr, s_ptr, CHUNKS: tl.constexpr, BACK: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """S_{c+1} = P_c S_c + Z_c from S_0 = 0 for one head and BLOCK_M columns of its state, chunk by chunk;
    BACK: S_{c-1} = P_c^T S_c + Z_c, from the last chunk to the first.
    """
    head = tl.program_id(0).to(tl.int64) * CHUNKS
    d, m = tl.arange(0, BLOCK_D), tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    p_at = d[None, :] * D + d[:, None] if BACK else d[:, None] * D + d[None, :]
    p_in = (d[:, None] < D) & (d[None, :] < D)
    s_at, s_in = d[:, None] * D + m[None, :], (d[:, None] < D) & (m[None, :] < D)
    S = tl.zeros([BLOCK_D, BLOCK_M], tl.float32)
    for i in range(CHUNKS):
        c = head + (CHUNKS - 1 - i if BACK else i)
        tl.store(s_ptr + c * D * D + s_at, S, mask=s_in)
        P = tl.load(p_ptr + c * D * D + p_at, mask=p_in, other=0.0)
        Z = tl.load(z_ptr + c * D * D + s_at, mask=s_in, other=0.0)
        S = tl.load(through_ptr + c) * S + dot(P, S, PRECISION) + Z


@triton.jit
def output_kernel(
    q_ptr, k_ptr, g_ptr, w_ptr, alone_ptr, s_ptr, u_ptr, o_ptr, L, H, HEADS, REVERSED, strides,
    C: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """U of the chunk with its state S, and o."""
    chunk, part, at, inside = places(L, HEADS, REVERSED, C)
    rows, gates = input_at(part, at, L, H, HEADS, strides)
    q, k = rows_of(q_ptr, rows, inside, D, BLOCK_D), rows_of(k_ptr, rows, inside, D, BLOCK_D)
    start, _, _, decay = decays(gates_of(g_ptr, gates, inside), C)
    S = block_of(s_ptr, chunk, D, D, BLOCK_D, BLOCK_D)
    U = block_of(alone_ptr, chunk, C, D, C, BLOCK_D) - dot(block_of(w_ptr, chunk, C, D, C, BLOCK_D), S, PRECISION)
    write_block(u_ptr, U, chunk, C, D, C, BLOCK_D)
    o = dot(start * q, S, PRECISION) + dot(dot(q, tl.trans(k), PRECISION) * decay, U, PRECISION)
    write_rows(o_ptr, o, result_at(part, at, L, H, D, 1), inside, D, BLOCK_D)


@triton.jit
def tangent_chunk_kernel(
    k_ptr, v_ptr, g_ptr, beta_ptr, dk_ptr, dv_ptr, dg_ptr, dbeta_ptr,
    inverse_ptr, u_ptr, s_ptr, du_ptr, dz_ptr, L, H, HEADS, REVERSED, strides,
    C: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dU for dS = 0 before the chunk, and dZ."""
    chunk, part, at, inside = places(L, HEADS, REVERSED, C)
    rows, gates = input_at(part, at, L, H, HEADS, strides)
    k, dk = rows_of(k_ptr, rows, inside, D, BLOCK_D), rows_of(dk_ptr, rows, inside, D, BLOCK_D)
    beta = gates_of(beta_ptr, gates, inside)[:, None]
    dbeta = gates_of(dbeta_ptr, gates, inside)[:, None]
    start, end, through, decay = decays(gates_of(g_ptr, gates, inside), C)
    high, low, last = running(gates_of(dg_ptr, gates, inside))
    dgamma, to_end = high[:, None], to_last(high, low, last)
    dk_k = dot(dk, tl.trans(k), PRECISION)
    kk = dot(k, tl.trans(k), PRECISION) * decay
    dN = below(dbeta * kk + beta * ((dk_k + tl.trans(dk_k)) * decay + differences(high, low) * kk), C)
    U = block_of(u_ptr, chunk, C, D, C, BLOCK_D)
    dR = -dot(dN, U, PRECISION)  # with dN U already subtracted
    S = block_of(s_ptr, chunk, D, D, BLOCK_D, BLOCK_D)
    dR += dbeta * (rows_of(v_ptr, rows, inside, D, BLOCK_D) - dot(start * k, S, PRECISION))
    dk += dgamma * k
    dR += beta * (rows_of(dv_ptr, rows, inside, D, BLOCK_D) - dot(start * dk, S, PRECISION))
    dU = solve(block_of(inverse_ptr, chunk, C, C, C, C), dR, PRECISION)
    write_block(du_ptr, dU, chunk, C, D, C, BLOCK_D)
    dk += (to_end - dgamma) * k
    dZ = dot(tl.trans(end * dk), U, PRECISION) + dot(tl.trans(end * k), dU, PRECISION)
    write_block(dz_ptr, dZ + through * last.to(tl.float32) * S, chunk, D, D, BLOCK_D, BLOCK_D)


@triton.jit
def tangent_output_kernel(
    q_ptr, k_ptr, g_ptr, dq_ptr, dk_ptr, dg_ptr, w_ptr, u_ptr, s_ptr, du_ptr, ds_ptr, do_ptr,
    L, H, HEADS, REVERSED, strides,
    C: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """do."""
    chunk, part, at, inside = places(L, HEADS, REVERSED, C)
    rows, gates = input_at(part, at, L, H, HEADS, strides)
    q, k = rows_of(q_ptr, rows, inside, D, BLOCK_D), rows_of(k_ptr, rows, inside, D, BLOCK_D)
    dq, dk = rows_of(dq_ptr, rows, inside, D, BLOCK_D), rows_of(dk_ptr, rows, inside, D, BLOCK_D)
    start, _, _, decay = decays(gates_of(g_ptr, gates, inside), C)
    high, low, _ = running(gates_of(dg_ptr, gates, inside))
    qk = dot(q, tl.trans(k), PRECISION) * decay
    dqk = (dot(dq, tl.trans(k), PRECISION) + dot(q, tl.trans(dk), PRECISION)) * decay + differences(high, low) * qk
    do = dot(dqk, block_of(u_ptr, chunk, C, D, C, BLOCK_D), PRECISION)
    do += dot(start * (dq + high[:, None] * q), block_of(s_ptr, chunk, D, D, BLOCK_D, BLOCK_D), PRECISION)
    dS = block_of(ds_ptr, chunk, D, D, BLOCK_D, BLOCK_D)
    do += dot(start * q, dS, PRECISION)
    dU = block_of(du_ptr, chunk, C, D, C, BLOCK_D) - dot(block_of(w_ptr, chunk, C, D, C, BLOCK_D), dS, PRECISION)
    do += dot(qk, dU, PRECISION)
    write_rows(do_ptr, do, result_at(part, at, L, H, D, 1), inside, D, BLOCK_D)


@triton.jit
def gradient_chunk_kernel(
    q_ptr, k_ptr, g_ptr, beta_ptr, go_ptr, inverse_ptr, gu_ptr, through_ptr, p_ptr, gz_ptr,
    L, H, HEADS, REVERSED, strides,
    C: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of U through o, P recomputed, and the gradient through o of the state before the chunk."""
    chunk, part, at, inside = places(L, HEADS, REVERSED, C)
    rows, gates = input_at(part, at, L, H, HEADS, strides)
    q, k = rows_of(q_ptr, rows, inside, D, BLOCK_D), rows_of(k_ptr, rows, inside, D, BLOCK_D)
    go = rows_of(go_ptr, result_at(part, at, L, H, D, 1), inside, D, BLOCK_D)
    beta = gates_of(beta_ptr, gates, inside)[:, None]
    start, end, through, decay = decays(gates_of(g_ptr, gates, inside), C)
    gU = dot(tl.trans(dot(q, tl.trans(k), PRECISION) * decay), go, PRECISION)
    W, P = transition(block_of(inverse_ptr, chunk, C, C, C, C), k, beta, start, end, PRECISION)
    gZ = dot(tl.trans(start * q), go, PRECISION) - dot(tl.trans(W), gU, PRECISION)
    write_block(gu_ptr, gU, chunk, C, D, C, BLOCK_D)
    tl.store(through_ptr + chunk, through)
    write_block(p_ptr, P, chunk, D, D, BLOCK_D, BLOCK_D)
    write_block(gz_ptr, gZ, chunk, D, D, BLOCK_D, BLOCK_D)


@triton.jit
def gradient_state_kernel(
    k_ptr, v_ptr, g_ptr, beta_ptr, inverse_ptr, u_ptr, s_ptr, gu_ptr, gs_ptr,
    gr_ptr, gv_ptr, k_part_ptr, gamma_part_ptr, beta_part_ptr, L, H, HEADS, REVERSED, strides,
    C: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients of R and v, and the part through the states S and S' of those of k, Gamma and beta."""
    chunk, part, at, inside = places(L, HEADS, REVERSED, C)
    rows, gates = input_at(part, at, L, H, HEADS, strides)
    k = rows_of(k_ptr, rows, inside, D, BLOCK_D)
    beta = gates_of(beta_ptr, gates, inside)[:, None]
    start, end, through, _ = decays(gates_of(g_ptr, gates, inside), C)
    # S' = e^Gamma_C S + (end k)^T U
    gS = block_of(gs_ptr, chunk, D, D, BLOCK_D, BLOCK_D)
    gend_k = dot(block_of(u_ptr, chunk, C, D, C, BLOCK_D), tl.trans(gS), PRECISION)
    gk = end * gend_k
    glog_end = tl.sum(gk * k, 1)
    gU = block_of(gu_ptr, chunk, C, D, C, BLOCK_D) + dot(end * k, gS, PRECISION)
    gR = solve(tl.trans(block_of(inverse_ptr, chunk, C, C, C, C)), gU, PRECISION)
    write_block(gr_ptr, gR, chunk, C, D, C, BLOCK_D)
    # R = beta (v - start k S)
    S = block_of(s_ptr, chunk, D, D, BLOCK_D, BLOCK_D)
    glast = tl.sum(glog_end, 0) + through * tl.sum(tl.sum(gS.to(tl.float32) * S, 1), 0)
    v = rows_of(v_ptr, rows, inside, D, BLOCK_D)
    gbeta = tl.sum(gR * (v - dot(start * k, S, PRECISION)), 1)
    write_rows(gv_ptr, beta * gR, result_at(part, at, L, H, D, 3), inside, D, BLOCK_D)
    from_start = -start * dot(beta * gR, tl.trans(S), PRECISION)
    write_block(k_part_ptr, gk + from_start, chunk, C, D, C, BLOCK_D)
    i = tl.arange(0, C)
    ggamma = tl.sum(from_start * k, 1) - glog_end + tl.where(i == C - 1, glast, 0.0)
    tl.store(gamma_part_ptr + chunk * C + i, ggamma)
    tl.store(beta_part_ptr + chunk * C + i, gbeta)


@triton.jit
def gradient_output_kernel(
    q_ptr, k_ptr, g_ptr, beta_ptr, go_ptr, u_ptr, s_ptr, gr_ptr, k_part_ptr, gamma_part_ptr, beta_part_ptr,
    gq_ptr, gk_ptr, gg_ptr, gbeta_ptr, L, H, HEADS, REVERSED, strides,
    C: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The remaining gradients: through N and q k^T, and of g from the gradient of Gamma."""
    chunk, part, at, inside = places(L, HEADS, REVERSED, C)
    rows, gates = input_at(part, at, L, H, HEADS, strides)
    i, grads = tl.arange(0, C), result_at(part, at, L, H, D, 3)
    k = rows_of(k_ptr, rows, inside, D, BLOCK_D)
    beta = gates_of(beta_ptr, gates, inside)[:, None]
    start, _, _, decay = decays(gates_of(g_ptr, gates, inside), C)
    U = block_of(u_ptr, chunk, C, D, C, BLOCK_D)
    # N = beta D k k^T, strictly lower triangular
    kk = dot(k, tl.trans(k), PRECISION) * decay
    gN = -below(dot(block_of(gr_ptr, chunk, C, D, C, BLOCK_D), tl.trans(U), PRECISION), C)
    gbeta = tl.sum(gN * kk, 1) + tl.load(beta_part_ptr + chunk * C + i)
    tl.store(gbeta_ptr + part * L + at, gbeta, mask=inside)
    glog = beta * gN * kk
    gkk = beta * gN * decay
    gk = dot(gkk + tl.trans(gkk), k, PRECISION) + block_of(k_part_ptr, chunk, C, D, C, BLOCK_D)
    # o = start q S + (D q k^T) U
    q = rows_of(q_ptr, rows, inside, D, BLOCK_D)
    go = rows_of(go_ptr, result_at(part, at, L, H, D, 1), inside, D, BLOCK_D)
    gqk = dot(go, tl.trans(U), PRECISION) * decay
    glog += gqk * dot(q, tl.trans(k), PRECISION)
    write_rows(gk_ptr, gk + dot(tl.trans(gqk), q, PRECISION), grads, inside, D, BLOCK_D)
    from_start = start * dot(go, tl.trans(block_of(s_ptr, chunk, D, D, BLOCK_D, BLOCK_D)), PRECISION)
    write_rows(gq_ptr, dot(gqk, k, PRECISION) + from_start, grads, inside, D, BLOCK_D)
    ggamma = tl.load(gamma_part_ptr + chunk * C + i) + tl.sum(from_start * q, 1) + tl.sum(glog, 1) - tl.sum(glog, 0)
    tl.store(gg_ptr + part * L + at, tl.cumsum(ggamma, 0, reverse=True), mask=inside)
