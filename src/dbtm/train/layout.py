"""The layout of a run's weights on its devices, and the communication of a step.

Alone       one device
Replicated  full weights on every device, gradients averaged (averaging.py)
Sharded     weights, gradients, averages, teachers and optimizer state sharded by `fully_shard` (sharding.py)
"""

from collections.abc import Callable, Hashable

import torch
from torch import Tensor, nn

from dbtm.config import RunConfig
from dbtm.core.errors import UsageError
from dbtm.methods.base import method_of
from dbtm.nn import Backbone
from dbtm.train.averaging import Averaging
from dbtm.train.distributed import World

ROOM = 0.5  # share of a GPU's memory: state above it is sharded; the rest is for activations


class Alone:
    """One device holds everything."""

    name = "one device"
    sharded = False

    def __init__(self, device: torch.device):
        self.device = device

    def place(self, module: Backbone) -> Backbone:
        """Place a network on its devices; called once for the trained network and once for every frozen one."""
        return module.to(self.device)

    def twin(self, source: Backbone, blank: Callable[[], Backbone]) -> Backbone | None:
        """A frozen copy of the trained network in the same layout; None if a plain copy suffices. `blank()` creates the
        same network without memory.
        """
        return None

    def ready(self, model: Backbone, frozen: list[Backbone], graphed: bool) -> None:
        """Called when all networks are placed and the optimizers are built."""
        self.model = model

    def begin(self, phase: Hashable) -> None:
        """Called before the first pass of a step."""

    def finish(self) -> None:
        """Called after the last backward pass of a step: average the gradients."""

    def clip(self, most: float) -> Tensor:
        """The norm of all gradients; they are scaled down if it exceeds `most`."""
        return torch.nn.utils.clip_grad_norm_(self.model.parameters(), most)

    def whole(self, module: Backbone) -> Backbone:
        """An unsharded network, which this process can use alone."""
        return module


class Replicated(Alone):
    """Full weights on every device."""

    name = "replicate"

    def __init__(self, device: torch.device, world: World):
        super().__init__(device)
        self.world = world

    def ready(self, model: Backbone, frozen: list[Backbone], graphed: bool) -> None:
        super().ready(model, frozen, graphed)
        trained = [p for p in model.parameters() if p.requires_grad]
        self.averaging = Averaging(trained, None, overlap=not graphed)

    def begin(self, phase: Hashable) -> None:
        self.averaging.begin(phase)

    def finish(self) -> None:
        self.averaging.finish()


def choose(config: RunConfig, world: World, device: torch.device, state_bytes: int) -> Alone:
    """The layout named in `train.layout`; auto shards state of half of a GPU's memory or more."""
    name: str = config.train.layout
    if world.size == 1:
        if name in ("shard", "hybrid") and not world.joined:
            raise UsageError(f"train.layout={name} is for several processes: start them with torchrun, or leave it out")
        if name in ("auto", "replicate", "hybrid"):
            return Alone(device)
    if name == "auto":
        name = _suitable(world, device, state_bytes)
    if name == "replicate":
        return Replicated(device, world)
    from dbtm.train.sharding import Sharded

    method_of(config).check_sharding()
    return Sharded(device, world, world.in_node if name == "hybrid" else world.size)


def _suitable(world: World, device: torch.device, state_bytes: int) -> str:
    if device.type != "cuda":
        return "replicate"
    room = ROOM * torch.cuda.get_device_properties(device).total_memory
    if state_bytes <= room:
        return "replicate"
    in_node = world.in_node
    return "hybrid" if in_node < world.size and state_bytes / in_node <= room else "shard"


def state_bytes(network: nn.Module, frozen: int, optimizer: str) -> int:
    """Bytes of weights, gradients, averages, optimizer state and teachers, unsharded on one device."""
    return sum(p.nbytes for p in network.parameters()) * ((4 if optimizer == "muon" else 5) + frozen)
