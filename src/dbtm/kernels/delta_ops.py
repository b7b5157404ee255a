"""Custom operators of the chunked delta rule, opaque to torch.compile: `torch.ops.dbtm.*`.

Two steps of the plain form are operators because torch.compile would unroll their in-place batched matrix products
into long graphs. The Triton form is one operator.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

CHUNK = 64
GROUP = 16  # `state_pass` is sequential over this many chunks; with more than two groups, groups run in parallel


def chunk_size(L: int, least: int) -> int:
    """Positions per chunk: 64, or the power of two that fits a shorter sequence."""
    return min(CHUNK, max(least, 1 << (L - 1).bit_length()))


@torch.library.custom_op("dbtm::unit_lower_inverse", mutates_args=())
def unit_lower_inverse(N: Tensor) -> Tensor:
    """(I + N)^-1 for strictly lower triangular N (..., C, C), C = 4, 8, 16 ..., from blocks of 4, merged in pairs.

        [[A, 0], [L, B]]^-1 = [[A^-1, 0], [-B^-1 L A^-1, B^-1]]

    It costs a third of one C x C product and is as accurate as substitution. The shorter product form
    (I - N)(I + N^2)(I + N^4)... is exact only on paper: for similar keys, the powers of N grow like binomial
    coefficients and cancel, and at C = 64 no digit of a float32 is left. Here it is used only for blocks of 4.
    """
    C, precision = N.shape[-1], torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # TF32 would lose the accuracy of float32
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
    """S_0 = 0, S_{c+1} = P_c S_c + Z_c for P (..., n, d, d) and Z (..., n, d, m): the state before each chunk.

    Many chunks are processed in groups. All groups run in parallel, once from the identity and once from zero; this
    gives each group's transition P and increment Z. Then the groups run in sequence, and every chunk's state follows.
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
    """The pass chunk by chunk, for (rows, n, d, d) and (rows, n, d, m), from a given state."""
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
def delta(qkv: Tensor, g: Tensor, beta: Tensor, directions: list[bool]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """o (directions, B, H, L, d) for (3, B, H, L, d), and (I + N)^-1, U and S of every chunk for the gradient."""
    from dbtm.kernels import triton_delta

    o, _, inverse, U, S = triton_delta.forward(qkv, (g, beta), (), directions)
    return o, inverse, U, S


@torch.library.custom_op("dbtm::delta_dual", mutates_args=())
def delta_dual(
    qkv: Tensor, g: Tensor, beta: Tensor, dqkv: Tensor, dg: Tensor, dbeta: Tensor, directions: list[bool]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The same with the tangent do after o. Only o is differentiable, and only with respect to qkv, g, beta."""
    from dbtm.kernels import triton_delta

    o, do, inverse, U, S = triton_delta.forward(qkv, (g, beta), (dqkv, dg, dbeta), directions)
    assert do is not None
    return o, do, inverse, U, S


@torch.library.custom_op("dbtm::delta_backward", mutates_args=())
def delta_backward(
    go: Tensor, qkv: Tensor, g: Tensor, beta: Tensor, inverse: Tensor, U: Tensor, S: Tensor, directions: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """The value's gradients per direction: the caller adds them up."""
    from dbtm.kernels import triton_delta

    return triton_delta.backward(go, qkv, (g, beta), inverse, U, S, directions)


def kept_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of intermediate results and of what is saved for the gradient: bfloat16 for bfloat16 inputs, else
    float32.
    """
    return dtype if dtype == torch.bfloat16 else torch.float32


def like_output(qkv: Tensor, directions: Sequence[bool]) -> Tensor:
    """An empty (directions, B, H, L, d) tensor, stored as (directions, B, L, H, d)."""
    _, B, H, L, d = qkv.shape
    return qkv.new_empty(len(directions), B, L, H, d).transpose(2, 3)


def like_inputs(qkv: Tensor, directions: Sequence[bool]) -> Tensor:
    """An empty (directions, 3, B, H, L, d) tensor, stored as (directions, B, L, 3, H, d)."""
    three, B, H, L, d = qkv.shape
    return qkv.new_empty(len(directions), B, L, three, H, d).permute(0, 3, 1, 4, 2, 5)


def _kept(qkv: Tensor, directions: list[bool]) -> tuple[Tensor, Tensor, Tensor]:
    _, B, H, L, d = qkv.shape
    C = chunk_size(L, 16)
    lead, dtype = (len(directions), B, H, -(-L // C)), kept_dtype(qkv.dtype)
    inverse = qkv.new_empty(*lead, C, C, dtype=torch.float32)
    return inverse, qkv.new_empty(*lead, C, d, dtype=dtype), qkv.new_empty(*lead, d, d, dtype=dtype)


@delta.register_fake
def _(qkv, g, beta, directions):
    return like_output(qkv, directions), *_kept(qkv, directions)


@delta_dual.register_fake
def _(qkv, g, beta, dqkv, dg, dbeta, directions):
    return like_output(qkv, directions), like_output(qkv, directions), *_kept(qkv, directions)


@delta_backward.register_fake
def _(go, qkv, g, beta, inverse, U, S, directions):
    return like_inputs(qkv, directions), *(x.new_empty(len(directions), *x.shape) for x in (g, beta))


def _save(ctx, inputs, output):
    constants = output[1:]
    ctx.mark_non_differentiable(*constants)
    ctx.set_materialize_grads(False)  # of the constants, as large as the saved tensors
    ctx.save_for_backward(*inputs[:3], *constants[-3:])
    ctx.directions, ctx.other_inputs = inputs[-1], len(inputs) - 3


def _backward(ctx, go, *_):
    """A tangent is a constant of the loss (inside a stop-gradient), so both operators share the value's backward."""
    if go is None:
        return (None,) * (3 + ctx.other_inputs)
    grads = delta_backward(go, *ctx.saved_tensors, ctx.directions)
    return *(x.sum(0) for x in grads), *([None] * ctx.other_inputs)


delta.register_autograd(_backward, setup_context=_save)
delta_dual.register_autograd(_backward, setup_context=_save)
