"""Launches the Triton kernels of the delta rule. Imported only by `delta_ops`, when one of its operators runs."""

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from dbtm.kernels import triton_delta_kernels as kernels
from dbtm.kernels.delta_ops import between, chunk_size, like_inputs, like_output

COLUMNS = 32  # of the state that one program of the pass carries: enough programs where heads are few


class Launch:
    """Sizes of a call: three times (B, H, L, d) in chunks of C, in the given directions; and how products are made."""

    def __init__(self, qkv: Tensor, directions: Sequence[bool]):
        _, B, self.H, self.L, self.d = qkv.shape
        self.heads, self.parts, self.C = B * self.H, B * self.H * len(directions), chunk_size(self.L, 16)
        self.n = triton.cdiv(self.L, self.C)
        self.reversed = sum(1 << i for i, reverse in enumerate(directions) if reverse)
        self.lead = (len(directions), B, self.H)
        self.like = qkv if qkv.stride(-1) == 1 else qkv.contiguous()
        self.exact = "ieee" if torch.version.hip else "tf32x3"  # three TF32 products make a float32's
        highest = torch.get_float32_matmul_precision() == "highest" or torch.version.hip
        self.precision = "bf16" if qkv.dtype == torch.bfloat16 else self.exact if highest else "tf32"
        self.between = between(qkv.dtype)
        self.block = max(16, triton.next_power_of_2(self.d))

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """q, k, v, or their tangents, with the strides of the first that were given: all kernels take the same."""
        if x.stride() != self.like.stride():
            x = torch.empty_strided(x.shape, self.like.stride(), dtype=x.dtype, device=x.device).copy_(x)
        return x.unbind()

    def blocks(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Room for what lies between kernels, one block a chunk."""
        return self.like.new_empty((*self.lead, self.n, *shape), dtype=dtype or self.between)

    def warps(self) -> int:
        """Four or more share a warp group's product, which on Hopper reads beyond tiles as narrow as a small head's
        (triton-lang/triton#10629): those go without.
        """
        return 4 if self.block >= 64 else 2

    def chunks(self, kernel, *tensors: Tensor) -> None:
        """One program a chunk."""
        with torch.cuda.device_of(self.like):
            kernel[self.parts, self.n](
                *tensors, self.L, self.H, self.heads, self.reversed, self.like.stride()[1:4],
                C=self.C, D=self.d, BLOCK_D=self.block, PRECISION=self.precision, num_warps=self.warps(), num_stages=1,
            )  # fmt: skip

    def inverse(self, N: Tensor) -> Tensor:
        out = torch.empty_like(N)
        with torch.cuda.device_of(self.like):
            kernels.inverse_kernel[self.parts * self.n,](N, out, C=self.C, PRECISION=self.exact, num_warps=1)
        return out

    def states(self, P: Tensor, Z: Tensor, back: bool = False) -> Tensor:
        """The pass over chunks: the state that enters each, or from the end."""
        S = torch.empty_like(Z)
        with torch.cuda.device_of(self.like):
            kernels.pass_kernel[self.parts, triton.cdiv(self.d, COLUMNS)](
                P, Z, S, CHUNKS=self.n, BACK=back, D=self.d, BLOCK_D=self.block, BLOCK_M=COLUMNS,
                PRECISION=self.precision, num_warps=self.warps(), num_stages=2,
            )  # fmt: skip
        return S


def forward(
    qkv: Tensor, gates: Sequence[Tensor], tangents: Sequence[Tensor], directions: Sequence[bool]
) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor]:
    """o, do where tangents (dqkv, dg, dbeta) are given, and what the gradient needs: (I + N)^-1, U, S."""
    to = Launch(qkv, directions)
    (q, k, v), (g, beta) = to.split(qkv), (x.contiguous() for x in gates)
    C, d = to.C, to.d
    N, W, alone, P, Z = to.blocks(C, C, dtype=torch.float32), *(to.blocks(rows, d) for rows in (C, C, d, d))
    to.chunks(kernels.scores_kernel, k, g, beta, N)
    inverse = to.inverse(N)
    to.chunks(kernels.chunk_kernel, k, v, g, beta, inverse, W, alone, P, Z)
    S, U, o = to.states(P, Z), to.blocks(C, d), like_output(qkv, directions)
    to.chunks(kernels.output_kernel, q, k, g, W, alone, S, U, o)
    if not tangents:
        return o, None, inverse, U, S
    dqkv, *dgates = tangents
    (dq, dk, dv), (dg, dbeta) = to.split(dqkv), (x.contiguous() for x in dgates)
    dU, dZ, do = alone, Z, torch.empty_like(o)  # the memory of what has been used
    to.chunks(kernels.tangent_chunk_kernel, k, v, g, beta, dk, dv, dg, dbeta, inverse, U, S, dU, dZ)
    dS = to.states(P, dZ)
    to.chunks(kernels.tangent_output_kernel, q, k, g, dq, dk, dg, W, U, S, dU, dS, do)
    return o, do, inverse, U, S


def backward(
    go: Tensor, qkv: Tensor, gates: Sequence[Tensor], inverse: Tensor, U: Tensor, S: Tensor, directions: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients towards qkv, g, beta, of each direction."""
    to = Launch(qkv, directions)
    (q, k, v), (g, beta) = to.split(qkv), (x.contiguous() for x in gates)
    go = go.transpose(2, 3).contiguous()
    C, d = to.C, to.d
    gU, P, gZ = to.blocks(C, d), to.blocks(d, d), to.blocks(d, d)
    to.chunks(kernels.gradient_chunk_kernel, q, k, g, beta, go, inverse, gU, P, gZ)
    gS = to.states(P, gZ, back=True)
    gqkv, gg, gbeta = like_inputs(qkv, directions), *(x.new_empty(len(directions), *x.shape) for x in (g, beta))
    gq, gk, gv = gqkv.unbind(1)
    gR, parts = to.blocks(C, d), (to.blocks(C, d), *(to.blocks(C, dtype=torch.float32) for _ in range(2)))
    to.chunks(kernels.gradient_state_kernel, k, v, g, beta, inverse, U, S, gU, gS, gR, gv, *parts)
    to.chunks(kernels.gradient_output_kernel, q, k, g, beta, go, U, S, gR, *parts, gq, gk, gg, gbeta)
    return gqkv, gg, gbeta
