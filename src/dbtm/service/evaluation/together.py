"""`dbtm eval` on several processes, started by torchrun: the first one evaluates, all of them sample and judge."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dbtm.checkpoint.loading import load
from dbtm.core.errors import UsageError
from dbtm.sampling import Sampler
from dbtm.train.distributed import LostPeer, World, listening
from dbtm.train.evaluating import shared
from dbtm.train.team import Team, current

SECONDS = 600.0  # for a process that does not answer


@contextmanager
def joined(seconds: float = SECONDS) -> Iterator[bool]:
    """Within, on the first process, evaluations are shared. The others do their shares first, and get False."""
    try:
        with listening(lambda: "as not all have joined", seconds, ""):
            world = World.join(cuda=False, seconds=seconds, setting="")
            team = Team(world.on_cpus(), seconds)
    except LostPeer as lost:
        raise UsageError(str(lost)) from lost
    if torch.cuda.is_available():
        torch.cuda.set_device(world.local_rank % torch.cuda.device_count())
    try:
        with team.split() as first:
            yield first
    finally:
        if not team.working:  # else a process is lost, and would be waited for
            world.leave()


def load_shared(checkpoint: str, device: str) -> Sampler:
    """The sampler of a checkpoint. A team loads it on every process, and shares its work."""
    if (team := current()) is None:
        return load(checkpoint, device)
    team.everywhere(_hold, checkpoint, device)
    return shared(team.held["sampler"], team)


def _hold(team: Team, checkpoint: str, device: str) -> None:
    team.held["sampler"] = load(checkpoint, device)
