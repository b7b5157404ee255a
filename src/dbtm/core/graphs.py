"""CUDA graphs: the kernels of a call, recorded once and replayed with a single launch.

A small model's pass is hundreds of kernels, each shorter than its launch. The tensors of a recording keep their
addresses: a replay reads their current values.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

Outputs = TypeVar("Outputs")
Record = Callable[..., Callable[[], Any]]
WARM_UP = 3  # plain calls before a recording: they compile kernels and initialize libraries


def record(run: Callable[[], Outputs], pool: Any = None) -> Callable[[], Outputs]:
    """Record the kernels of `run` without running them; the result replays them and returns the same output tensors.

    Recordings of one `pool` (`torch.cuda.graph_pool_handle`) share memory: a replay may overwrite another's outputs.
    """
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # a recording has its own memory; memory cached by plain calls would double the total
    # thread_local: the thread that prepares the next batch may continue its copies
    with torch.cuda.graph(graph, pool, capture_error_mode="thread_local"):
        outputs = run()

    def replay() -> Outputs:
        graph.replay()
        return outputs

    return replay


class Replayed:
    """A function of tensors with independent rows (first axis) to a tensor or a tuple of them, recorded once per size.

    Sizes are rounded up to powers of two, so that few recordings suffice; results of padding rows are dropped.
    """

    def __init__(self, function: Callable[..., Any], record: Record = record):
        self.function, self.record = function, record
        self.pool = torch.cuda.graph_pool_handle() if torch.cuda.is_available() else None
        self.recorded: dict[tuple, tuple[tuple[Tensor, ...], Callable[[], Any]]] = {}

    def __call__(self, *tensors: Tensor) -> Any:
        n = len(tensors[0])
        size = 1 << (n - 1).bit_length()
        key = (size, *((x.shape[1:], x.dtype) for x in tensors))
        if key not in self.recorded:
            inputs = tuple(x[:1].expand(size, *x.shape[1:]).clone() for x in tensors)
            for _ in range(WARM_UP):
                self.function(*inputs)
            self.recorded[key] = (inputs, self.record(lambda: self.function(*inputs), self.pool))
        inputs, replay = self.recorded[key]
        for kept, x in zip(inputs, tensors, strict=True):
            kept[:n] = x
        outputs = replay()
        return tuple(x[:n].clone() for x in outputs) if isinstance(outputs, tuple) else outputs[:n].clone()
