"""A bound on a run's time on a CPU, before anything is read or built: its FLOPs at the rate of matrix products."""

import time

import torch

from dbtm.config import RunConfig
from dbtm.evals.cost import map_flops
from dbtm.evals.step_cost import planned_flops
from dbtm.methods.dbtm import Config

SECONDS = 0.2  # of measuring
SLOWEST = 1e9  # FLOP/s: no CPU is slower, so a run that is short at this rate needs no measuring
ROWS, WIDTH = 256, 512  # of a matrix product of milliseconds, which other programs seldom interrupt


def least_seconds(config: RunConfig, short: float) -> float:
    """Seconds that the steps of a run take at least on this CPU; 0 if that is certainly less than `short`.

    The rate is the best one of a single thread, times the threads: training is slower, often by half.
    """
    flops = _least_flops(config)
    if flops < short * SLOWEST:
        return 0.0
    dtype = torch.bfloat16 if config.train.precision == "bf16" else torch.float32
    return flops / matrix_rate(min(config.model.width, WIDTH), dtype)


def _least_flops(config: RunConfig) -> float:
    """Those of DBTM's objective; for another method, one pass forward and backward per row, without its embedding."""
    if isinstance(config.method, Config):
        return planned_flops(config)
    one = map_flops(config.model, config.shape, causal=True, reads_tokens=True)
    return 3.0 * one * config.train.batch * config.train.steps


def matrix_rate(width: int, dtype: torch.dtype) -> float:
    """FLOP/s of matrix products on all threads."""
    threads = torch.get_num_threads()
    a, b = torch.ones(ROWS, width, dtype=dtype), torch.ones(width, 4 * width, dtype=dtype)
    torch.set_num_threads(1)
    try:
        a @ b
        best, end = float("inf"), time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            start = time.perf_counter()
            a @ b
            best = min(best, time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return threads * 2 * a.shape[0] * b.numel() / best
