"""Shared state of the rooms: models, the queue, recent results, and the folders of runs."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request

from dbtm.studio.guard import Door
from dbtm.studio.jobs import Job, Jobs
from dbtm.studio.results import Results
from dbtm.studio.shelf import Shelf

if TYPE_CHECKING:
    from dbtm.service.progress import Progress

MOST_ROUNDS = 64  # shown for a method with one network evaluation per token


@dataclass
class Studio:
    """One running studio."""

    shelf: Shelf
    runs: list[Path] = field(default_factory=list)
    """Runs, and folders to search for runs."""
    door: Door = field(default_factory=lambda: Door(None))
    jobs: Jobs = field(default_factory=Jobs)
    results: Results = field(default_factory=Results)

    def progress(self, job: Job) -> "Progress":
        """A listener that forwards stages and notes, and cancels if no client waits for the job."""
        from dbtm.service.progress import Progress

        class Told(Progress):
            def stage(self, name: str, total: int | None = None) -> None:
                job.send("stage", {"name": name})

            def note(self, text: str) -> None:
                job.send("note", {"text": text})

            def cancelled(self) -> bool:
                return job.cancelled()

        return Told()


def studio_of(request: Request) -> Studio:
    return request.app.state.studio


def every(rounds: int, most: int = MOST_ROUNDS) -> Callable[[], bool]:
    """Called once per round: True for at most `most` of `rounds` rounds."""
    stride, count = -(-rounds // most), itertools.count(1)
    return lambda: next(count) % max(1, stride) == 0
