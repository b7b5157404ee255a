"""The head and its losses in chunks against dense logits, tangents and probabilities."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dbtm import losses
from dbtm.bench.timing import bandwidth, matrix_peak, milliseconds, peak_bytes
from dbtm.losses.head import chunked_head

# (name, N, D, V): rows of a batch, half of which have a loss
SIZES = [
    ("sudoku", 256 * 180, 512, 12),
    ("text", 256 * 128, 512, 8192),
    ("lm1b", 256 * 128, 768, 30522),
    ("owt", 16 * 1024, 768, 50257),
]
SMALL_SIZES = [("sudoku", 4 * 180, 64, 12), ("text", 256, 64, 2048)]


def measure(device: torch.device, repeats: int) -> Iterator[dict[str, Any]]:
    """Loss and gradients of transport and endpoint. The lower bound: 4 products of n V D at the measured peak, plus
    logits and tangents written once and read three times, and their gradient written and read twice, at the measured
    bandwidth.
    """
    gpu = device.type == "cuda"
    dtype = torch.bfloat16 if gpu else torch.float32
    peak, rate = matrix_peak(device, dtype), bandwidth(device)
    for name, N, D, V in SIZES if gpu else SMALL_SIZES:
        torch.manual_seed(0)
        h = torch.randn(N, D, device=device, dtype=dtype).requires_grad_()
        dh = torch.randn_like(h)
        W = (torch.randn(V, D, device=device) * D**-0.5).requires_grad_()
        b = torch.zeros(V, device=device, requires_grad=True)
        tokens = torch.randint(0, V, (N,), device=device)
        weight = (torch.rand(N, device=device) < 0.5).float() / N
        rows = weight.nonzero().squeeze(-1)

        def chunked(h=h, dh=dh, W=W, b=b, tokens=tokens, weight=weight, rows=rows) -> tuple[Tensor, ...]:
            return torch.autograd.grad(chunked_head(h, dh, W, b, tokens, weight, weight, rows=rows).loss, (h, W, b))

        def dense(h=h, dh=dh, W=W, b=b, tokens=tokens, weight=weight) -> tuple[Tensor, ...]:
            logits = (h @ W.to(h.dtype).T + b.to(h.dtype)).float()
            dlogits = (dh @ W.detach().to(h.dtype).T).float()
            per_row = losses.transport(logits, dlogits) + losses.endpoint(logits, tokens)
            return torch.autograd.grad((weight * per_row).sum(), (h, W, b))

        calls = {"chunked": chunked, "dense": dense}
        held = {kind: peak_bytes(call, device) / 2**30 for kind, call in calls.items()}
        taken = milliseconds(calls, device, repeats)
        n = len(rows)
        compute, traffic = 4 * 2 * n * D * V / peak, n * V * (2 * 4 * 4 + 3 * dtype.itemsize) / rate
        yield {
            "size": name,
            "rows": N,
            "width": D,
            "vocab": V,
            "ms": taken,
            "peak_gib": held,
            "speed": taken["dense"] / taken["chunked"],
            "memory": held["dense"] / held["chunked"],
            "floor_ms": {"compute": 1e3 * compute, "traffic": 1e3 * traffic},
        }
