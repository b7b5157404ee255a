"""The gated delta rule in chunks of 64 positions: batched matrix products, time and memory linear in L.

Within a chunk that starts at state S, let Gamma be the cumulative sum of the log gates g, and D_ij = e^(Gamma_i -
Gamma_j) for j <= i. Then the recurrence of `delta_reference` is a triangular system for all u of the chunk:

    (I + N) U = R      N_ij = beta_i D_ij k_i.k_j  (j < i)      R = beta (V - e^Gamma K S)
    O = e^Gamma Q S + (Q K^T * D) U                             S' = e^Gamma_C S + (e^(Gamma_C - Gamma) K)^T U

With W = (I + N)^-1 beta e^Gamma K the states obey S' = P S + Z: only this pass over chunks is sequential. The tangent
solves (I + N) dU = dR - dN U with the same factor and runs the same pass with the same P. The gradient is also written
by hand and runs the pass backwards with P^T. Autograd saves the inputs, (I + N)^-1, U and S; the rest is recomputed.

Everything is float32 or wider. Gamma is float64: after a strong decay, a float32 sum has no digits left for the
following gates. Only differences of Gamma are exponentiated, masked before exp, so nothing overflows.

This is the plain form, for any device and dtype. `triton_delta` implements the same formulas as a few kernels, which
multiply bfloat16 inputs in bfloat16 and keep gates, decays and inverses in float32.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from dbtm.core.device import wide
from dbtm.kernels import delta_ops
from dbtm.kernels.delta_ops import chunk_size, state_pass, unit_lower_inverse
from dbtm.kernels.dispatch import choose_delta, refuse_forward_mode
from dbtm.kernels.reference import widen


class Inputs(NamedTuple):
    """q, k, v, g, beta in chunks: (directions, B, H, n, C) and, for the first three, the head width."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    beta: Tensor


Three = Tensor | tuple[Tensor, Tensor, Tensor]  # q, k, v: one (3, B, H, L, d), or one tensor each
Pair = tuple[Tensor, Tensor]  # g, beta: (B, H, L)


def gated_delta(
    qkv: Three, gates: Pair, tangents: tuple[Three, Pair] | None = None, directions: tuple[bool, ...] = (False,)
) -> tuple[Tensor, Tensor | None]:
    """Value under autograd and, if tangents are given, the tangent as a constant; (len(directions), B, H, L, dv).

    q, k are (B, H, L, dk), v (B, H, L, dv), g and beta (B, H, L). A direction that is True scans from the last position
    to the first. Several directions in one call share their kernel launches. The kernels take q, k and v as one tensor.
    """
    q, k, v = qkv
    if (q.shape, q.dtype) == (v.shape, v.dtype) and choose_delta(q.is_cuda, q.dtype, q.shape[-1])[0] == "triton":
        refuse_forward_mode(q, k, v, *gates)
        if tangents is None:
            return delta_ops.delta(joined(qkv), *gates, list(directions))[0], None
        dqkv, dgates = tangents
        o, do, *_ = delta_ops.delta_dual(joined(qkv), *gates, joined(dqkv), *dgates, list(directions))
        return o, do
    if tangents is None:
        return _GatedDelta.apply(directions, q, k, v, *gates), None
    return _GatedDelta.apply(directions, q, k, v, *gates, *tangents[0], *tangents[1])


def joined(three: Three) -> Tensor:
    return three if isinstance(three, Tensor) else torch.stack(three)


