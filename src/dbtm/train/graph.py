"""The step as one CUDA graph.

The first steps of a phase run as usual, which compiles kernels and sets up the libraries. Then the passes of one
micro-batch, forward and backward, are recorded once and replayed for every further one: its examples are copied into
the tensors that were recorded, and its gradients are added to those of the parameters, which must stay where they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from dbtm.core.graphs import WARM_UP, Record, record
from dbtm.methods.base import Examples, Method, backward

Terms = dict[str, Tensor]


@dataclass
class _Recorded:
    """A phase: how often it has been called, and from the recording on its input tensors and its replay."""

    calls: int = 0
    inputs: Examples | None = None
    replay: Callable[[], Terms] | None = None


class GraphedBackward:
    """`backward` of micro-batches of one shape, replayed. Terms are overwritten by the next call."""

    def __init__(self, method: Method, scale: float, record: Record = record):
        self.method, self.scale, self.record = method, scale, record
        self.now: tuple[int, ...] | None = None
        self.phase = _Recorded()

    def __call__(self, examples: Examples) -> Terms:
        now = self.method.phase(examples.step)
        if now != self.now:  # phases do not come back: what was recorded, with its memory, goes
            self.now, self.phase = now, _Recorded()
        phase = self.phase
        phase.calls += 1
        if phase.calls <= WARM_UP:
            return backward(self.method, examples, self.scale)
        if phase.inputs is None or phase.replay is None:
            inputs = phase.inputs = replace(examples, **{name: x.clone() for name, x in examples.tensors().items()})  # type: ignore[arg-type]
            phase.replay = self.record(lambda: backward(self.method, inputs, self.scale))
        for name, x in phase.inputs.tensors().items():
            x.copy_(examples.tensors()[name])
        return phase.replay()
