"""CUDA graphs: what a call launches, recorded once and launched again all at once.

A small model's pass is hundreds of kernels, each shorter than its launch. Tensors that a recording read or wrote stay
where they are: a replay reads what they hold by then.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

Outputs = TypeVar("Outputs")
Record = Callable[..., Callable[[], Any]]
WARM_UP = 3  # plain calls before a recording: they compile kernels and set up the libraries


def record(run: Callable[[], Outputs], pool: Any = None) -> Callable[[], Outputs]:
    """Record what `run` launches, without running it; the result launches it all and returns the same outputs anew.

    Recordings of one `pool` (`torch.cuda.graph_pool_handle`) share memory: a replay may overwrite another's outputs.
    """
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # a recording has memory of its own: what plain calls have left behind would double it
    # thread_local: a thread that prepares the next batch goes on with its copies meanwhile
    with torch.cuda.graph(graph, pool, capture_error_mode="thread_local"):
        outputs = run()

    def replay() -> Outputs:
        graph.replay()
        return outputs

    return replay


class Replayed:
    """A function of tensors whose rows (first axis) do not see each other, recorded for every size it meets.

    Sizes are rounded up to powers of two, so that few recordings serve; results of the rows that fill up are dropped.
    """

    def __init__(self, function: Callable[..., Tensor], record: Record = record):
        self.function, self.record = function, record
        self.pool = torch.cuda.graph_pool_handle() if torch.cuda.is_available() else None
        self.recorded: dict[tuple, tuple[tuple[Tensor, ...], Callable[[], Tensor]]] = {}

    def __call__(self, *tensors: Tensor) -> Tensor:
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
        return replay()[:n].clone()
