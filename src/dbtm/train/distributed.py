"""Several devices under torchrun: gloo on CPU, nccl on GPU. One process without it."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn


@dataclass(frozen=True)
class World:
    """This process among its peers."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def first(self) -> bool:
        """Only the first process writes files and prints."""
        return self.rank == 0

    @staticmethod
    def join(cuda: bool) -> "World":
        """The world torchrun describes in the environment, or a world of one."""
        if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
            return World()
        if not dist.is_initialized():
            dist.init_process_group("nccl" if cuda else "gloo")
        return World(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_RANK", "0")))

    def average_gradients(self, model: nn.Module) -> None:
        """Mean of the gradients over the world, one collective for each dtype."""
        if self.size == 1:
            return
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        for dtype in {g.dtype for g in gradients}:
            same = [g for g in gradients if g.dtype == dtype]
            flat = torch.cat([g.flatten() for g in same])
            dist.all_reduce(flat)
            flat /= self.size
            for gradient, mean in zip(same, flat.split([g.numel() for g in same]), strict=True):
                gradient.copy_(mean.view_as(gradient))

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Mean of a vector of metrics over the world."""
        if self.size > 1:
            dist.all_reduce(values)
        return values / self.size

    def agree(self, flag: bool, device: torch.device) -> bool:
        """True everywhere as soon as it is true somewhere: all processes must stop after the same step."""
        return bool(self.most(int(flag), device))

    def most(self, number: int, device: torch.device) -> int:
        """The largest of the processes' numbers."""
        if self.size == 1:
            return number
        value = torch.tensor(number, device=device)
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return int(value.item())

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()

    def leave(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()
