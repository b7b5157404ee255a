"""Evaluations by all processes: the first one measures, and every batch of samples that it asks for is split.

The others wait in `serve` for what to sample. Samples are numbered as on one device, and their noise depends on their
numbers alone, so the first process gets the samples that it would have drawn by itself (up to float rounding).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch.distributed as dist

from dbtm.core.errors import UsageError
from dbtm.sampling import Sampler, Trace


class SharedSampler(Sampler):
    """A sampler of the first process whose samples are drawn by all of `group`, which is gloo."""

    group: dist.ProcessGroup

    def sample(self, n: int | None = None, **request: Any) -> Trace:
        tokens = request.get("tokens")
        total = len(tokens) if tokens is not None else n or 0
        plain = {"tokens", "clean", "seed"} | self.options.__dataclass_fields__.keys()
        if total < dist.get_world_size(self.group) or not request.keys() <= plain:
            return super().sample(n, **request)
        self.with_options(**{k: v for k, v in request.items() if k not in ("tokens", "clean", "seed")})
        dist.broadcast_object_list([(n, self.batch, request)], group=self.group)
        return Trace.concatenate(self._together(n, request))

    def _together(self, n: int | None, request: dict[str, Any]) -> list[Trace]:
        """Everyone's share, in the order of the samples; a failure of one is one of all."""
        found: list[Any] = [None] * dist.get_world_size(self.group)
        try:
            mine: Any = self._share(n, request)
        except Exception as error:  # the others wait: they must hear of it
            mine = f"{type(error).__name__}: {error}"
        dist.all_gather_object(found, mine, group=self.group)
        for rank, trace in enumerate(found):
            if isinstance(trace, str):
                raise UsageError(f"process {rank} could not sample: {trace}")
        return found

    def _share(self, n: int | None, request: dict[str, Any]) -> Trace:
        size, rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        total = len(request["tokens"]) if n is None else n
        first, last = (total * r // size for r in (rank, rank + 1))
        if n is not None:
            return super().sample(last - first, **request, numbered_from=first)
        rows = {name: np.asarray(request[name])[first:last] for name in ("tokens", "clean")}
        return super().sample(**{**request, **rows}, numbered_from=first)


@contextmanager
def together(sampler: Sampler, group: dist.ProcessGroup) -> Iterator[SharedSampler | None]:
    """On the first process: the sampler to measure with. The others serve it until it is done, and get None."""
    shared = SharedSampler(sampler.method, sampler.network, sampler.options, sampler.task, sampler.batch)
    shared.group = group
    if dist.get_rank(group) == 0:
        try:
            yield shared
        finally:
            dist.broadcast_object_list([None], group=group)
        return
    while (asked := _next(group)) is not None:
        n, shared.batch, request = asked
        shared._together(n, request)
    yield None


def _next(group: dist.ProcessGroup) -> Any:
    asked: list[Any] = [None]
    dist.broadcast_object_list(asked, group=group)
    return asked[0]
