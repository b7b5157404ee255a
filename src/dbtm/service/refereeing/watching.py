"""Progress of a comparison, read from its folder: finished runs, current runs, and the time left."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbtm.evals.referee.folder import Job, Plan, RefereeFolder, read
from dbtm.service.progress import Progress
from dbtm.service.refereeing.job import seconds_trained
from dbtm.train.display import clock

_EVERY = 1.0  # seconds between checks
UNITS = 100  # of a run: 70 for training, 30 for its rows
_TRAINING = 70


class Watcher:
    """Reports the progress of all runs, and the current work."""

    def __init__(self, folder: RefereeFolder, plan: Plan, progress: Progress):
        self.folder, self.plan, self.progress = folder, plan, progress
        self.jobs = plan.jobs()
        self.finished = {job for job in self.jobs if folder.done(job, plan)}
        self.last, self.shown = 0.0, ""
        self.started, self.first = time.monotonic(), UNITS * len(self.finished)
        progress.stage(f"comparing {len(plan.entries)} entries, {len(plan.seeds)} seeds", UNITS * len(self.jobs))
        progress.advance(self.first)

    def look(self, working: Sequence[Job]) -> None:
        """Report at most once a second; always at the end, when nothing is running."""
        now = time.monotonic()
        if working and now - self.last < _EVERY:
            return
        self.last = now
        for job in self.jobs:
            if job not in self.finished and job not in working and self.folder.done(job, self.plan):
                self.finished.add(job)
        parts = {job: self.part(job) for job in working}
        done = UNITS * len(self.finished) + sum(part for part, _ in parts.values())
        self.progress.advance(done)
        left = self.left(done, now)
        words = [f"{job.name}: {what}" for job, (_, what) in parts.items()]
        words += [] if left is None else [f"about {clock(left)} left for all"]
        self.progress.now(f"{len(self.finished)} of {len(self.jobs)} runs done; " + "; ".join(words))

    def left(self, done: int, now: float) -> float | None:
        """Seconds left at the pace so far; None at the start."""
        gained, spent = done - self.first, now - self.started
        if gained < UNITS // 4:
            return None
        return spent * (UNITS * len(self.jobs) - done) / gained

    def part(self, job: Job) -> tuple[int, str]:
        """Finished units of a run, and its current work."""
        if self.folder.training(job) is not None:
            rows = len(self.folder.rows(job))
            return _TRAINING + (UNITS - _TRAINING) * rows // (len(self.plan.nfe) + 1), f"sampling ({rows} budgets done)"
        entry, share = self.plan.entries[job.label], self.plan.teacher_share
        if entry.teacher is None:
            done, what = self.trained(self.folder.run(job), 1.0)
            return round(_TRAINING * done), what
        teacher = self.folder.teacher(entry.teacher.method_name, job.seed)
        if not (teacher / "training.json").is_file():
            done, what = self.trained(teacher, share)
            return round(_TRAINING * share * done), f"teacher, {what}"
        done, what = self.trained(self.folder.run(job), 1 - share)
        return round(_TRAINING * (share + (1 - share) * done)), what

    def trained(self, path: Path, share: float) -> tuple[float, str]:
        """Finished share of a training run, of its steps or of its minutes, and its step."""
        step = int(last_record(path / "run" / "metrics.jsonl").get("step", 0))
        if self.plan.budget.minutes is not None:
            minutes = share * self.plan.budget.minutes
            return min(1.0, seconds_trained(path / "run") / 60 / minutes), f"step {step}, for {minutes:.3g} minutes"
        known = path / "steps.json"
        steps = int(read(known)["steps"]) if known.is_file() else 0
        return min(1.0, step / max(1, steps)), f"step {step} of {steps}" if steps else "starting"


def last_record(path: Path) -> dict[str, Any]:
    """The last complete record of a file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            found = json.loads(line)
            return found if isinstance(found, dict) else {}
        except ValueError:
            continue
    return {}
