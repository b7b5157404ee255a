"""A sampler that shares its work among several processes (`train.team`).

Samples have the same numbers as on one device, and their noise depends only on these. So they equal those of one device
(up to float rounding).
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dbtm.sampling import Sampler, Trace
from dbtm.train.team import Team, share_of


class SharedSampler(Sampler):
    """A sampler of the first process whose samples are drawn by all processes."""

    team: Team

    @property
    def processes(self) -> int:
        return self.team.size

    def everywhere(self, work: Callable[..., Any], *args: Any, **own: Any) -> list[Any]:
        return self.team.everywhere(_with_sampler, work, self.batch, self.options, args, **own)

    def sample(self, n: int | None = None, **request: Any) -> Trace:
        own = {name: request[name] for name in ("progress", "cancelled") if name in request}
        plain = {name: value for name, value in request.items() if name not in own}
        options = {name: value for name, value in plain.items() if name not in ("tokens", "clean", "seed")}
        total = len(plain["tokens"]) if plain.get("tokens") is not None else n or 0
        if total < self.team.size or not options.keys() <= self.options.__dataclass_fields__.keys():
            return super().sample(n, **request)
        self.with_options(**options)
        return Trace.concatenate(self.everywhere(_draw, n, plain, **own))


def shared(sampler: Sampler, team: Team) -> SharedSampler:
    """The first process's shared sampler, for a sampler that every process has."""
    view = SharedSampler(sampler.method, sampler.network, sampler.options, sampler.task, sampler.batch)
    view.team = team
    return view


@contextmanager
def together(sampler: Sampler, team: Team) -> Iterator[SharedSampler | None]:
    """On the first process, the sampler for the evaluation. The others serve it until it ends, and get None."""
    team.held["sampler"] = sampler
    try:
        with team.split() as first:
            yield shared(sampler, team) if first else None
    finally:
        del team.held["sampler"]


def _with_sampler(team: Team, work: Any, batch: int, options: Any, args: tuple[Any, ...], **own: Any) -> Any:
    sampler = copy.copy(team.held["sampler"])
    sampler.batch, sampler.options = batch, options
    return work(sampler, team.rank, team.size, *args, **own)


def _draw(
    sampler: Sampler,
    rank: int,
    size: int,
    n: int | None,
    request: dict[str, Any],
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Trace:
    """One process's share. Its progress represents that of all."""
    total = len(request["tokens"]) if n is None else n
    rows = share_of(total, rank, size)
    mine = rows.stop - rows.start
    given = {name: np.asarray(request[name])[rows] for name in ("tokens", "clean") if request.get(name) is not None}
    return sampler.sample(
        None if n is None else mine,
        **{**request, **given},
        progress=None if progress is None else lambda done: progress(done * total // mine),
        cancelled=cancelled,
        numbered_from=rows.start,
    )
