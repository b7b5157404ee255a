"""A training step against a plain cross-entropy step of the same batch and backbone: time, memory, lower bound."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from dbtm.bench.timing import bandwidth, matrix_peak, milliseconds, peak_bytes
from dbtm.config import RunConfig, Shape
from dbtm.core import rng
from dbtm.core.graphs import WARM_UP
from dbtm.evals.step_cost import boundary_share, head_rows, posterior_share, settings, step_flops
from dbtm.methods.base import Examples, backward
from dbtm.methods.dbtm import DBTM, DistillConfig, LossConfig, Options, PosteriorConfig, QualityConfig, RilConfig
from dbtm.train.graph import GraphedBackward

BOUNDARY = 1 / 8  # share of rows with the boundary loss
OURS = "transport + anchor + boundary"


@dataclass(frozen=True)
class StepTiming:
    """One kind of step: gradients of one batch, without the optimizer, which is the same for all."""

    step: str
    ms: float
    ratio_vs_ce: float
    peak_gib: float
    flops: float  # of the matrix products, counted by hand
    floor_ms: float  # time of the hand-counted FLOPs and bytes at the measured matrix peak and bandwidth
    share_of_peak: float  # FLOPs of the step per second, relative to the measured peak
    head_rows: float  # positions visited by the head, relative to those of the batch


def kinds(config: RunConfig) -> dict[str, RunConfig]:
    """The plain step (one pass at I_t, cross-entropy at every target position), ours, and ours with four rounds.

    Coupling is independent and the quality head is off in all of them, so that they differ only in the objective.
    """
    given = settings(config)
    path = replace(given.path, coupling="independent")
    base = replace(given, path=path, posterior=PosteriorConfig(), ril=RilConfig(), distill=DistillConfig())
    base = replace(base, quality=QualityConfig(enabled=False))
    weights = replace(given.loss, semigroup=0.0, quality=0.0, interpolant_fraction=1.0, boundary_fraction=BOUNDARY)
    weights = replace(weights, transport=1.0, anchor=1.0, boundary=1.0)
    ours = replace(base, loss=weights)
    plain = LossConfig(transport=0.0, boundary=0.0, quality=0.0, anchor=1.0, endpoint_r=0.0)
    steps = {
        "cross-entropy": replace(base, loss=plain, path=replace(path, t_anchor=0.0, context=False)),
        OURS: ours,
        "boundary on all rows": replace(base, loss=replace(weights, boundary_fraction=1.0)),
        "with ril, k = 4": replace(ours, ril=RilConfig(weight=1.0, depths=(4,))),
    }
    return {name: replace(config, method=method, sample=Options()) for name, method in steps.items()}


def step_bytes(config: RunConfig, batch: int, width: int) -> float:
    """Least memory traffic in bytes: activations of the blocks, written once and read once, per forward and backward.

    A block saves q, k, v, the mixed values and the residual (6 D) and the feed-forward's 2 f D, in `width` bytes each.
    """
    model, method = config.model, settings(config)
    block = batch * config.task.length * model.width * (6 + 2 * model.ffn) * width * 2
    passes = (3 + bool(method.loss.transport)) * method.loss.interpolant_fraction
    passes += 3 * (boundary_share(config) + posterior_share(config))
    passes += 3 * (sum(method.ril.depths) if method.ril.weight else 0)
    return block * model.depth * model.loops * passes


def random_examples(shape: Shape, batch: int, device: torch.device) -> Examples:
    """Random tokens: the cost of a step does not depend on them."""
    torch.manual_seed(0)
    tokens = torch.randint(0, shape.vocab, (batch, shape.length), device=device)
    return Examples(tokens, torch.zeros_like(tokens, dtype=torch.bool), rng.fold(0, torch.arange(batch)).to(device), 0)


def prepare(config: RunConfig, batch: int, device: torch.device, compiled: bool, graphed: bool) -> Callable[[], Any]:
    """One step as a call, optionally compiled and recorded, after warm-up."""
    method = DBTM(config).start()
    method.network.to(device).train()
    if device.type == "cuda":
        method.network.compute_dtype = torch.bfloat16
    if compiled:
        method.network.compile_layers(dynamic=False)
    examples = random_examples(config.shape, batch, device)
    run = GraphedBackward(method, 1.0) if graphed else partial(backward, method)
    for _ in range(WARM_UP + 1):
        run(examples)
        method.network.zero_grad(set_to_none=False)
    return partial(run, examples)


def measure(
    config: RunConfig,
    batch: int,
    device: torch.device,
    compiled: bool,
    graphed: bool,
    repeats: int,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """All kinds of step, which take turns."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    peak, rate = matrix_peak(device, dtype), bandwidth(device)
    config = replace(config, train=replace(config.train, graph=graphed))
    chosen, calls, memory = kinds(config), {}, {}
    for name, kind in chosen.items():
        calls[name] = prepare(kind, batch, device, compiled, graphed)
        memory[name] = peak_bytes(prepare(kind, batch, device, compiled, False), device) / 2**30
        progress()
    taken = milliseconds(calls, device, repeats)
    rows = []
    for name, kind in chosen.items():
        flops = step_flops(kind, batch)
        floor = 1e3 * max(flops / peak, step_bytes(kind, batch, dtype.itemsize) / rate)
        ratio = taken[name] / taken["cross-entropy"]
        share = 1e3 * flops / taken[name] / peak
        rows.append(StepTiming(name, taken[name], ratio, memory[name], flops, floor, share, sum(head_rows(kind))))
    return {
        "ratio_vs_ce": next(row.ratio_vs_ce for row in rows if row.step == OURS),
        "rows": [asdict(row) for row in rows],
        "peak_tflops": peak / 1e12,
        "bandwidth_gb": rate / 1e9,
        "boundary_fraction": BOUNDARY,
        "compiled": compiled,
        "graphed": graphed,
        "batch": batch,
    }
