"""Seconds per step: computing on one device, and communication with the others.

Computing is FLOPs at a share of the matrix peak and bytes of activations at the memory's bandwidth. Both shares are
fitted to the twelve measured steps of results/bench-step-*.json (benchmarks/plan.py fits them again).
"""

from dataclasses import dataclass

from dbtm.service.planning.hardware import Gpu
from dbtm.service.planning.work import Work

EFFICIENCY = 0.501  # of the matrix peak
TRAFFIC = 0.704  # share of the activations' bytes that is not hidden behind products
HIDDEN = 0.9  # share of the computing that sharded collectives can hide behind
OPTIMIZER_BYTES = 56  # per parameter: clipping 12, AdamW 28, EMA 12, gradients to zero 4


@dataclass(frozen=True)
class StepTime:
    """Seconds."""

    compute: float
    optimizer: float
    communication: float
    exposed: float
    """Communication that is not hidden behind computing."""

    @property
    def total(self) -> float:
        return self.compute + self.optimizer + self.exposed


def step_bytes(work: Work, units: float) -> float:
    """Bytes of the blocks' activations that cross the memory in a step of the whole batch: q, k, v, the mixed values
    and the residual (6 D) and the feed-forward's 2 f D, written and read, once for every unit of a pass.
    """
    model, train = work.config.model, work.config.train
    wide = 4 if train.precision == "fp32" else 2
    per_token = model.width * (6 + 2 * model.ffn) * wide * 2 * model.depth * model.loops
    return train.batch * work.config.shape.length * per_token * units


def compute_seconds(work: Work, gpu: Gpu, gpus: int, recompute: bool) -> float:
    """Seconds for the gradients of a device's share of the batch, averaged over the run's steps."""
    units = sum(share * kind.units for share, kind in work.phases)
    flops = work.flops
    if recompute:
        flops += work.recomputed_flops
        units += sum(share * kind.with_gradient for share, kind in work.phases)
    slow = 8 if work.config.train.precision == "fp32" else 1  # TF32 at best, and half the rate of it in practice
    products = flops * slow / (EFFICIENCY * gpu.peak)
    return (products + TRAFFIC * step_bytes(work, units) / gpu.bandwidth) / gpus


def optimizer_seconds(work: Work, gpu: Gpu, shards: int) -> float:
    """Seconds for the memory traffic of a device's share of the state, and Muon's products, split among the shards."""
    orthogonal = work.orthogonalising_flops / (EFFICIENCY * gpu.peak)
    return (OPTIMIZER_BYTES * work.parameters / gpu.bandwidth + orthogonal) / shards


def step_time(work: Work, gpu: Gpu, gpus: int, shards: int, recompute: bool, micro_batches: int) -> StepTime:
    """Seconds per step if `shards` devices share one copy of the weights and gpus / shards copies are averaged."""
    compute = compute_seconds(work, gpu, gpus, recompute)
    optimizer = optimizer_seconds(work, gpu, shards)
    in_passes = _sharded_seconds(work, gpu, shards, micro_batches) if shards > 1 else 0.0
    averaging = _averaging_seconds(work, gpu, gpus, shards)
    last = work.phases[-1][1].last / micro_batches * compute * 2 / 3 if shards == 1 else 0.0
    exposed = max(in_passes - HIDDEN * compute, 0.1 * in_passes) + max(averaging - last, 0.1 * averaging)
    return StepTime(compute, optimizer, in_passes + averaging, exposed)


def _sharded_seconds(work: Work, gpu: Gpu, shards: int, micro_batches: int) -> float:
    """Blocks are gathered before each pass, again before its backward pass, and their gradients scattered after it; the
    weights outside the blocks once a step.
    """
    trained = sum(share * kind.trained for share, kind in work.phases)
    read = sum(share * kind.read for share, kind in work.phases)
    each = 4 * (shards - 1) / shards / gpu.ring(shards)  # seconds per parameter moved
    moves = (3 * trained + read) * micro_batches
    model = work.config.model
    latency = gpu.latency(shards) * (moves * model.depth * model.loops + 2)
    muon = 2 * sum(r * c * n for (r, c), n in work.matrices.items()) * each / shards
    return each * (moves * work.blocks * model.loops + 2 * work.edge) + muon + latency


def _averaging_seconds(work: Work, gpu: Gpu, gpus: int, shards: int) -> float:
    """One all-reduce of a device's gradients among the copies: once a step."""
    copies = gpus // shards
    if copies == 1:
        return 0.0
    rate = gpu.ring(copies) if shards == 1 else 0.8 * gpu.network
    steps = 2 * gpu.latency(gpus)
    return 2 * (copies - 1) / copies * 4 * work.parameters / shards / rate + steps