class _GatedDelta(torch.autograd.Function):
    """o with its gradient, and do, which is never differentiated."""

    @staticmethod
    def forward(ctx, directions, *tensors):
        inputs, tangents = tensors[:5], tensors[5:]
        L, dtype = inputs[0].shape[2], inputs[2].dtype
        x = Inputs(*(chunk([t] * len(directions), directions) for t in inputs))
        parts = Parts.of(x)
        U, S, o = value(x, parts)
        ctx.directions = directions
        ctx.save_for_backward(*inputs, parts.inverse, U, S)
        # convert before the stack in `unchunk`: PyTorch 2.11 loses the gradient of a compiled forward that ends in a
        # conversion of a dtype to itself
        o = unchunk(o.to(dtype), directions, L)
        if not tangents:
            return o
        dx = Inputs(*(chunk([t] * len(directions), directions) for t in tangents))
        do = unchunk(tangent(x, dx, parts, U, S).to(dtype), directions, L)
        ctx.mark_non_differentiable(do)
        return o, do

    @staticmethod
    @once_differentiable  # saved tensors other than the inputs count as constant
    def backward(ctx, go, *_):
        *inputs, inverse, U, S = ctx.saved_tensors
        directions, L = ctx.directions, inputs[0].shape[2]
        x = Inputs(*(chunk([t] * len(directions), directions) for t in inputs))
        chunks = gradients(x, Parts.of(x, inverse), U, S, chunk(go.unbind(), directions))
        grads = [unchunk(y, directions, L).sum(0).to(t.dtype) for y, t in zip(chunks, inputs, strict=True)]
        return None, *grads, *([None] * (len(ctx.needs_input_grad) - 6))


def chunk(each: Sequence[Tensor], directions: tuple[bool, ...]) -> Tensor:
    """One (B, H, L, ...) tensor per direction to (directions, B, H, n, C, ...), in scan order, widened.

    The end of the scan is padded with zeros, which write nothing (beta = 0) and decay nothing (g = 0).
    """
    L = each[0].shape[2]
    size = chunk_size(L, 4)
    x = torch.stack([t.flip(2) if reverse else t for t, reverse in zip(each, directions, strict=True)])
    x = F.pad(widen(x)[0], (0, 0) * (x.ndim - 4) + (0, -L % size))
    return x.unflatten(3, (-1, size))


def unchunk(y: Tensor, directions: tuple[bool, ...], L: int) -> Tensor:
    """Back to (directions, B, H, L, ...), in sequence order."""
    y = y.flatten(3, 4)[:, :, :, :L]
    return torch.stack([t.flip(2) if reverse else t for t, reverse in zip(y.unbind(), directions, strict=True)])


class Parts(NamedTuple):
    """The terms shared by value, tangent and gradient. Factors of rows are columns: (..., C, 1)."""

    beta: Tensor  # (..., C, 1)
    start: Tensor  # e^Gamma, decay since the start of the chunk, (..., C, 1)
    end: Tensor  # e^(Gamma_C - Gamma), decay to its end, (..., C, 1)
    through: Tensor  # e^Gamma_C, decay through it, (..., 1, 1)
    D: Tensor  # decay from j to i, (..., C, C), lower triangle
    kk: Tensor  # D k k^T, below the diagonal
    qk: Tensor  # D q k^T
    inverse: Tensor  # (I + N)^-1
    W: Tensor  # (I + N)^-1 beta e^Gamma k
    P: Tensor  # (..., dk, dk) a chunk's transition of the state before it

    @classmethod
    def of(cls, x: Inputs, inverse: Tensor | None = None) -> "Parts":
        gamma = wide(x.g).cumsum(-1)
        start, end, through = (y.exp().to(x.k) for y in (gamma, gamma[..., -1:] - gamma, gamma[..., -1:]))
        start, end, through, beta = start[..., None], end[..., None], through[..., None], x.beta[..., None]
        upper = torch.ones(x.g.shape[-1:] * 2, dtype=torch.bool, device=x.g.device).triu(1)
        D = (gamma[..., :, None] - gamma[..., None, :]).to(x.k).masked_fill_(upper, -torch.inf).exp_()
        kk = ((x.k @ x.k.mT) * D).tril(-1)
        qk = (x.q @ x.k.mT) * D
        inverse = unit_lower_inverse(beta * kk) if inverse is None else inverse
        W = inverse @ (beta * start * x.k)
        identity = torch.eye(x.k.shape[-1], dtype=x.k.dtype, device=x.k.device)
        P = through * identity - (end * x.k).mT @ W
        return cls(beta, start, end, through, D, kk, qk, inverse, W, P)


