"""How a run's weights lie on its devices, and what a step says to the others.

Alone       one device
Replicated  whole weights everywhere, gradients averaged (averaging.py)
Sharded     weights, gradients, averages, teachers and optimizer state cut by PyTorch's `fully_shard` (sharding.py)
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

ROOM = 0.5  # of a GPU's memory: more state than this is sharded, the rest is for activations


class Alone:
    """One device holds everything."""

    name = "one device"
    sharded = False

    def __init__(self, device: torch.device):
        self.device = device

    def place(self, module: Backbone) -> Backbone:
        """A network where it is trained; called once for the trained one and once for every frozen one."""
        return module.to(self.device)

    def twin(self, source: Backbone, blank: Callable[[], Backbone]) -> Backbone | None:
        """A frozen copy of the trained network, laid out as it is; None where a plain copy is one. `blank()` makes a
        network of the same kind without memory.
        """
        return None

    def ready(self, model: Backbone, frozen: list[Backbone], graphed: bool) -> None:
        """All networks are in place; the optimizers have been built."""
        self.model = model

    def begin(self, phase: Hashable) -> None:
        """A step's first pass follows."""

    def finish(self) -> None:
        """The step's last gradient is there: average them."""

    def clip(self, most: float) -> Tensor:
        """The norm of all gradients, which are scaled down where it is more than `most`."""
        return torch.nn.utils.clip_grad_norm_(self.model.parameters(), most)

    def whole(self, module: Backbone) -> Backbone:
        """A network that this process can use by itself."""
        return module


class Replicated(Alone):
    """Whole weights on every device."""

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
    """The layout that `train.layout` names; auto shards what would take half of a GPU's memory or more."""
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
    """Weights, gradients, averages, optimizer state and teachers, were they whole on one device."""
    return sum(p.nbytes for p in network.parameters()) * ((4 if optimizer == "muon" else 5) + frozen)
