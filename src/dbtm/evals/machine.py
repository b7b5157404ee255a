"""A bound on a run's time on a CPU, before anything is read or built: its FLOPs at a layer's rate."""

import time

import torch

from dbtm.config import RunConfig
from dbtm.evals.cost import map_flops
from dbtm.evals.step_cost import planned_flops
from dbtm.methods.dbtm import Config

SECONDS = 0.2  # of measuring
SLOWEST = 1e9  # FLOP/s: no CPU is slower, so a run that is short at this rate needs no measuring
ROWS, WIDTH = 128, 128  # of a layer of a millisecond, which other programs seldom interrupt


def least_seconds(config: RunConfig, short: float) -> float:
    """Seconds that the steps of a run take at least on this CPU; 0 if that is certainly less than `short`.

    The rate is the best one of a single thread, times the threads: training is slower, often by half or more.
    """
    flops = _least_flops(config)
    if flops < short * SLOWEST:
        return 0.0
    dtype = torch.bfloat16 if config.train.precision == "bf16" else torch.float32
    return flops / rate(min(config.model.width, WIDTH), dtype)


def _least_flops(config: RunConfig) -> float:
    """Those of DBTM's objective; for another method, one pass forward and backward per row, without its embedding."""
    if isinstance(config.method, Config):
        return planned_flops(config)
    one = map_flops(config.model, config.shape, causal=True, reads_tokens=True)
    return 3.0 * one * config.train.batch * config.train.steps


def rate(width: int, dtype: torch.dtype) -> float:
    """FLOP/s of a feed-forward layer on all threads, forward and backward, counting its matrix products."""
    threads = torch.get_num_threads()
    x = torch.ones(ROWS, width, requires_grad=True)
    up, down = (torch.ones(shape, requires_grad=True) for shape in ((width, 4 * width), (4 * width, width)))

    def layer() -> None:
        inner = torch.nn.functional.gelu(x.to(dtype) @ up.to(dtype))
        torch.autograd.grad((x + inner @ down.to(dtype)).sum(), (x, up, down))

    torch.set_num_threads(1)
    try:
        layer()
        best, end = float("inf"), time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            start = time.perf_counter()
            layer()
            best = min(best, time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return threads * 3 * 2 * ROWS * (up.numel() + down.numel()) / best
