"""Milliseconds and bytes of a call, on a CPU or a GPU, and their growth with a size."""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from dbtm.core.graphs import WARM_UP, record

Call = Callable[[], object]


def elapsed(call: Call, device: torch.device) -> float:
    """Milliseconds of one call, including its work on the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e3 * (time.perf_counter() - start)


def replayed(calls: Mapping[str, Call], device: torch.device) -> dict[str, Call]:
    """The calls as CUDA graphs, which excludes launch time; on a CPU the calls themselves."""
    if device.type != "cuda":
        return dict(calls)
    graphs, pool = {}, torch.cuda.graph_pool_handle()
    for name, call in calls.items():
        for _ in range(WARM_UP):
            call()
        graphs[name] = record(call, pool)
    return graphs


def milliseconds(
    calls: Mapping[str, Call], device: torch.device, repeats: int = 10, warmup: int = 2
) -> dict[str, float]:
    """Median time of each call. They take turns, so that other load on the machine affects all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(warmup + repeats):
        for name, call in calls.items():
            taken = elapsed(call, device)
            if turn >= warmup:
                times[name].append(taken)
    return {name: statistics.median(each) for name, each in times.items()}


def peak_bytes(call: Call, device: torch.device) -> int:
    """Peak memory of a call, minus the memory in use before it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "7")  # silences the profiler on stderr
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        call()
    results = profiler.profiler.kineto_results
    memory = sorted((event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]")
    held = np.cumsum([0, *(n for _, n in memory)])
    return int(held.max())


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """p of the power law value = c size^p with the best fit in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def crossing(sizes: Sequence[float], first: Sequence[float], second: Sequence[float]) -> float | None:
    """The size from which `second` is below `first`, interpolated in logarithms; None if it is above at the last size.

    If it is below at every size, this is the smallest size.
    """
    gap = np.log(second) - np.log(first)
    if gap[-1] >= 0:
        return None
    above = np.flatnonzero(gap >= 0)
    if not len(above):
        return float(sizes[0])
    i = above[-1]
    share = gap[i] / (gap[i] - gap[i + 1])
    return float(np.exp(np.log(sizes[i]) + share * (np.log(sizes[i + 1]) - np.log(sizes[i]))))


def matrix_peak(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of a large square product, measured."""
    n = 8192 if device.type == "cuda" else 1024
    a = torch.randn(n, n, device=device, dtype=dtype)
    return 2e3 * n**3 / milliseconds({"product": lambda: a @ a}, device, 5)["product"]


def bandwidth(device: torch.device) -> float:
    """Bytes per second, read and written, of a large copy, measured."""
    a = torch.empty(2**30 if device.type == "cuda" else 2**26, dtype=torch.uint8, device=device)
    b = torch.empty_like(a)
    return 2e3 * a.numel() / milliseconds({"copy": lambda: b.copy_(a)}, device, 5)["copy"]
