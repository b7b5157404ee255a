"""Parameters, FLOPs and network passes of a run's steps, counted without its data or its memory."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dbtm.config import RunConfig
from dbtm.evals.cost import map_flops
from dbtm.evals.step_cost import planned_flops
from dbtm.evals.training_cost import ROWS, Pass, count_parts, pass_flops
from dbtm.methods.base import method_of
from dbtm.methods.dbtm import Config
from dbtm.tasks.base import Batch, Task

LOOKS = 64  # steps at which the phase of a run is checked
MOST_PHASES = 4  # phases whose passes are counted


@dataclass(frozen=True)
class Blank(Task):
    """Random tokens instead of a task's data: the number of passes per step does not depend on the data."""

    name = "blank"
    vocab: int = 128
    length: int = 8

    def batch(self, index: np.ndarray) -> Batch:
        return Batch(np.random.default_rng(0).integers(0, self.vocab, (len(index), self.length)))


@dataclass(frozen=True)
class Passes:
    """The passes of one step, per row of the batch."""

    units: float
    """Block evaluations: forward 1, backward 2, tangent 1."""
    with_gradient: float
    alive: float
    """Rows of the largest part, whose activations are alive at once."""
    tangent: bool
    """Whether any pass has a tangent."""
    trained: int
    """Network calls with a backward pass."""
    read: int
    """Network calls without one (a teacher's, a target's)."""
    last: float
    """Share of `units` in the last part: communication of gradients overlaps with it."""


def passes(config: RunConfig, step: int) -> Passes:
    """Counted on a tiny network of the same kind."""
    model = replace(config.model, position_axes=())
    parts = [part for part in count_parts(replace(config, task=Blank(), model=model), step) if part]
    rows = min(ROWS, config.train.batch)
    units = [sum(n * _unit(kind) for kind, n in part if kind.module == "map") / rows for part in parts]
    alive = [sum(n for kind, n in part if kind.module == "map" and kind.gradient) / rows for part in parts]
    flat = [(kind, n) for part in parts for kind, n in part if kind.module == "map"]
    return Passes(
        units=sum(units),
        with_gradient=sum(alive),
        alive=max(alive, default=0.0),
        tangent=any(kind.tangent for kind, _ in flat),
        trained=sum(kind.gradient for kind, _ in flat),
        read=sum(not kind.gradient for kind, _ in flat),
        last=units[-1] / sum(units) if units else 0.0,
    )


def _unit(kind: Pass) -> int:
    return (3 if kind.gradient else 1) + kind.tangent * (3 if kind.tangent_gradient else 1)


class Work:
    """The counts of a run."""

    def __init__(self, config: RunConfig):
        self.config = config
        self.network = method_of(config).outline()
        sizes = Counter[str]()
        matrices = Counter[tuple[int, int]]()
        for name, p in self.network.named_parameters():
            in_block = name.startswith("trunk.blocks.")
            sizes["blocks" if in_block else "edge"] += p.numel()
            if (
                p.ndim == 2
                and any(part in name for part in ("attention.", "feed_forward."))
                and name.endswith("weight")
            ):
                matrices[p.shape[0], p.shape[1]] += 1
        self.blocks, self.edge = sizes["blocks"], sizes["edge"]
        self.matrices = matrices if config.optim.name == "muon" else Counter[tuple[int, int]]()

    @property
    def parameters(self) -> int:
        return self.blocks + self.edge

    @cached_property
    def frozen(self) -> int:
        """Frozen networks besides the trained one (a teacher)."""
        small = replace(self.config.model, width=64, depth=1, heads=1, position_axes=(), backbone="attention")
        return len(method_of(replace(self.config, task=Blank(), model=small)).start().frozen)

    @cached_property
    def phases(self) -> list[tuple[float, Passes]]:
        """(share of the run's steps, passes of one of them), in their order."""
        method, steps = method_of(self.config), self.config.train.steps
        looks = [min(steps - 1, round((i + 0.5) * steps / LOOKS)) for i in range(LOOKS)]
        found: dict[tuple[int, ...], list[int]] = {}
        for step in looks:
            found.setdefault(method.phase(step), []).append(step)
        every = -(-len(found) // MOST_PHASES)
        out: list[tuple[float, Passes]] = []
        for number, at in enumerate(found.values()):
            if number % every == 0:
                out.append((0.0, passes(self.config, at[0])))
            share, kind = out[-1]
            out[-1] = share + len(at) / LOOKS, kind
        return out

    @cached_property
    def flops(self) -> float:
        """FLOPs per step over the whole batch, averaged over the run."""
        train = self.config.train
        if isinstance(self.config.method, Config):
            return planned_flops(self.config) / train.steps
        value, with_tangent = pass_flops(self.network)
        return train.batch * sum(
            share * (kind.units * value + kind.tangent * (with_tangent - 2 * value)) for share, kind in self.phases
        )

    @cached_property
    def recomputed_flops(self) -> float:
        """Extra FLOPs of recomputing activations: one more forward pass of the trunk, over the whole batch."""
        config, shape = self.config, self.config.shape
        trunk = map_flops(config.model, shape) - 4 * shape.length * shape.vocab * config.model.width
        return config.train.batch * trunk * sum(share * kind.with_gradient for share, kind in self.phases)

    @cached_property
    def orthogonalising_flops(self) -> float:
        """Muon's five Newton-Schulz steps on every matrix, once."""
        total = 0.0
        for (rows, columns), count in self.matrices.items():
            small, large = min(rows, columns), max(rows, columns)
            total += count * 5 * (4 * small**2 * large + 2 * small**3)
        return total
