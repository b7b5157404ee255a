"""Checks and times the Triton kernels on one GPU: python benchmarks/kernels_on_gpu.py [--json FILE] [--tiles].

Attention: value, tangent and gradients against float64, then milliseconds of every backend beside the floor that the
measured matrix peak allows. Head: the chunked sweep against the dense head, time and peak memory. Tests of the same on
a GPU: pytest tests/kernels tests/losses/test_head.py (they run the compiled kernels where there is one).
"""

import argparse
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor
from triton.runtime.errors import OutOfResources

from dbtm import losses
from dbtm.evals.provenance import made
from dbtm.kernels import reference, triton_attention
from dbtm.kernels.dispatch import attention, force
from dbtm.kernels.triton_attention import Tiles
from dbtm.losses.head import chunked_head

# (name, B, H, L, d, softcap)
SHAPES = [
    ("sudoku", 256, 8, 180, 64, 0.0),
    ("sudoku, softcap", 256, 8, 180, 64, 50.0),
    ("lm1b", 256, 12, 128, 64, 50.0),
    ("owt", 64, 12, 1024, 64, 50.0),
    ("owt, no softcap", 64, 12, 1024, 64, 0.0),
    ("wide heads", 32, 8, 1024, 128, 50.0),
]
# (name, N, D, V, fraction of rows with a loss)
HEADS = [("sudoku", 256 * 180, 512, 12, 0.5), ("lm1b", 256 * 128, 768, 30522, 0.5), ("owt", 16 * 1024, 768, 50257, 0.5)]


