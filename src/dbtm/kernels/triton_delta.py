"""The two operators of the chunked delta rule in Triton. Imported only by `delta_ops`, when one of them runs.

As batched products they are many launches of next to nothing: blocks of 4 x 4, or one chunk after the other.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

COLUMNS = 32  # of the state that one program of the pass carries: enough programs where heads are few


@triton.jit
def inverse_kernel(n_ptr, out_ptr, C: tl.constexpr):
    """(I + N)^-1 of one C x C matrix by substitution: row i is e_i - sum_{j < i} N_ij row_j.

    One warp holds the whole matrix, so that no row waits for other warps.
    """
    index = tl.arange(0, C)
    at = tl.program_id(0).to(tl.int64) * C * C
    own = (index[:, None] == index[None, :]).to(tl.float32)
    M = own
    for i in range(1, C):
        n = tl.load(n_ptr + at + i * C + index)
        row = tl.sum(n[:, None] * M, 0)
        M = tl.where(index[:, None] == i, own - row[None, :], M)
    tl.store(out_ptr + at + index[:, None] * C + index[None, :], M)


@triton.jit
def pass_kernel(
    p_ptr,
    z_ptr,
    s_ptr,
    CHUNKS: tl.constexpr,
    D: tl.constexpr,
    M: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """S_{c+1} = P_c S_c + Z_c for one head and BLOCK_M columns of its state, one chunk after the other."""
    head = tl.program_id(0).to(tl.int64) * CHUNKS
    d, m = tl.arange(0, BLOCK_D), tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    p_at, p_in = d[:, None] * D + d[None, :], (d[:, None] < D) & (d[None, :] < D)
    s_at, s_in = d[:, None] * M + m[None, :], (d[:, None] < D) & (m[None, :] < M)
    S = tl.zeros([BLOCK_D, BLOCK_M], tl.float32)
    for c in range(CHUNKS):
        tl.store(s_ptr + (head + c) * D * M + s_at, S, mask=s_in)
        P = tl.load(p_ptr + (head + c) * D * D + p_at, mask=p_in, other=0.0)
        Z = tl.load(z_ptr + (head + c) * D * M + s_at, mask=s_in, other=0.0)
        S = tl.dot(P, S, input_precision=PRECISION) + Z


def unit_lower_inverse(N: Tensor) -> Tensor:
    """As in `delta_ops`, for float32."""
    N = N.contiguous()
    C, out = N.shape[-1], torch.empty_like(N)
    with torch.cuda.device_of(N):
        inverse_kernel[(N.numel() // C**2,)](N, out, C=C, num_warps=1)
    return out


def state_pass(P: Tensor, Z: Tensor) -> Tensor:
    """As in `delta_ops`, for float32; products as precise as PyTorch's own are asked to be."""
    P, Z = P.contiguous(), Z.contiguous()
    (n, d), m, S = P.shape[-3:-1], Z.shape[-1], torch.empty_like(Z)
    precise = torch.get_float32_matmul_precision() == "highest"
    precision = "ieee" if torch.version.hip else "tf32x3" if precise else "tf32"  # three TF32 products make a float32's
    with torch.cuda.device_of(Z):
        pass_kernel[(Z.numel() // (n * d * m), triton.cdiv(m, COLUMNS))](
            *(P, Z, S),
            CHUNKS=n,
            D=d,
            M=m,
            BLOCK_D=max(16, triton.next_power_of_2(d)),
            BLOCK_M=COLUMNS,
            PRECISION=precision,
            num_warps=4,
            num_stages=1 if d > 64 else 2,  # the shared memory of small cards
        )
    return S