def value(x: Inputs, c: Parts) -> tuple[Tensor, Tensor, Tensor]:
    """U and o of every position, and the state S before each chunk."""
    U_alone = c.inverse @ (c.beta * x.v)  # for a zero state before the chunk
    S = state_pass(c.P, (c.end * x.k).mT @ U_alone)
    U = U_alone - c.W @ S
    return U, S, (c.start * x.q) @ S + c.qk @ U


def tangent(x: Inputs, dx: Inputs, c: Parts, U: Tensor, S: Tensor) -> Tensor:
    """do: dU = (I + N)^-1 (dR - dN U), and dS' = P dS + dZ."""
    dgamma = wide(dx.g).cumsum(-1)
    slope = (dgamma[..., :, None] - dgamma[..., None, :]).to(S)  # dD / D
    to_end = (dgamma[..., -1:] - dgamma).to(S)[..., None]
    dgamma, dbeta = dgamma.to(S)[..., None], dx.beta[..., None]
    dk_k = dx.k @ x.k.mT
    dN = dbeta * c.kk + c.beta * ((dk_k + dk_k.mT) * c.D + slope * c.kk).tril(-1)
    dR = dbeta * (x.v - (c.start * x.k) @ S) + c.beta * (dx.v - (c.start * (dx.k + dgamma * x.k)) @ S)
    dU_alone = c.inverse @ (dR - dN @ U)  # for dS = 0 before the chunk
    dend_k = c.end * (dx.k + to_end * x.k)
    dZ = c.through * dgamma[..., -1:, :] * S + dend_k.mT @ U + (c.end * x.k).mT @ dU_alone
    dS = state_pass(c.P, dZ)
    dU = dU_alone - c.W @ dS
    dqk = (dx.q @ x.k.mT + x.q @ dx.k.mT) * c.D + slope * c.qk
    return (c.start * (dx.q + dgamma * x.q)) @ S + (c.start * x.q) @ dS + dqk @ U + c.qk @ dU


def gradients(x: Inputs, c: Parts, U: Tensor, S: Tensor, go: Tensor) -> Inputs:
    """Gradients of q, k, v, g, beta: the chain rule through the formulas above, last line first."""
    start_q, start_k, end_k = c.start * x.q, c.start * x.k, c.end * x.k
    gU = c.qk.mT @ go
    gZ = (start_q.mT @ go - c.W.mT @ gU).flip(3)
    gS = state_pass(c.P.mT.flip(3), gZ).flip(3)  # of the state after each chunk
    gR = c.inverse.mT @ (gU + end_k @ gS)
    gN = -(gR @ U.mT).tril(-1)
    gkk, gqk = c.beta * gN, go @ U.mT
    gstart_q, gstart_k, gend_k = go @ S.mT, -(c.beta * gR) @ S.mT, U @ gS.mT
    through_kk, through_qk = gkk * c.D, gqk * c.D
    gq = through_qk @ x.k + c.start * gstart_q
    gk = (through_kk + through_kk.mT) @ x.k + through_qk.mT @ x.q + c.start * gstart_k + c.end * gend_k
    gbeta = (gR * (x.v - start_k @ S)).sum(-1) + (gN * c.kk).sum(-1)
    glog_D = gkk * c.kk + gqk * c.qk
    glog_end = (gend_k * end_k).sum(-1)
    ggamma = glog_D.sum(-1) - glog_D.sum(-2) + (gstart_q * start_q + gstart_k * start_k).sum(-1) - glog_end
    glast = glog_end.sum(-1) + (c.through * gS * S).sum((-2, -1))
    gg = ggamma.flip(-1).cumsum(-1).flip(-1) + glast[..., None]
    return Inputs(gq, gk, c.beta * gR, gg, gbeta)
