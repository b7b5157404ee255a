"""FSDP2: every block's weights are gathered for its pass and freed after it; gradients, averages and optimizer state
stay sharded by rows.

A step is a sequence of parts, each backpropagated before the next, but FSDP2 expects one forward and one backward pass.
So a step controls FSDP2 explicitly:

- A block is one unit: gathered before its forward pass and again before its backward pass; its gradients are scattered
  after every part. Keeping them unsharded until the step's end would need memory for all gradients on every device.
- Modules outside the blocks (embedding, head, norms, further heads) are used by the methods directly. They are gathered
  at the start of a step, and their gradients are scattered once, at its end.
- In the hybrid layout, copies of the shards are averaged once per step, after the last part; FSDP2's own all-reduce
  over a second mesh dimension would run after every part.
"""

import copy
from collections.abc import Callable, Hashable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from dbtm.core.errors import UsageError
from dbtm.nn import Backbone
from dbtm.train.distributed import World, local
from dbtm.train.layout import Alone


class Sharded(Alone):
    """Weights sharded by rows over `shards` processes, in world / shards copies."""

    sharded = True

    def __init__(self, device: torch.device, world: World, shards: int):
        super().__init__(device)
        if world.size % shards:
            raise UsageError(
                f"train.layout=hybrid needs the same number of processes on every node: {world.size} is not a multiple "
                f"of {shards}"
            )
        self.world, self.shards, self.copies = world, shards, world.size // shards
        self.name = "shard" if self.copies == 1 else f"hybrid, {self.copies} x {shards}"
        mesh = init_device_mesh(device.type, (self.copies, shards), mesh_dim_names=("replicate", "shard"))
        self.mesh, self.across = mesh["shard"], mesh["replicate"].get_group()
        self.roots: list[FSDPModule] = []
        self.blanks: dict[Backbone, Backbone] = {}  # sharded network -> its copy without memory

    def place(self, module: Backbone) -> Backbone:
        """Shard a network in place: it is built on the CPU, and moved to the device block by block."""
        self.blanks[module] = _blank(module)
        module.foldable = False  # folded matrices would be unsharded
        for block in module.trunk.blocks:
            fully_shard(block, mesh=self.mesh)
        fully_shard(module, mesh=self.mesh, reshard_after_forward=False)
        assert isinstance(module, FSDPModule)
        _enter_by_methods(module)
        module.set_requires_gradient_sync(False, recurse=False)
        module.set_reshard_after_backward(False, recurse=False)
        self.roots.append(module)
        return module

    def twin(self, source: Backbone, blank: Callable[[], Backbone]) -> Backbone:
        twin = self.place(blank().requires_grad_(False).eval())
        twin.to_empty(device=self.device)
        with torch.no_grad():
            for mine, theirs in zip(_tensors(twin), _tensors(source), strict=True):
                local(mine).copy_(local(theirs))
        return twin

    def ready(self, model: Backbone, frozen: list[Backbone], graphed: bool) -> None:
        self.model, self.frozen = model, frozen

    def begin(self, phase: Hashable) -> None:
        for module in (self.model, *self.frozen):
            module.touch(None)

    def finish(self) -> None:
        """An empty pass, whose backward pass scatters the gradients outside the blocks."""
        root = self.model
        assert isinstance(root, FSDPModule)
        self._closing(root, True)
        end = self.model.touch(torch.zeros((), device=self.device, requires_grad=True))
        assert end is not None
        end.backward()
        self._closing(root, False)
        for module in self.frozen:
            assert isinstance(module, FSDPModule)
            module.reshard()
        if self.copies > 1:
            self._average()

    def _closing(self, root: FSDPModule, now: bool) -> None:
        root.set_requires_gradient_sync(now, recurse=False)
        root.set_reshard_after_backward(now, recurse=False)

    def _average(self) -> None:
        gradients = [local(p.grad) for p in self.model.parameters() if p.grad is not None]
        flat = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(flat, group=self.across)
        flat /= self.copies
        for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(mean.view_as(gradient))

    def clip(self, most: float) -> Tensor:
        norm = super().clip(most)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def whole(self, module: Backbone) -> Backbone:
        twin: Backbone = copy.deepcopy(self.blanks[module]).to_empty(device=self.device)
        twin.requires_grad_(False).train(module.training)
        twin.compute_dtype = module.compute_dtype
        with torch.no_grad():
            for mine, theirs in zip(_tensors(twin), _tensors(module), strict=True):
                mine.copy_(theirs.full_tensor() if isinstance(theirs, DTensor) else theirs)
        return twin


def _enter_by_methods(module: Backbone) -> None:
    """Make `hidden`, by which the methods run the trunk, and `touch` forward passes for FSDP2. Within `forward`, which
    already is one, `hidden` is not wrapped: FSDP2 would free the weights at the end of the inner pass.
    """
    plain, within = module.hidden, [False]
    for name in ("hidden", "touch"):
        register_fsdp_forward_method(module, name)
    registered = module.hidden

    def hidden(*args: Any, **more: Any) -> Any:
        return plain(*args, **more) if within[0] else registered(*args, **more)

    module.hidden = hidden  # type: ignore[method-assign]
    module.register_forward_pre_hook(lambda *_: within.__setitem__(0, True))
    module.register_forward_hook(lambda *_: within.__setitem__(0, False), always_call=True)


def _blank(module: Backbone) -> Backbone:
    known: dict[int, Tensor] = {id(x): x.to("meta") for x in module.buffers()}
    known |= {id(p): nn.Parameter(p.to("meta"), requires_grad=False) for p in module.parameters()}
    return copy.deepcopy(module, known)


def _tensors(module: Backbone) -> list[Tensor]:
    """Parameters and buffers, in the same order for networks of one kind."""
    return [*module.parameters(), *module.buffers()]
