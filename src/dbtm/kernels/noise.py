"""x0 W without storing x0: noise is drawn for a few samples at a time, multiplied, and redrawn in the backward pass."""

import torch
from torch import Tensor

from dbtm.kernels.dispatch import no_triton
from dbtm.simplex.coupling import ot_cost
from dbtm.simplex.noise import Noise

BUDGET = 2**29  # bytes of noise that may exist at once
ALIGN = 64  # columns: GPUs use slow matrix products if rows are not a multiple of 16 bytes


def embed(noise: Noise, weight_VD: Tensor) -> Tensor:
    """x0 W, (B, L, D), in the dtype of W."""
    fits = len(noise) * noise.length * noise.vocab * weight_VD.element_size() <= BUDGET
    if noise.vocab <= ALIGN or (fits and not weight_VD.is_cuda):
        return draw(noise, weight_VD.dtype) @ weight_VD
    return _Embed.apply(noise, weight_VD)


def coupling_cost(noise: Noise, tokens_BL: Tensor, target_BL: Tensor) -> Tensor:
    """`simplex.ot_cost`, (B, B), from only the needed entries of x0."""
    if not no_triton(noise.key.is_cuda, noise.dtype, 0):
        from dbtm.kernels import triton_noise

        return triton_noise.cost(noise, tokens_BL, target_BL)
    return ot_cost(noise, tokens_BL, target_BL)


def draw(noise: Noise, dtype: torch.dtype, columns: int | None = None) -> Tensor:
    """x0 rounded to a dtype, (B, L, columns), with zeros beyond the vocabulary."""
    columns = columns or noise.vocab
    if not no_triton(noise.key.is_cuda, dtype, 0):
        from dbtm.kernels import triton_noise

        return triton_noise.draw(noise, dtype, columns)
    return torch.nn.functional.pad(noise.dense().to(dtype), (0, columns - noise.vocab))


def _chunks(noise: Noise, dtype: torch.dtype, columns: int):
    """(rows, x0 of these rows) for as many samples at a time as fit the budget."""
    at_once = max(1, BUDGET // (noise.length * columns * dtype.itemsize))
    for first in range(0, len(noise), at_once):
        rows = slice(first, min(first + at_once, len(noise)))
        yield rows, draw(noise[rows], dtype, columns).flatten(0, 1)


class _Embed(torch.autograd.Function):
    """x0 W with the gradient x0^T g of W."""

    @staticmethod
    def forward(ctx, noise: Noise, weight_VD: Tensor) -> Tensor:
        ctx.noise, ctx.kind = noise, (weight_VD.shape, weight_VD.dtype)
        columns = noise.vocab + -noise.vocab % ALIGN
        padded = torch.nn.functional.pad(weight_VD, (0, 0, 0, columns - noise.vocab))
        out = weight_VD.new_empty(len(noise), noise.length, weight_VD.shape[1])
        for rows, x0 in _chunks(noise, weight_VD.dtype, columns):
            torch.mm(x0, padded, out=out[rows].view(-1, weight_VD.shape[1]))
        return out

    @staticmethod
    def backward(ctx, gradient_BLD: Tensor) -> tuple[None, Tensor]:
        noise, ((V, D), dtype) = ctx.noise, ctx.kind
        wide = torch.promote_types(dtype, torch.float32)
        columns = V + -V % ALIGN
        total = gradient_BLD.new_zeros(columns, D, dtype=wide)
        for rows, x0 in _chunks(noise, dtype, columns):
            total += x0.T @ gradient_BLD[rows].reshape(-1, D).to(dtype)
        return None, total[:V].to(dtype)
