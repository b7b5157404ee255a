"""The queue of work for models: one worker thread, clients in turn, cancellable jobs, limited length."""

import asyncio
import threading
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

from dbtm.core.errors import UsageError, out_of_memory

MOST, MOST_PER_CLIENT = 64, 8
Event = tuple[str, dict[str, Any]]
Work = Callable[["Job"], dict[str, Any]]


class Busy(Exception):
    """The queue is full."""


class Cancelled(Exception):
    """No client waits for the result any more."""


class Job:
    """One piece of work, and its events. `work` runs in the worker thread."""

    def __init__(self, client: str, work: Work, loop: asyncio.AbstractEventLoop):
        self.client, self.work, self.loop = client, work, loop
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.stop = threading.Event()
        self.position: int | None = None

    def send(self, event: str, data: dict[str, Any]) -> None:
        """Notify all waiters; callable from any thread, without waiting for slow readers."""
        try:
            self.loop.call_soon_threadsafe(self.events.put_nowait, (event, data))
        except RuntimeError:  # the loop is closed: the studio is stopping
            self.stop.set()

    def cancel(self) -> None:
        self.stop.set()

    def cancelled(self) -> bool:
        return self.stop.is_set()

    def check(self) -> None:
        """Stop the work if no client waits for it."""
        if self.cancelled():
            raise Cancelled


class Jobs:
    """The queue. Clients are served in turn, one job each, so that none waits for another's whole batch."""

    def __init__(self, most: int = MOST, most_per_client: int = MOST_PER_CLIENT):
        self.most, self.most_per_client = most, most_per_client
        self.waiting: OrderedDict[str, deque[Job]] = OrderedDict()
        self.running: Job | None = None
        self.done = 0
        self.ended = False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._work, name="studio-worker", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def submit(self, client: str, work: Work) -> Job:
        """Append work to a client's queue; raises Busy if it is full."""
        job = Job(client, work, asyncio.get_running_loop())
        with self.changed:
            if sum(map(len, self.waiting.values())) >= self.most:
                raise Busy(f"{self.most} requests are waiting already: try again in a moment")
            mine = self.waiting.setdefault(client, deque())
            if len(mine) >= self.most_per_client:
                raise Busy(
                    f"{self.most_per_client} of your requests are waiting already: wait for them, or cancel some"
                )
            mine.append(job)
            self._tell_positions()
            self.changed.notify()
        return job

    def close(self) -> None:
        """Cancel all jobs, running or waiting, and end the thread after its current network evaluation."""
        with self.changed:
            self.ended = True
            for job in self._in_turn():
                job.cancel()
            self.waiting.clear()
            if self.running is not None:
                self.running.cancel()
            self.changed.notify()

    def state(self) -> dict[str, int]:
        with self.changed:
            waiting = sum(map(len, self.waiting.values()))
            return {"running": int(self.running is not None), "waiting": waiting, "done": self.done}

    # -- under the lock ------------------------------------------------------------------------------------------------

    def _in_turn(self) -> Iterator[Job]:
        """Waiting jobs in order of service: each client's first, then each client's second, and so on."""
        lines = [list(line) for line in self.waiting.values()]
        for depth in range(max(map(len, lines), default=0)):
            yield from (line[depth] for line in lines if depth < len(line))

    def _tell_positions(self) -> None:
        for position, job in enumerate(self._in_turn(), start=1 if self.running else 0):
            if position and position != job.position:
                job.position = position
                job.send("queued", {"position": position})

    def _next(self) -> Job | None:
        """The next job with a waiting client, who moves to the end of the queue."""
        while self.waiting:
            client, line = next(iter(self.waiting.items()))
            job = line.popleft()
            del self.waiting[client]
            if line:
                self.waiting[client] = line
            if not job.cancelled():
                return job
        return None

    # -- the worker ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self.changed:
                while not self.ended and (job := self._next()) is None:
                    self.changed.wait()
                if self.ended:
                    return
                assert job is not None
                self.running = job
                self._tell_positions()
            job.send("begun", {})
            job.send(*_outcome(job))
            with self.changed:
                self.running = None
                self.done += 1


def _outcome(job: Job) -> Event:
    """The last event of a job. A user's mistake is reported to the client, other errors only in the terminal."""
    from dbtm.service.progress import Cancelled as ServiceCancelled

    try:
        return "done", job.work(job)
    except (Cancelled, ServiceCancelled):
        return "cancelled", {}
    except UsageError as error:
        return "error", {"status": 400, "error": str(error)}
    except Exception as error:
        if out_of_memory(error):
            return "error", {"status": 503, "error": "not enough memory: use smaller settings"}
        traceback.print_exc()
        return "error", {"status": 500, "error": "the studio failed at this request; see its terminal"}
