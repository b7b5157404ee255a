"""Parallel runs, each in its own process, until all runs that this machine can do are done."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dbtm.checkpoint.lock import RunLock
from dbtm.core.errors import UsageError
from dbtm.evals.referee.folder import Job, Plan, RefereeFolder, write
from dbtm.service.progress import Cancelled, Progress
from dbtm.service.refereeing.job import BUSY, NO_WEIGHTS, STOPPED, BusyError, NoWeightsError, Work, do
from dbtm.service.refereeing.watching import Watcher

PATIENCE = 20.0  # seconds that a child has to save its run
_ASK = 0.2  # seconds between checks of the children


@dataclass
class Child:
    """A running job."""

    job: Job
    process: subprocess.Popen


@dataclass
class Schedule:
    """Waiting jobs, running jobs, and jobs of other processes."""

    folder: RefereeFolder
    plan: Plan
    device: str
    waiting: list[Job]
    working: list[Child] = field(default_factory=list)
    elsewhere: list[Job] = field(default_factory=list)


def run_in_processes(folder: RefereeFolder, plan: Plan, jobs: int, device: str, progress: Progress) -> None:
    """Run all unfinished jobs, at most `jobs` at a time."""
    todo = [job for job in plan.jobs() if not folder.done(job, plan)]
    schedule, watcher = Schedule(folder, plan, device, todo), Watcher(folder, plan, progress)
    with _ended(schedule):
        while schedule.waiting or schedule.working or schedule.elsewhere:
            while schedule.waiting and len(schedule.working) < jobs:
                job = schedule.waiting.pop(0)
                schedule.working.append(Child(job, _start(folder, job, device, jobs)))
            for child in [child for child in schedule.working if child.process.poll() is not None]:
                schedule.working.remove(child)
                _ended_one(schedule, child, progress)
            watcher.look([child.job for child in schedule.working])
            if progress.cancelled():
                raise Cancelled
            if not schedule.working and not schedule.waiting:
                _look_elsewhere(schedule)
            time.sleep(_ASK)
    watcher.look([])


def _start(folder: RefereeFolder, job: Job, device: str, side_by_side: int) -> subprocess.Popen:
    path = folder.run(job)
    path.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if side_by_side > 1:  # one core per run is faster than splitting small products over cores
        environment |= {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // side_by_side))}
    words = [sys.executable, "-m", "dbtm.service.refereeing.child", str(folder.path), job.label, str(job.seed), device]
    with open(path / "log.txt", "ab") as log:
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)


def _ended_one(schedule: Schedule, child: Child, progress: Progress) -> None:
    """Handle the end of a child: done, failed (it has recorded why), busy elsewhere, or killed."""
    code, job, folder = child.process.returncode, child.job, schedule.folder
    if child.process.stdin:
        child.process.stdin.close()
    if code == BUSY:
        schedule.elsewhere.append(job)
    elif code == STOPPED:
        raise Cancelled  # the child was stopped: stop all
    elif code == NO_WEIGHTS:
        progress.note(f"{job.name} was merged from another machine, which has its weights: sample further rows there")
    elif code:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        hint = ": the system may have run out of memory" if code == -9 else f": see {folder.run(job) / 'log.txt'}"
        write(folder.run(job) / "failed.json", {"reason": f"its process ended by {how}{hint}", "kind": "Killed"})
    failure = folder.failure(job)
    if failure:
        progress.note(f"{job.name} failed: {failure['reason']}")


def _look_elsewhere(schedule: Schedule) -> None:
    """Check the runs of other processes: done by now, or abandoned and to be done here."""
    left = [job for job in schedule.elsewhere if not schedule.folder.done(job, schedule.plan)]
    schedule.elsewhere = [job for job in left if _held(schedule.folder, job)]  # a child would need seconds to find out
    schedule.waiting = [job for job in left if job not in schedule.elsewhere]
    if left:
        time.sleep(5 * _ASK)


def _held(folder: RefereeFolder, job: Job) -> bool:
    try:
        RunLock(folder.run(job)).refuse_if_held()
    except UsageError:
        return True
    return False


@contextmanager
def _ended(schedule: Schedule) -> Iterator[None]:
    """Stop the children with the schedule; they save their runs."""
    try:
        yield
    finally:
        for child in schedule.working:
            child.process.terminate()
        deadline = time.monotonic() + PATIENCE
        for child in schedule.working:
            try:
                child.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()


def run_here(folder: RefereeFolder, plan: Plan, device: str, progress: Progress) -> None:
    """Run all jobs in turn in this process: for methods registered only here."""
    from contextlib import redirect_stderr

    waiting, watcher = [job for job in plan.jobs() if not folder.done(job, plan)], Watcher(folder, plan, progress)
    while waiting:
        busy = []
        for job in waiting:
            watcher.look([job])
            folder.run(job).mkdir(parents=True, exist_ok=True)
            with open(folder.run(job) / "log.txt", "a") as log, redirect_stderr(log):
                try:
                    do(Work(folder, plan, job, device, progress.cancelled))
                except BusyError:
                    busy.append(job)
                except NoWeightsError as error:
                    progress.note(str(error))
            if failure := folder.failure(job):
                progress.note(f"{job.name} failed: {failure['reason']}")
        waiting = [job for job in busy if not folder.done(job, plan)]
        time.sleep(_ASK if waiting else 0)
    watcher.look([])
