"""Several devices under torchrun: gloo on CPU, nccl on GPU. One process without it."""

import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

PATIENT = timedelta(hours=12)  # time limit for slow work of one process while the others wait: evaluating, writing


class LostPeer(RuntimeError):
    """Another process of the run has ended or does not answer."""


@dataclass(frozen=True)
class World:
    """This process among its peers."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    in_node: int = 1
    """Processes on this node."""
    joined: bool = False
    """Started by torchrun, possibly with a single process."""

    @property
    def first(self) -> bool:
        """Only the first process writes files and prints."""
        return self.rank == 0

    @staticmethod
    def join(cuda: bool, seconds: float = 600, setting: str = "train.peer_timeout=") -> "World":
        """The world described by torchrun's environment variables, or a world of one. Peers have `seconds` to answer;
        `setting` is the name of this setting, for messages.
        """
        if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
            return World()
        if not dist.is_initialized():
            with listening(lambda: "as not all have joined", seconds, setting):
                store, rank, size = next(iter(dist.rendezvous("env://", timeout=timedelta(seconds=seconds))))
                store = dist.PrefixStore(meeting(store, rank, size, seconds), store)
                dist.init_process_group(
                    "nccl" if cuda else "gloo",
                    store=store,
                    rank=rank,
                    world_size=size,
                    timeout=timedelta(seconds=seconds),
                )
        local, in_node = (int(os.environ.get(name, usual)) for name, usual in _OF_NODE)
        return World(dist.get_rank(), dist.get_world_size(), local, in_node or dist.get_world_size(), True)

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Mean of a vector of metrics over the world."""
        if self.size > 1:
            dist.all_reduce(values)
        return values / self.size

    def agree(self, flag: bool, device: torch.device) -> bool:
        """True on all processes if it is true on any: all must stop after the same step."""
        return bool(self.most(int(flag), device))

    def most(self, number: int, device: torch.device) -> int:
        """The largest of the processes' numbers."""
        if self.size == 1:
            return number
        value = torch.tensor(number, device=device)
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return int(value.item())

    def on_cpus(self) -> dist.ProcessGroup:
        """A CPU group of all processes, for communication outside the steps."""
        return dist.new_group(backend="gloo", timeout=PATIENT)

    def same(self, number: int, device: torch.device) -> int:
        """The first process's number."""
        if self.size == 1:
            return number
        value = torch.tensor(number, device=device)
        dist.broadcast(value, 0)
        return int(value.item())

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()

    def leave(self) -> None:
        if self.joined and dist.is_initialized():
            dist.destroy_process_group()


def meeting(store: dist.Store, rank: int, size: int, seconds: float) -> str:
    """A name shared by the processes of this start, and different from that of any earlier start.

    torchrun keeps one store over its restarts, which still contains the addresses of dead processes. The first process
    creates the name. Each other process asks for it with a new random key, so that no earlier answer can match.
    """
    if rank:
        mine = uuid.uuid4().hex
        store.set(f"dbtm/ask/{rank}", mine)
        store.wait([f"dbtm/answer/{mine}"], timedelta(seconds=seconds))
        name = store.get(f"dbtm/answer/{mine}").decode()
        store.set(f"dbtm/{name}/{rank}", "here")
        return name
    name, end, answered = uuid.uuid4().hex, time.monotonic() + seconds, set[str]()
    while missing := [r for r in range(1, size) if not store.check([f"dbtm/{name}/{r}"])]:
        for r in missing:
            asked = store.get(f"dbtm/ask/{r}").decode() if store.check([f"dbtm/ask/{r}"]) else ""
            if asked and asked not in answered:
                store.set(f"dbtm/answer/{asked}", name)
                answered.add(asked)
        if time.monotonic() > end:
            raise dist.DistError(f"wait timeout: {len(missing)} of {size} processes are missing")
        time.sleep(0.01)
    return name


@contextmanager
def listening(when: Callable[[], str], seconds: float, setting: str = "train.peer_timeout=") -> Iterator[None]:
    """A context that reports a lost or unresponsive peer in one line. `setting` is the setting of the seconds."""
    try:
        yield
    except RuntimeError as error:
        rank, size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
        if size == "1" or isinstance(error, LostPeer) or not _of_peers(error):
            raise
        raise LostPeer(
            f"process {rank} of {size} lost another one, {when()}: it has ended, or did not answer within "
            f"{setting}{seconds:g} seconds ({_reason(error)}); see its own output"
        ) from error


def _of_peers(error: RuntimeError) -> bool:
    closed = ("connection closed", "connection reset")
    signs = ("gloo", "nccl", *closed, "timed out waiting", "wait timeout", "tcpstore", "monitoredbarrier")
    return isinstance(error, dist.DistError) or any(sign in str(error).lower() for sign in signs)


def _reason(error: RuntimeError) -> str:
    """The library's message, without its source file."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return re.sub(r"^\[[^]]*\.cc:\d+\] ", "", line).partition(". ")[0][:160]


def rows_here(tensor: Tensor) -> slice | None:
    """This process's rows of a sharded tensor; None for an unsharded one. FSDP2 splits like torch.chunk."""
    mesh = getattr(tensor, "device_mesh", None)
    if mesh is None:
        return None
    most = -(-tensor.shape[0] // mesh.size())
    first = min(mesh.get_local_rank() * most, tensor.shape[0])
    return slice(first, min(first + most, tensor.shape[0]))


_OF_NODE = (("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "0"))


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor on this device: all of it if not sharded."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor  # a DTensor, whose import would take a second
