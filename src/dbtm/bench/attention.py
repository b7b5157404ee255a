"""Attention with its tangent: every backend at the paper's shapes, and a four-block step against torch.func.jvp."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.exc import TorchDynamoException
from torch.func import jvp

from dbtm import losses
from dbtm.bench.timing import matrix_peak, milliseconds, peak_bytes, replayed
from dbtm.config import ModelConfig, Shape
from dbtm.evals.cost import map_flops
from dbtm.kernels.dispatch import attention, choose, force, no_triton
from dbtm.losses.head import chunked_head
from dbtm.nn import Backbone
from dbtm.simplex import interpolate

# (name, B, H, L, d, softcap)
SHAPES = [
    ("sudoku-paper", 256, 8, 180, 64, 50.0),
    ("lm1b", 256, 12, 128, 64, 50.0),
    ("owt", 64, 12, 1024, 64, 50.0),
    ("owt, no softcap", 64, 12, 1024, 64, 0.0),
    ("wide heads", 32, 8, 1024, 128, 50.0),
]
SMALL_SHAPES = [("small", 4, 4, 128, 32, 50.0), ("small, no softcap", 4, 4, 128, 32, 0.0)]
# (B, L, V) of the paper's comparison on an A100, with its fused kernel's speed-up and memory saving
STEPS = [(64, 128, 12, 1.2, 1.4), (8, 1024, 8192, 1.7, 3.7)]
SMALL_STEPS = [(4, 32, 12, 1.2, 1.4), (1, 128, 512, 1.7, 3.7)]


def backends(softcap: float, device: torch.device, dtype: torch.dtype, d: int) -> list[str]:
    """The backends that support these inputs, the reference last."""
    fused = [] if no_triton(device.type == "cuda", dtype, d) else ["triton"]
    return [*fused, *([] if softcap else ["sdpa"]), "reference"]


def measure_shapes(device: torch.device, repeats: int) -> Iterator[dict[str, Any]]:
    """Value, value with tangent, and both with backward, in milliseconds. The lower bound counts 2 B H L^2 d FLOPs per
    product at the measured peak: 2 products for the value, 4 more for the tangent, 7 for the backward pass. On a GPU
    the calls are replayed as CUDA graphs.
    """
    gpu = device.type == "cuda"
    dtype = torch.bfloat16 if gpu else torch.float32
    peak = matrix_peak(device, dtype)
    for name, B, H, L, d, softcap in SHAPES if gpu else SMALL_SHAPES:
        q, k, v = torch.randn(3, B, H, L, d, device=device, dtype=dtype)
        leaves, go = [x.requires_grad_() for x in (q.clone(), k.clone(), v.clone())], torch.randn_like(q)
        tangents = tuple(torch.randn_like(q) for _ in range(3))
        calls: dict[str, Callable[[], object]] = {}
        for backend in backends(softcap, device, dtype, d):
            if backend == "reference" and B * H * L * L > 2**29:
                continue  # its logits and tangents would not fit into memory
            calls |= _calls(backend, leaves, tangents, go, softcap)
        product = 2e3 * B * H * L * L * d / peak
        floor = {"value": 2 * product, "dual": 6 * product, "dual step": 13 * product}
        taken = milliseconds(replayed(calls, device), device, repeats)
        yield {
            "shape": name,
            "size": [B, H, L, d],
            "softcap": softcap,
            "chosen": choose(softcap, True, gpu, dtype, d)[0],
            "floor_ms": floor,
            "ms": taken,
        }


def _calls(
    backend: str, leaves: list[Tensor], tangents: tuple, go: Tensor, softcap: float
) -> dict[str, Callable[[], object]]:
    def value(tangents=None) -> Tensor:
        q, k, v = leaves
        with force(backend):
            return attention(q, k, v, tangents, softcap)[0]

    return {
        f"{backend} value": value,
        f"{backend} dual": lambda: value(tangents),
        f"{backend} value step": lambda: torch.autograd.grad(value(), leaves, go),
        f"{backend} dual step": lambda: torch.autograd.grad(value(tangents), leaves, go),
    }


def measure_steps(device: torch.device, repeats: int) -> Iterator[dict[str, Any]]:
    """The transport step of a four-block DiT (width 512, 8 heads, no softcap, like the paper's kernel): ours against
    the same loss through torch.func.jvp, which also keeps a graph of the tangent.

    On a CPU both run eagerly. On a GPU they are also replayed as CUDA graphs, and compiled and replayed, as in our
    trainer. `speed` and `memory` compare the fastest mode of each; if PyTorch cannot compile one, `refused` has the
    reason. The lower bound is `step_flops` at the measured matrix peak.
    """
    gpu = device.type == "cuda"
    peak = matrix_peak(device, torch.bfloat16 if gpu else torch.float32)
    for B, L, V, speed, memory in STEPS if gpu else SMALL_STEPS:
        width, heads = (512, 8) if gpu else (64, 4)
        config, shape = ModelConfig(width=width, depth=4, heads=heads, dropout=0.0, softcap=0.0), Shape(V, L)
        tokens, noise = torch.randint(0, V, (B, L), device=device), torch.randn(B, L, V, device=device)
        clean, t = torch.zeros_like(tokens, dtype=torch.bool), torch.rand(B, 1, device=device).expand(B, L)
        state = interpolate(tokens, noise, clean, t)
        taken: dict[str, dict[str, float]] = {}
        held: dict[str, dict[str, float]] = {}
        refused: dict[str, str] = {}
        for way in ("plain", "replayed", "compiled") if gpu else ("plain",):
            calls: dict[str, Callable[[], object]] = {}
            for name, build in (("ours", _ours), ("jvp", _by_jvp)):
                torch.manual_seed(0)
                model = Backbone(shape, config).to(device)
                if gpu:
                    model.compute_dtype = torch.bfloat16
                call = build(model, state, way == "compiled")
                try:
                    call()  # allocates the gradients, which are not counted
                except TorchDynamoException as error:
                    lines = [line for line in str(error).splitlines() if "Error" in line]
                    refused[name] = lines[-1] if lines else type(error).__name__
                    continue
                calls[name] = call
            held[way] = {name: peak_bytes(call, device) / 2**30 for name, call in calls.items()}
            taken[way] = milliseconds(calls if way == "plain" else replayed(calls, device), device, repeats)
        best = {
            name: min((w for w in taken if name in taken[w]), key=lambda w: taken[w][name]) for name in ("ours", "jvp")
        }
        yield {
            "size": [B, L, V],
            "ms": taken,
            "peak_gib": held,
            "floor_ms": 1e3 * B * step_flops(config, shape) / peak,
            "best": best,
            "refused": refused,
            "speed": taken[best["jvp"]]["jvp"] / taken[best["ours"]]["ours"],
            "memory": held[best["jvp"]]["jvp"] / held[best["ours"]]["ours"],
            "paper_speed": speed,
            "paper_memory": memory,
        }


def step_flops(config: ModelConfig, shape: Shape) -> int:
    """FLOPs of the matrix products of a transport step of one sequence: value, tangent, and two for the gradient, in
    the blocks and the head; and of the embedding x0 W and its gradient.
    """
    product = 2 * shape.length * shape.vocab * config.width
    return 4 * (map_flops(config, shape) - 2 * product) + (4 + 2) * product


def _ours(model: Backbone, state, compiled: bool) -> Callable[[], None]:
    """State in parts, our tangents, the head in chunks."""
    weight = torch.full((state.tokens.numel(),), 1 / state.tokens.numel(), device=state.tokens.device)
    rows = torch.arange(len(weight), device=weight.device)
    if compiled:
        model.compile_layers(dynamic=False)

    def step() -> None:
        trunk, dtrunk = model.hidden(*model.embed(state))
        assert dtrunk is not None
        h, dh, tokens = trunk.flatten(0, 1), dtrunk.flatten(0, 1), state.tokens.flatten()
        read = chunked_head(h, dh, model.head.weight, model.head.bias, tokens, weight, weight * 0, rows=rows)
        read.loss.backward()

    return step


def _by_jvp(model: Backbone, state, compiled: bool) -> Callable[[], None]:
    """Dense state and velocity through torch.func.jvp, which needs plain attention."""
    x, dx = state.dense(), state.velocity()

    def loss() -> Tensor:
        logits, dlogits = jvp(lambda x: model.logits(model.embed_dense(x)[0])[0], (x,), (dx,))  # type: ignore[misc]
        return losses.transport(logits, dlogits).mean()

    if compiled:
        loss = torch.compile(loss, dynamic=False)

    def step() -> None:
        with force("reference"):
            loss().backward()

    return step
