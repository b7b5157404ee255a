"""Custom operators of the chunked delta rule, which torch.compile does not look into: `torch.ops.dbtm.*`.

Two steps of the plain form, which are short chains of batched matrix products made in place and would be unrolled into
long graphs; and the whole of the Triton form.
"""

import torch
from torch import Tensor

CHUNK = 64
GROUP = 16  # chunks that one pass of `state_pass` takes in turn; beyond two groups it works on all groups at once


def chunk_size(L: int, least: int) -> int:
    """Positions of a chunk: 64, or the power of two that holds a shorter sequence."""
    return min(CHUNK, max(least, 1 << (L - 1).bit_length()))


@torch.library.custom_op("dbtm::unit_lower_inverse", mutates_args=())
def unit_lower_inverse(N: Tensor) -> Tensor:
    """(I + N)^-1 for N (..., C, C) below the diagonal, C = 4, 8, 16 ..., from blocks of 4, doubled until they meet.

        [[A, 0], [L, B]]^-1 = [[A^-1, 0], [-B^-1 L A^-1, B^-1]]

    It costs a third of one C x C product, and as much care for rounding as substitution. The shorter product form
    (I - N)(I + N^2)(I + N^4)... is exact on paper only: where keys resemble one another, the powers of N grow like
    binomial coefficients and cancel, and at C = 64 no digit of a float32 is left. Here it serves blocks of 4 alone.
    """
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

    Many chunks go in groups: all groups run from the identity and from nothing at once, which gives what a group does
    to the state that enters it and what it adds; then the groups' ends run in turn, and every chunk takes its share.
    """
    n, d = P.shape[-3:-1]
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


# -- in Triton ---------------------------------------------------------------------------------------------------------


@torch.library.custom_op("dbtm::delta", mutates_args=())
def delta(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, directions: list[bool]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """o (directions, B, H, L, d), and for the gradient (I + N)^-1, U and S of every chunk."""
    from dbtm.kernels import triton_delta

    o, _, inverse, U, S = triton_delta.forward((q, k, v, g, beta), (), directions)
    return o, inverse, U, S


@torch.library.custom_op("dbtm::delta_dual", mutates_args=())
def delta_dual(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor,
    dq: Tensor, dk: Tensor, dv: Tensor, dg: Tensor, dbeta: Tensor, directions: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The same with the tangent do after o. Only o is differentiable, and only towards q, k, v, g, beta."""
    from dbtm.kernels import triton_delta

    o, do, inverse, U, S = triton_delta.forward((q, k, v, g, beta), (dq, dk, dv, dg, dbeta), directions)
    assert do is not None
    return o, do, inverse, U, S


@torch.library.custom_op("dbtm::delta_backward", mutates_args=())
def delta_backward(
    go: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor,
    inverse: Tensor, U: Tensor, S: Tensor, directions: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The value's gradients."""
    from dbtm.kernels import triton_delta

    return triton_delta.backward(go, (q, k, v, g, beta), inverse, U, S, directions)


def _kept(k: Tensor, directions: list[bool]) -> tuple[Tensor, Tensor, Tensor]:
    B, H, L, d = k.shape
    C = chunk_size(L, 16)
    lead = (len(directions), B, H, -(-L // C))
    inverse, U, S = (k.new_empty((*lead, *size), dtype=torch.float32) for size in ((C, C), (C, d), (d, d)))
    return inverse, U, S


@delta.register_fake
def _(q, k, v, g, beta, directions):
    return v.new_empty(len(directions), *v.shape), *_kept(k, directions)


@delta_dual.register_fake
def _(q, k, v, g, beta, dq, dk, dv, dg, dbeta, directions):
    return v.new_empty(len(directions), *v.shape), v.new_empty(len(directions), *v.shape), *_kept(k, directions)


@delta_backward.register_fake
def _(go, q, k, v, g, beta, inverse, U, S, directions):
    return tuple(x.new_empty(x.shape) for x in (q, k, v, g, beta))


def _save(ctx, inputs, output):
    constants = output[1:]
    ctx.mark_non_differentiable(*constants)
    ctx.set_materialize_grads(False)  # of the constants: as much as is kept
    ctx.save_for_backward(*inputs[:5], *constants[-3:])
    ctx.directions, ctx.other_inputs = inputs[-1], len(inputs) - 5


def _backward(ctx, go, *_):
    """A tangent is a constant of the loss (it stands in a stop-gradient), so both operators share the value's."""
    if go is None:
        return (None,) * (5 + ctx.other_inputs)
    return *delta_backward(go, *ctx.saved_tensors, ctx.directions), *([None] * ctx.other_inputs)


delta.register_autograd(_backward, setup_context=_save)
delta_dual.register_autograd(_backward, setup_context=_save)
