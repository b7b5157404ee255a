"""Launches the Triton kernels of the delta rule. Imported only by `delta_ops`, when one of its operators runs."""

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from dbtm.kernels import triton_delta_kernels as kernels
from dbtm.kernels.delta_ops import chunk_size

COLUMNS = 32  # of the state that one program of the pass carries: enough programs where heads are few


class Launch:
    """Sizes of a call: (B, H, L, d) in chunks of C, in the given directions."""

    def __init__(self, k: Tensor, directions: Sequence[bool]):
        B, H, self.L, self.d = k.shape
        self.heads, self.parts, self.C = B * H, B * H * len(directions), chunk_size(self.L, 16)
        self.n = triton.cdiv(self.L, self.C)
        self.reversed = sum(1 << i for i, reverse in enumerate(directions) if reverse)
        self.lead = (len(directions), B, H)
        self.like = k
        precise = torch.get_float32_matmul_precision() == "highest"
        # three TF32 products make a float32's
        self.precision = "ieee" if torch.version.hip else "tf32x3" if precise else "tf32"
        self.block = max(16, triton.next_power_of_2(self.d))

    def blocks(self, *shape: int) -> Tensor:
        """Room for what lies between kernels, one block a chunk."""
        return self.like.new_empty((*self.lead, self.n, *shape), dtype=torch.float32)

    def rows(self, dtype: torch.dtype, *shape: int) -> Tensor:
        return self.like.new_empty((*self.lead, self.L, *shape), dtype=dtype)

    def warps(self, wide: int) -> int:
        """Four or more share a warp group's product, which on Hopper reads beyond tiles as narrow as a small head's
        (triton-lang/triton#10629): those go without.
        """
        return wide if self.block >= 64 else 2

    def chunks(self, kernel, *tensors: Tensor, warps: int = 4) -> None:
        """One program a chunk."""
        with torch.cuda.device_of(self.like):
            kernel[self.parts, self.n](
                *tensors, self.L, self.heads, self.reversed, C=self.C, D=self.d, BLOCK_D=self.block,
                PRECISION=self.precision, num_warps=self.warps(warps), num_stages=1,
            )  # fmt: skip

    def inverse(self, N: Tensor) -> Tensor:
        out = torch.empty_like(N)
        with torch.cuda.device_of(self.like):
            kernels.inverse_kernel[self.parts * self.n,](N, out, C=self.C, num_warps=1)
        return out

    def states(self, P: Tensor, Z: Tensor, back: bool = False) -> Tensor:
        """The pass over chunks: the state that enters each, or from the end."""
        S = torch.empty_like(Z)
        with torch.cuda.device_of(self.like):
            kernels.pass_kernel[self.parts, triton.cdiv(self.d, COLUMNS)](
                P, Z, S, CHUNKS=self.n, BACK=back, D=self.d, BLOCK_D=self.block, BLOCK_M=COLUMNS,
                PRECISION=self.precision, num_warps=self.warps(4), num_stages=2,
            )  # fmt: skip
        return S


def forward(
    inputs: Sequence[Tensor], tangents: Sequence[Tensor], directions: Sequence[bool]
) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor]:
    """o, do where tangents are given, and what the gradient needs: (I + N)^-1, U, S."""
    q, k, v, g, beta = (x.contiguous() for x in inputs)
    to = Launch(k, directions)
    C, d = to.C, to.d
    N, W, alone, P, Z = to.blocks(C, C), to.blocks(C, d), to.blocks(C, d), to.blocks(d, d), to.blocks(d, d)
    to.chunks(kernels.scores_kernel, k, g, beta, N)
    inverse = to.inverse(N)
    to.chunks(kernels.chunk_kernel, k, v, g, beta, inverse, W, alone, P, Z)
    S, U, o = to.states(P, Z), to.blocks(C, d), to.rows(v.dtype, d)
    to.chunks(kernels.output_kernel, q, k, g, W, alone, S, U, o)
    if not tangents:
        return o, None, inverse, U, S
    dq, dk, dv, dg, dbeta = (x.contiguous() for x in tangents)
    dU, dZ, do = alone, Z, torch.empty_like(o)  # the memory of what has been used
    to.chunks(kernels.tangent_chunk_kernel, k, v, g, beta, dk, dv, dg, dbeta, inverse, U, S, dU, dZ, warps=8)
    dS = to.states(P, dZ)
    to.chunks(kernels.tangent_output_kernel, q, k, g, dq, dk, dg, W, U, S, dU, dS, do, warps=8)
    return o, do, inverse, U, S


def backward(
    go: Tensor, inputs: Sequence[Tensor], inverse: Tensor, U: Tensor, S: Tensor, directions: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients towards q, k, v, g, beta, over all directions."""
    q, k, v, g, beta = (x.contiguous() for x in inputs)
    go, to = go.contiguous(), Launch(k, directions)
    C, d = to.C, to.d
    gU, P, gZ = to.blocks(C, d), to.blocks(d, d), to.blocks(d, d)
    to.chunks(kernels.gradient_chunk_kernel, q, k, g, beta, go, inverse, gU, P, gZ, warps=8)
    gS = to.states(P, gZ, back=True)
    gq, gk, gv = (to.rows(torch.float32, d) for _ in range(3))
    gg, gbeta = (to.rows(torch.float32) for _ in range(2))
    gR, parts = to.blocks(C, d), (to.blocks(C, d), to.blocks(C), to.blocks(C))
    to.chunks(kernels.gradient_state_kernel, k, v, g, beta, inverse, U, S, gU, gS, gR, gv, *parts, warps=8)
    to.chunks(kernels.gradient_output_kernel, q, k, g, beta, go, U, S, gR, *parts, gq, gk, gg, gbeta, warps=8)
    gq, gk, gv, gg, gbeta = (y.sum(0).to(x.dtype) for y, x in zip((gq, gk, gv, gg, gbeta), inputs, strict=True))
    return gq, gk, gv, gg, gbeta
