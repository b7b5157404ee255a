"""The step as one CUDA graph.

The first steps of a phase run normally, which compiles kernels and initializes libraries. Then the forward and backward
pass of one micro-batch is recorded once and replayed for every further one. Its examples are copied into the recorded
tensors, and its gradients are added to those of the parameters, whose memory addresses must not change. Phases that a
method draws at random (for example its number of loops) recur, so each keeps its recording; recordings share memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dbtm.core.graphs import WARM_UP, Record, record
from dbtm.methods.base import Examples, Method, backward

Terms = dict[str, Tensor]


@dataclass
class _Recorded:
    """A phase: its number of calls and, once recorded, its input tensors and its replay."""

    calls: int = 0
    inputs: Examples | None = None
    replay: Callable[[], Terms] | None = None


class GraphedBackward:
    """`backward` of micro-batches of one shape, replayed. The next call overwrites the terms."""

    def __init__(self, method: Method, scale: float, record: Record = record):
        self.method, self.scale, self.record = method, scale, record
        self.stage: tuple[int, ...] | None = None
        self.phases: dict[tuple[int, ...], _Recorded] = {}

    def __call__(self, examples: Examples) -> Terms:
        stage = self.method.stage(examples.step)
        if stage != self.stage:  # stages do not recur: free their recordings
            self.stage, self.phases = stage, {}
            self.pool = torch.cuda.graph_pool_handle() if torch.cuda.is_available() else None
        phase = self.phases.setdefault(self.method.phase(examples.step), _Recorded())
        phase.calls += 1
        if phase.calls <= WARM_UP:
            return backward(self.method, examples, self.scale)
        if phase.inputs is None or phase.replay is None:
            inputs = phase.inputs = replace(examples, **{name: x.clone() for name, x in examples.tensors().items()})  # type: ignore[arg-type]
            phase.replay = self.record(lambda: backward(self.method, inputs, self.scale), self.pool)
        for name, x in phase.inputs.tensors().items():
            x.copy_(examples.tensors()[name])
        return phase.replay()
