"""The two steps of the chunked delta rule that a compiler should not look into: `torch.ops.dbtm.*`.

Both are short chains of batched matrix products, made in place; traced, they would be unrolled into long graphs. On a
GPU each is one Triton kernel.
"""

import torch
from torch import Tensor

from dbtm.kernels.dispatch import choose_delta

GROUP = 16  # chunks that one pass of `state_pass` takes in turn; beyond two groups it works on all groups at once


@torch.library.custom_op("dbtm::unit_lower_inverse", mutates_args=())
def unit_lower_inverse(N: Tensor) -> Tensor:
    """(I + N)^-1 for N (..., C, C) below the diagonal, C = 4, 8, 16 ...: in Triton by substitution, elsewhere from
    blocks of 4, doubled until they meet.

        [[A, 0], [L, B]]^-1 = [[A^-1, 0], [-B^-1 L A^-1, B^-1]]

    It costs a third of one C x C product, and as much care for rounding as substitution. The shorter product form
    (I - N)(I + N^2)(I + N^4)... is exact on paper only: where keys resemble one another, the powers of N grow like
    binomial coefficients and cancel, and at C = 64 no digit of a float32 is left. Here it serves blocks of 4 alone.
    """
    if choose_delta(N.is_cuda, N.dtype)[0] == "triton":
        from dbtm.kernels import triton_delta

        return triton_delta.unit_lower_inverse(N)
    C, precision = N.shape[-1], torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # an inverse in TF32 would lose what the wide dtype is for
    try:
        identity = torch.eye(4, dtype=N.dtype, device=N.device)
        small = diagonal_blocks(N, 4)
        M = (identity - small) @ (identity + small @ small)
        size = 4
        while size < C:
            below = diagonal_blocks(N, 2 * size)[..., size:, :size]
            A, B = M.unflatten(-3, (-1, 2)).unbind(-3)
            M = N.new_zeros(*A.shape[:-2], 2 * size, 2 * size)
            M[..., :size, :size], M[..., size:, size:] = A, B
            M[..., size:, :size] = -(B @ below @ A)
            size *= 2
    finally:
        torch.set_float32_matmul_precision(precision)
    return M.squeeze(-3)


def diagonal_blocks(N: Tensor, size: int) -> Tensor:
    """The blocks on the diagonal, (..., C / size, size, size)."""
    n = N.shape[-1] // size
    return N.unflatten(-2, (n, size)).unflatten(-1, (n, size)).diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


@torch.library.custom_op("dbtm::state_pass", mutates_args=())
def state_pass(P: Tensor, Z: Tensor) -> Tensor:
    """S_0 = 0, S_{c+1} = P_c S_c + Z_c for P (..., n, d, d) and Z (..., n, d, m): the state that enters each chunk.

    Without Triton, many chunks go in groups: all groups run from the identity and from nothing at once, which gives
    what a group does to the state that enters it and what it adds; then the groups' ends run in turn, and every chunk
    takes its share.
    """
    n, d = P.shape[-3:-1]
    if choose_delta(P.is_cuda, P.dtype, d)[0] == "triton":
        from dbtm.kernels import triton_delta

        return triton_delta.state_pass(P, Z)
    P_, Z_ = P.reshape(-1, n, d, d), Z.reshape(-1, n, d, Z.shape[-1])
    if n <= 2 * GROUP:
        return _in_turn(P_, Z_, torch.zeros_like(Z_[:, 0])).reshape(Z.shape)
    rows, groups = len(P_), -(-n // GROUP)
    fill = groups * GROUP - n
    P_ = torch.cat((P_, P_.new_zeros(rows, fill, d, d)), 1).reshape(rows * groups, GROUP, d, d)
    Z_ = torch.cat((Z_, Z_.new_zeros(rows, fill, *Z_.shape[2:])), 1).reshape(rows * groups, GROUP, *Z_.shape[2:])
    both = torch.cat((torch.zeros_like(P_), Z_), -1)
    begin = torch.cat(
        (torch.eye(d, dtype=P.dtype, device=P.device).expand_as(P_[:, 0]), torch.zeros_like(Z_[:, 0])), -1
    )
    within = _in_turn(P_, both, begin)
    ends = torch.baddbmm(both[:, -1], P_[:, -1], within[:, -1]).unflatten(0, (rows, groups))
    between = _in_turn(ends[..., :d].contiguous(), ends[..., d:], torch.zeros_like(ends[:, 0, :, d:]))
    S = within[..., d:] + within[..., :d] @ between.flatten(0, 1)[:, None]
    return S.reshape(rows, groups * GROUP, *Z_.shape[2:])[:, :n].reshape(Z.shape)


def _in_turn(P: Tensor, Z: Tensor, begin: Tensor) -> Tensor:
    """The pass one chunk after the other, for (rows, n, d, d) and (rows, n, d, m), from a given state."""
    S = torch.empty_like(Z, memory_format=torch.contiguous_format)
    S[:, 0] = begin
    for c in range(Z.shape[1] - 1):
        torch.baddbmm(Z[:, c], P[:, c], S[:, c], out=S[:, c + 1])
    return S


@unit_lower_inverse.register_fake
def _(N):
    return torch.empty_like(N, memory_format=torch.contiguous_format)


@state_pass.register_fake
def _(P, Z):
    return torch.empty_like(Z, memory_format=torch.contiguous_format)
