"""Launches the Triton kernels of the delta rule. Imported only by `delta_ops`, when one of its operators runs."""

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from dbtm.kernels import triton_delta_kernels as kernels
from dbtm.kernels.delta_ops import chunk_size, kept_dtype, like_inputs, like_output

COLUMNS = 32  # columns of the state per program of the pass: enough programs even for few heads


class Launch:
    """Sizes of a call, (3, B, H, L, d) in chunks of C, in the given directions; and the precision of products."""

    def __init__(self, qkv: Tensor, directions: Sequence[bool]):
        _, B, self.H, self.L, self.d = qkv.shape
        self.heads, self.parts, self.C = B * self.H, B * self.H * len(directions), chunk_size(self.L, 16)
        self.n = triton.cdiv(self.L, self.C)
        self.reversed = sum(1 << i for i, reverse in enumerate(directions) if reverse)
        self.lead = (len(directions), B, self.H)
        self.qkv = qkv if qkv.stride(-1) == 1 and torch.empty_like(qkv).stride() == qkv.stride() else qkv.contiguous()
        self.exact = "ieee" if torch.version.hip else "tf32x3"  # three TF32 products give float32 accuracy
        highest = torch.get_float32_matmul_precision() == "highest" or torch.version.hip
        self.precision = "bf16" if qkv.dtype == torch.bfloat16 else self.exact if highest else "tf32"
        self.kept = kept_dtype(qkv.dtype)
        self.block = max(16, triton.next_power_of_2(self.d))

    def like(self, tangents: Tensor) -> Tensor:
        """Tangents with the strides of q, k and v: the kernels use the same strides for all."""
        if tangents.stride() == self.qkv.stride():
            return tangents
        return torch.empty_like(self.qkv).copy_(tangents)

    def blocks(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """An empty tensor for intermediate results, one block per chunk."""
        return self.qkv.new_empty((*self.lead, self.n, *shape), dtype=dtype or self.kept)

    def warps(self) -> int:
        """With four or more warps, a Hopper GPU uses warp-group products, which read beyond the narrow tiles of small
        heads (triton-lang/triton#10629). Small heads and short chunks use fewer.
        """
        return 4 if min(self.block, self.C) >= 64 else 2

    def chunks(self, kernel, *tensors: Tensor) -> None:
        """One program per chunk."""
        with torch.cuda.device_of(self.qkv):
            kernel[self.parts, self.n](
                *tensors, self.L, self.H, self.heads, self.reversed, self.qkv.stride()[1:4],
                C=self.C, D=self.d, BLOCK_D=self.block, PRECISION=self.precision, num_warps=self.warps(), num_stages=1,
            )  # fmt: skip

    def inverses(self, k: Tensor, g: Tensor, beta: Tensor) -> Tensor:
        """(I + N)^-1 of every chunk."""
        N = self.blocks(self.C, self.C, dtype=torch.float32)
        out = torch.empty_like(N)
        self.chunks(kernels.scores_kernel, k, g, beta, N)
        with torch.cuda.device_of(self.qkv):
            kernels.inverse_kernel[self.parts * self.n,](N, out, C=self.C, PRECISION=self.exact, num_warps=1)
        return out

    def states(self, through: Tensor, P: Tensor, Z: Tensor, back: bool = False) -> Tensor:
        """The pass over chunks: the state before each, or backwards from the last chunk."""
        S = torch.empty_like(Z)
        with torch.cuda.device_of(self.qkv):
            kernels.pass_kernel[self.parts, triton.cdiv(self.d, COLUMNS)](
                through, P, Z, S, CHUNKS=self.n, BACK=back, D=self.d, BLOCK_D=self.block, BLOCK_M=COLUMNS,
                PRECISION=self.precision, num_warps=self.warps(), num_stages=2,
            )  # fmt: skip
        return S


def forward(
    qkv: Tensor, gates: Sequence[Tensor], tangents: Sequence[Tensor], directions: Sequence[bool]
) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor]:
    """o, do if tangents (dqkv, dg, dbeta) are given, and (I + N)^-1, U, S for the gradient."""
    to = Launch(qkv, directions)
    (q, k, v), (g, beta) = to.qkv, (x.contiguous() for x in gates)
    C, d = to.C, to.d
    inverse, through = to.inverses(k, g, beta), to.blocks(dtype=torch.float32)
    W, alone, P, Z = (to.blocks(rows, d) for rows in (C, C, d, d))
    to.chunks(kernels.chunk_kernel, k, v, g, beta, inverse, W, alone, through, P, Z)
    S, U, o = to.states(through, P, Z), to.blocks(C, d), like_output(qkv, directions)
    to.chunks(kernels.output_kernel, q, k, g, W, alone, S, U, o)
    if not tangents:
        return o, None, inverse, U, S
    dqkv, *dgates = tangents
    (dq, dk, dv), (dg, dbeta) = to.like(dqkv), (x.contiguous() for x in dgates)
    dU, dZ, do = alone, Z, torch.empty_like(o)  # reuse memory that is no longer needed
    to.chunks(kernels.tangent_chunk_kernel, k, v, g, beta, dk, dv, dg, dbeta, inverse, U, S, dU, dZ)
    dS = to.states(through, P, dZ)
    to.chunks(kernels.tangent_output_kernel, q, k, g, dq, dk, dg, W, U, S, dU, dS, do)
    return o, do, inverse, U, S


def backward(
    go: Tensor, qkv: Tensor, gates: Sequence[Tensor], inverse: Tensor, U: Tensor, S: Tensor, directions: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of qkv, g, beta, per direction."""
    to = Launch(qkv, directions)
    (q, k, v), (g, beta) = to.qkv, (x.contiguous() for x in gates)
    go = go.transpose(2, 3).contiguous()
    C, d = to.C, to.d
    gU, P, gZ, through = to.blocks(C, d), to.blocks(d, d), to.blocks(d, d), to.blocks(dtype=torch.float32)
    to.chunks(kernels.gradient_chunk_kernel, q, k, g, beta, go, inverse, gU, through, P, gZ)
    gS = to.states(through, P, gZ, back=True)
    gqkv, gg, gbeta = like_inputs(qkv, directions), *(x.new_empty(len(directions), *x.shape) for x in (g, beta))
    gq, gk, gv = gqkv.unbind(1)
    gR, parts = to.blocks(C, d), (to.blocks(C, d), *(to.blocks(C, dtype=torch.float32) for _ in range(2)))
    to.chunks(kernels.gradient_state_kernel, k, v, g, beta, inverse, U, S, gU, gS, gR, gv, *parts)
    to.chunks(kernels.gradient_output_kernel, q, k, g, beta, go, U, S, gR, *parts, gq, gk, gg, gbeta)
    return gqkv, gg, gbeta
