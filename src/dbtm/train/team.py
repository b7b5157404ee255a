"""Work shared by several processes: the first one leads, the others serve.

An evaluation runs on the first process, which prints and writes. It sends work that can be split to all processes, as a
function with its arguments. Each process computes its share, and the first one gets all results in order of rank.
"""

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from dbtm.core.errors import UsageError
from dbtm.train.distributed import PATIENT, LostPeer, listening

SLOWER = 9.0  # beyond the time-out, a share may take this many times as long as the first process's

_leading: ContextVar["Team | None"] = ContextVar("leading", default=None)


def current() -> "Team | None":
    """The team that this process currently leads, if any."""
    team = _leading.get()
    return None if team is None or team.working else team


def share_of(total: int, rank: int, size: int) -> slice:
    """The rows of one process: all shares together are 0..total in order."""
    return slice(total * rank // size, total * (rank + 1) // size)


@dataclass(frozen=True)
class _Failure:
    said: str


class Team:
    """The processes of a gloo group. If one does not answer within `seconds`, the others raise `lost`; its message
    names the `setting` of these seconds.
    """

    def __init__(self, group: dist.ProcessGroup, seconds: float, setting: str = "", lost: type[Exception] = UsageError):
        self.group, self.seconds, self.setting, self.lost = group, seconds, setting, lost
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.held: dict[str, Any] = {}  # objects that work needs on every process but are not sent: a sampler
        self.working = False

    def everywhere(self, work: Callable[..., Any], *args: Any, **own: Any) -> list[Any]:
        """The results of `work(team, *args)` on every process, called by the first one; only its own call also gets
        `own`. The work must be a module-level function. An error of any process is raised here.
        """
        with self._listening():
            dist.broadcast_object_list([(work, args)], group=self.group)
            return self._together(work, args, own)

    def _together(self, work: Callable[..., Any], args: tuple[Any, ...], own: dict[str, Any]) -> list[Any]:
        start, error = time.monotonic(), None
        self.working = True  # until all results are gathered: stays true if a process is lost before
        try:
            mine = work(self, *args, **own)
        except Exception as raised:  # the others must be told
            error, mine = raised, _Failure(_described(raised))
            if self.rank and not isinstance(raised, UsageError):  # the first process reports the failure in one line
                traceback.print_exc()
        patience = self.seconds + SLOWER * (time.monotonic() - start)
        try:
            dist.monitored_barrier(self.group, PATIENT if self.rank else timedelta(seconds=patience))
        except RuntimeError:
            if error is not None:  # raised early: the others may still be at work, which is normal
                raise error from None
            raise
        found: list[Any] = [None] * self.size
        dist.gather_object(mine, None if self.rank else found, group=self.group)
        self.working = False
        if error is not None and not self.rank:
            raise error
        for rank, each in enumerate(found):
            if isinstance(each, _Failure):
                raise UsageError(f"process {rank} of {self.size}: {each.said}")
        return found

    @contextmanager
    def leading(self) -> Iterator[None]:
        """A context on the first process in which the others serve; an error also ends them."""
        token = _leading.set(self)
        try:
            yield
        except BaseException:
            self._dismiss("failed")
            raise
        else:
            self._dismiss("done")
        finally:
            _leading.reset(token)

    @contextmanager
    def split(self) -> Iterator[bool]:
        """A context in which the first process leads and gets True. The others serve it first, and get False."""
        if self.rank:
            self.serve()
            yield False
        else:
            with self.leading():
                yield True

    def _dismiss(self, outcome: str) -> None:
        """Tell the others that there is no more work, and why: `done`, or `failed`."""
        if not self.working:  # otherwise a process is lost or this one was interrupted: no process would receive it
            with self._listening():
                dist.broadcast_object_list([outcome], group=self.group)

    def serve(self) -> None:
        """Compute shares until the first process has finished. If it failed, exit silently: it prints the error."""
        with self._listening():
            while not isinstance(asked := self._asked(), str):
                work, args = asked
                self._together(work, args, {})
        if asked == "failed":
            with suppress(RuntimeError):
                self._asked()  # wait until it has left: when one process ends, torchrun ends all others
            raise SystemExit(1)

    def _asked(self) -> Any:
        asked: list[Any] = [None]
        dist.broadcast_object_list(asked, group=self.group)
        return asked[0]

    @contextmanager
    def _listening(self) -> Iterator[None]:
        try:
            with listening(lambda: "in an evaluation", self.seconds, self.setting):
                yield
        except LostPeer as lost:
            raise self.lost(str(lost)) from lost


def _described(error: Exception) -> str:
    return str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
