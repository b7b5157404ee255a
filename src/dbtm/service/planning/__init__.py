"""Estimates a run on a number of GPUs before any is used: memory, time, and the layout of the weights that fits."""

from dataclasses import dataclass, field

from dbtm.config import RunConfig
from dbtm.core.errors import UsageError, nearest
from dbtm.service.planning.hardware import GPUS, Gpu
from dbtm.service.planning.memory import state_memory, step_memory
from dbtm.service.planning.timing import StepTime, step_time
from dbtm.service.planning.work import Work
from dbtm.service.training import TrainRequest, configuration

MOST_GPUS = 4096
USABLE = 0.94  # of a GPU's memory: the rest is fragments, libraries and collectives' buffers
WORTH = 0.9  # a layout is preferred to a simpler one if its step takes at most this share of the time


@dataclass(frozen=True)
class PlanRequest:
    """A recipe, its changed settings, and the machines."""

    recipe: str
    method: str | None = None
    changes: tuple[str, ...] = ()
    gpus: int = 8
    gpu: str = "h200"


@dataclass(frozen=True)
class Option:
    """One layout of a run, and its cost."""

    layout: str
    """replicate: whole weights on every GPU; shard: over all of them; hybrid: within a node, whole nodes replicated."""
    shards: int
    recompute: bool
    """Activations of the blocks are recomputed in the backward pass."""
    micro_batch: int
    memory: dict[str, float]
    """Bytes per GPU, by part."""
    time: StepTime
    fits: bool

    @property
    def bytes(self) -> float:
        return sum(self.memory.values())


@dataclass(frozen=True)
class Plan:
    """All options, the cheapest that fits first; `best` is None if none fits."""

    config: RunConfig
    gpu: Gpu
    gpus: int
    parameters: int
    flops: float
    """FLOPs per step, averaged over the run."""
    options: list[Option] = field(default_factory=list)

    @property
    def best(self) -> Option | None:
        return next((option for option in self.options if option.fits), None)

    def tokens_per_second(self, option: Option) -> float:
        return self.config.train.batch * self.config.shape.length / option.time.total

    def seconds(self, option: Option) -> float:
        """Seconds of the whole run, without evaluations and checkpoints."""
        return self.config.train.steps * option.time.total

    def gpu_hours(self, option: Option) -> float:
        return self.gpus * self.seconds(option) / 3600


def plan(request: PlanRequest) -> Plan:
    """Every layout of a run on these GPUs."""
    if request.gpu not in GPUS:
        raise UsageError(f"the GPU {request.gpu} is not a choice{nearest(request.gpu, GPUS)}")
    config = configuration(TrainRequest(request.recipe, request.method, request.changes))
    return plan_of(config, GPUS[request.gpu], request.gpus)


def plan_of(config: RunConfig, gpu: Gpu, gpus: int) -> Plan:
    """The same for a given configuration."""
    if not 1 <= gpus <= MOST_GPUS:
        raise UsageError(f"a plan is for 1 to {MOST_GPUS:,} GPUs, not {gpus}")
    if config.train.batch % gpus:
        near = max(1, round(config.train.batch / gpus)) * gpus
        raise UsageError(
            f"train.batch={config.train.batch} does not split over {gpus} GPUs: use a multiple of {gpus}, such as "
            f"train.batch={near}"
        )
    work = Work(config)
    found = [
        _option(work, gpu, gpus, layout, shards, recompute)
        for layout, shards in _layouts(gpu, gpus)
        for recompute in (False, True)
    ]
    return Plan(config, gpu, gpus, work.parameters, work.flops, _ranked(found))


def _layouts(gpu: Gpu, gpus: int) -> list[tuple[str, int]]:
    """(name, devices that share one copy of the weights), the simplest first."""
    out = [("replicate", 1)]
    if gpus > gpu.per_node and gpus % gpu.per_node == 0:
        out.append(("hybrid", gpu.per_node))
    if gpus > 1:
        out.append(("shard", gpus))
    return out


def _option(work: Work, gpu: Gpu, gpus: int, layout: str, shards: int, recompute: bool) -> Option:
    """With the run's own micro-batch, or the largest smaller one that fits."""
    train = work.config.train
    per_device = train.batch // gpus
    wanted = min(train.micro_batch or per_device, per_device)
    state = state_memory(work, shards, work.frozen)
    sizes = [n for n in range(wanted, 0, -1) if per_device % n == 0]
    for rows in sizes:
        peaks = [step_memory(work, kind, rows, recompute) for _, kind in work.phases]
        memory = state | max(peaks, key=lambda peak: sum(peak.values()))
        fits = sum(memory.values()) <= USABLE * gpu.memory
        if fits or rows == sizes[-1]:
            break
    time = step_time(work, gpu, gpus, shards, recompute, per_device // rows)
    return Option(layout, shards, recompute, rows, memory, time, fits)


def _ranked(options: list[Option]) -> list[Option]:
    """The options that fit, fastest first; of nearly equal ones the simplest."""
    fitting = [option for option in options if option.fits]
    if fitting:
        fastest = min(option.time.total for option in fitting)
        chosen = next(option for option in fitting if option.time.total * WORTH <= fastest)
        rest = sorted((o for o in fitting if o is not chosen), key=lambda o: o.time.total)
        fitting = [chosen, *rest]
    return fitting + [option for option in options if not option.fits]