def milliseconds(run: Callable[[], object], repeats: int = 20) -> float:
    """Median time of a call, after three to warm up."""
    times = []
    for i in range(repeats + 3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        if i >= 3:
            times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def peak_memory(run: Callable[[], object]) -> float:
    """GiB that a call takes beyond what was there before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def matrix_peak() -> float:
    """bf16 TFLOP/s of a large square product, measured."""
    n = 8192
    a = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
    return 2 * n**3 / milliseconds(lambda: a @ a) / 1e9


def cosine(a: Tensor, b: Tensor) -> float:
    a, b = a.double().flatten(), b.double().flatten()
    return float(a @ b / (a.norm() * b.norm()))


def qkv(B: int, H: int, L: int, d: int, dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    return list(torch.randn(B, L, 3, H, d, device="cuda", dtype=dtype).permute(2, 0, 3, 1, 4))


def check_attention() -> list[dict]:
    """1 - cosine of o, do, gq, gk, gv against float64, worst over shapes; 1e-5 is the bar."""
    rows = []
    for dtype, softcap, scale in itertools.product(
        (torch.bfloat16, torch.float16, torch.float32), (0.0, 50.0), (1.0, 30.0)
    ):
        worst = dict.fromkeys(("o", "do", "gq", "gk", "gv"), 0.0)
        for L, d in ((33, 48), (128, 64), (180, 32), (180, 128), (1024, 64)):
            torch.manual_seed(L)
            q, k, v = qkv(2, 3, L, d, dtype)
            tangents, go = qkv(2, 3, L, d, dtype), torch.randn_like(q)
            leaves = [x.detach().requires_grad_() for x in (q * scale, k, v)]
            with force("triton"):
                o, do = attention(*leaves, tuple(tangents), softcap)
            got = (o, do, *torch.autograd.grad(o, leaves, go))
            wide = [x.detach().double().requires_grad_() for x in leaves]
            value = reference.attention(*wide, softcap)
            tangent = reference.attention_tangent(*wide, *(x.double() for x in tangents), softcap=softcap)[1]
            want = (value, tangent, *torch.autograd.grad(value, wide, go.double()))
            for name, g, w in zip(worst, got, want, strict=True):
                worst[name] = max(worst[name], 1 - cosine(g, w.detach()))
        rows.append(show({"dtype": str(dtype), "softcap": softcap, "scale": scale, **worst}))
    return rows


def time_attention(peak: float, name: str, B: int, H: int, L: int, d: int, softcap: float) -> dict:
    """Forward, forward with tangent, and both with backward. The floor: 2 B H L^2 d FLOPs a product, at the peak."""
    leaves, tangents = [x.detach().requires_grad_() for x in qkv(B, H, L, d)], tuple(qkv(B, H, L, d))
    go = torch.randn(B, L, H, d, device="cuda", dtype=torch.bfloat16).transpose(1, 2)

    def value() -> Tensor:
        return attention(*leaves, None, softcap)[0]

    def dual() -> Tensor:
        return attention(*leaves, tangents, softcap)[0]

    product = 2e-9 * B * H * L * L * d / peak
    row: dict = {"shape": name, "floor_value": 2 * product, "floor_dual": 6 * product, "floor_dual_step": 13 * product}
    for backend in ("triton", "reference") if softcap else ("triton", "sdpa", "reference"):
        if backend == "reference" and B * H * L * L > 2**29:
            continue  # its logits and their tangents would fill the memory
        with force(backend):
            row[f"{backend}_value"] = milliseconds(value)
            row[f"{backend}_dual"] = milliseconds(dual)
            row[f"{backend}_value_step"] = milliseconds(lambda: torch.autograd.grad(value(), leaves, go))
            row[f"{backend}_dual_step"] = milliseconds(lambda: torch.autograd.grad(dual(), leaves, go))
    return row


def time_head(peak: float, name: str, N: int, D: int, V: int, fraction: float) -> dict:
    """Loss and gradients of transport and endpoint by the sweep and by the dense head on all rows."""
    torch.manual_seed(0)
    h = torch.randn(N, D, device="cuda", dtype=torch.bfloat16).requires_grad_()
    dh = torch.randn(N, D, device="cuda", dtype=torch.bfloat16)
    W = (torch.randn(V, D, device="cuda") * D**-0.5).requires_grad_()
    b = torch.zeros(V, device="cuda", requires_grad=True)
    tokens = torch.randint(0, V, (N,), device="cuda")
    weight = (torch.rand(N, device="cuda") < fraction).float() / N
    visited = weight.nonzero().squeeze(-1)

    def chunked() -> tuple[Tensor, ...]:
        loss = chunked_head(h, dh, W, b, tokens, weight, weight, rows=visited).loss
        return loss, *torch.autograd.grad(loss, (h, W, b))

    def dense() -> tuple[Tensor, ...]:
        logits = (h @ W.to(h.dtype).T + b.to(h.dtype)).float()
        dlogits = (dh @ W.detach().to(h.dtype).T).float()
        loss = (weight * (losses.transport(logits, dlogits) + losses.endpoint(logits, tokens))).sum()
        return loss, *torch.autograd.grad(loss, (h, W, b))

    got, want = chunked(), dense()
    row: dict = {"head": name, "loss_error": abs((got[0] / want[0]).item() - 1)}
    row |= {f"cosine_{leaf}": cosine(g, w) for leaf, g, w in zip("hWb", got[1:], want[1:], strict=True)}
    del got, want
    row["floor_ms"] = 4 * 2e-9 * len(visited) * D * V / peak
    for label, run in (("chunked", chunked), ("dense", dense)):
        row[f"{label}_ms"], row[f"{label}_GiB"] = milliseconds(run, 10), peak_memory(run)
    return row


def time_tile(tile: Tiles, name: str, B: int, H: int, L: int, d: int, softcap: float) -> dict:
    """Milliseconds of value, dual and backward with one tile size for all: what the table in `tiles` should hold."""
    q, k, v = qkv(B, H, L, d)
    tangents = tuple(qkv(B, H, L, d))
    o, _, lse = triton_attention.forward(q, k, v, None, softcap)
    row: dict = {"shape": name, "tile": str(tile)}
    with patch.object(triton_attention, "tiles", lambda *_: tile):
        for label, run in (
            ("value", lambda: triton_attention.forward(q, k, v, None, softcap)),
            ("dual", lambda: triton_attention.forward(q, k, v, tangents, softcap)),
            ("backward", lambda: triton_attention.backward(o, q, k, v, o, lse, softcap)),
        ):
            try:
                row[label] = milliseconds(run, 5)
            except OutOfResources:
                row[label] = "more shared memory than there is"
    return row


def show(row: dict) -> dict:
    print({key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiles", action="store_true", help="also sweep tile sizes (a few minutes)")
    options = parser.parse_args()
    peak = matrix_peak()
    result: dict = {**made(torch.device("cuda")), "bf16_peak_tflops": peak}
    show(result)
    result["attention_accuracy"] = check_attention()
    result["attention_ms"] = [show(time_attention(peak, *shape)) for shape in SHAPES]
    result["head"] = [show(time_head(peak, *shape)) for shape in HEADS]
    if options.tiles:
        sizes = itertools.product((64, 128), (32, 64, 128), (4, 8), (1, 2, 3))
        shapes = (SHAPES[1], SHAPES[3], SHAPES[5])
        result["tiles"] = [show(time_tile(Tiles(*size), *shape)) for size in sizes for shape in shapes]
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
