"""Launches the Triton kernels of attention. Imported only by `ops`, when one of its operators runs."""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from dbtm.kernels.ops import like_heads
from dbtm.kernels.triton_kernels import backward_kv_kernel, backward_q_kernel, forward_kernel


@dataclass(frozen=True)
class Tiles:
    """Rows owned by a program, rows read at a time from the other side, warps, and stages of the load pipeline."""

    own: int
    other: int
    warps: int
    stages: int


def tiles(kernel: str, head_dim: int, dtype: torch.dtype) -> Tiles:
    """Tile sizes by kernel ("value", "dual", "backward_q", "backward_kv").

    A fixed table rather than autotuning: every run adds in the same order. For heads up to 64 at half precision, the
    entries were the best overall at five sizes (results/attention-tiles.json). The others follow from the limit of 255
    registers per thread: a program keeps its accumulators (own x head_dim, one or two) and the logits with their
    tangents (own x other, two or three) in float32.
    """
    if dtype == torch.float32:  # plain multiply-adds, no tensor cores: a thread holds whole rows of its operands
        return Tiles(16, 16, 4, 1) if head_dim <= 64 else Tiles(16, 16, 8, 1)
    if head_dim <= 64:
        return Tiles(64, 32, 4, 3) if kernel == "dual" else Tiles(64, 64, 4, 3)
    return {
        "value": Tiles(128, 64, 8, 2),
        "dual": Tiles(64, 32, 4, 2),
        "backward_q": Tiles(128, 64, 8, 2),
        "backward_kv": Tiles(128, 32, 8, 2),
    }[kernel]


def dense_rows(x: Tensor) -> Tensor:
    """x itself if its last axis is dense, as the kernels need; views of (B, L, 3, H, d) are not copied."""
    return x if x.stride(-1) == 1 else x.contiguous()


def constants(x: Tensor, softcap: float) -> dict[str, object]:
    """The compile-time constants of all kernels."""
    d = x.shape[-1]
    return {
        "SCALE": d**-0.5,
        "SOFTCAP": float(softcap),
        "HEAD_DIM": d,
        "BLOCK_D": max(16, triton.next_power_of_2(d)),
        "PRECISION": "ieee",
    }


def grid(x: Tensor, block: int) -> tuple[int]:
    """One program per block of rows of one head."""
    B, H, L, _ = x.shape
    return (triton.cdiv(L, block) * B * H,)


def forward(
    q: Tensor, k: Tensor, v: Tensor, tangents: tuple[Tensor, Tensor, Tensor] | None, softcap: float
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Value o, tangent do (None without tangents) and base-2 log-sum-exp (B, H, L), in one pass over the keys."""
    q, k, v = dense_rows(q), dense_rows(k), dense_rows(v)
    o, lse = like_heads(q), q.new_empty(q.shape[:-1], dtype=torch.float32)
    d_qkv, do = (q, k, v), None
    if tangents is not None:
        dq, dk, dv = tangents
        d_qkv, do = (dense_rows(dq), dense_rows(dk), dense_rows(dv)), like_heads(q)
    tile = tiles("value" if tangents is None else "dual", q.shape[-1], q.dtype)
    with torch.cuda.device_of(q):
        forward_kernel[grid(q, tile.own)](
            *(q, k, v),
            *d_qkv,
            *(o, o if do is None else do, lse),
            *(x.stride()[:3] for x in (q, k, v, *d_qkv, o)),
            *q.shape[1:3],
            **constants(q, softcap),
            TANGENT=tangents is not None,
            BLOCK_M=tile.own,
            BLOCK_N=tile.other,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
    return o, do, lse


def backward(
    go: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, softcap: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the value with respect to q, k, v, from the gradient go of o: logits recomputed, no atomics.

    Without a softcap PyTorch's flash attention could do it from the same o and log-sum-exp; on an H200 it is no faster
    at three of the measured sizes, and as fast at the fourth (results/attention-tiles.json).
    """
    go, q, k, v = dense_rows(go), dense_rows(q), dense_rows(k), dense_rows(v)
    gq, gk, gv, delta = like_heads(q), like_heads(k), like_heads(v), torch.empty_like(lse)
    by_q, by_kv = (tiles(kernel, q.shape[-1], q.dtype) for kernel in ("backward_q", "backward_kv"))
    with torch.cuda.device_of(q):
        backward_q_kernel[grid(q, by_q.own)](
            *(q, k, v, o, go, gq, lse, delta),
            *(x.stride()[:3] for x in (q, k, v, o, go, gq)),
            *q.shape[1:3],
            **constants(q, softcap),
            BLOCK_M=by_q.own,
            BLOCK_N=by_q.other,
            num_warps=by_q.warps,
            num_stages=by_q.stages,
        )
        backward_kv_kernel[grid(q, by_kv.own)](
            *(q, k, v, go, gk, gv, lse, delta),
            *(x.stride()[:3] for x in (q, k, v, go, gk, gv)),
            *q.shape[1:3],
            **constants(q, softcap),
            BLOCK_M=by_kv.other,
            BLOCK_N=by_kv.own,
            num_warps=by_kv.warps,
            num_stages=by_kv.stages,
        )
    return gq, gk, gv
