"""The referee: methods compared on one task, one network and one trainer, at equal training cost.

All state is in the folder. The same request resumes after a stop or a kill; another one may add methods, seeds or
budgets of evaluations; several processes may work on one folder, each on its own runs; folders of other machines can
be merged. The report is made from the folder.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dbtm.core.errors import UsageError, nearest
from dbtm.evals.referee.budget import TEACHER_SHARE, Budget
from dbtm.evals.referee.folder import Plan, RefereeFolder
from dbtm.service.progress import Progress
from dbtm.service.refereeing.entries import COMPARISONS, base, default_flops, entries, with_changes
from dbtm.service.refereeing.report import write_report
from dbtm.service.refereeing.schedule import run_here, run_in_processes
from dbtm.service.training import TrainRequest

__all__ = ["COMPARISONS", "RefereeRequest", "RefereeResult", "merge", "referee", "report"]


@dataclass(frozen=True, kw_only=True)
class RefereeRequest:
    """What to compare, and where."""

    task: str
    folder: Path
    methods: tuple[str, ...] = ("all",)
    flops: float | None = None
    """Training budget per entry; with neither this nor `minutes`, the task's own."""
    minutes: float | None = None
    seeds: int = 3
    nfe: tuple[int, ...] | None = None
    """Network evaluations to sample at; None: the task's own."""
    n: int | None = None
    """Samples per evaluation; None: the task's own."""
    teacher_share: float = TEACHER_SHARE
    data: Path | None = None
    vocab: int | None = None
    length: int | None = None
    judge: str | None = None
    changes: tuple[str, ...] = ()
    """section.key=value for all entries, LABEL:section.key=value for one."""
    jobs: int | None = None
    """Parallel runs, each in its own process; None: one per core, one on a GPU. 0: in this process."""
    device: str = "auto"
    retry: bool = False
    """Retry failed runs."""

    def __post_init__(self):
        if self.task not in COMPARISONS:
            raise UsageError(f"the referee has no task '{self.task}'{nearest(self.task, COMPARISONS)}")
        if self.seeds < 1 or (self.nfe is not None and min(self.nfe, default=0) < 1):
            raise UsageError("seeds and numbers of network evaluations must be at least 1: give at least one of each")
        if self.n is not None and self.n < 2:
            raise UsageError(f"{self.n} samples are too few: use at least 2")
        if self.flops is not None and self.minutes is not None:
            raise UsageError("the budget is either training FLOPs or minutes of the device: give exactly one")
        if not 0 < self.teacher_share < 1:
            raise UsageError(f"a teacher's share of {self.teacher_share} must be above 0 and below 1")


@dataclass(frozen=True)
class RefereeResult:
    """The comparison so far."""

    document: dict[str, Any]
    files: tuple[Path, ...]


def referee(request: RefereeRequest, progress: Progress = Progress()) -> RefereeResult:
    """Finish a comparison, then write its report."""
    folder = RefereeFolder(request.folder)
    plan = folder.extend(planned(request))
    if request.retry:
        folder.forget_failures()
    try:
        if request.jobs == 0:
            run_here(folder, plan, request.device, progress)
        else:
            run_in_processes(folder, plan, _side_by_side(request), request.device, progress)
    finally:
        result = report(request.folder)
    return result


def _side_by_side(request: RefereeRequest) -> int:
    if request.jobs is not None:
        return request.jobs
    import os

    on_gpu = request.device != "cpu" and torch.cuda.is_available()
    return 1 if on_gpu else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def planned(request: RefereeRequest) -> Plan:
    """The plan of a request; every mistake is reported here, before anything is written."""
    comparison = COMPARISONS[request.task]
    common = tuple(change for change in request.changes if ":" not in change.partition("=")[0])
    wanted = TrainRequest(
        recipe=comparison.recipe, data=request.data, vocab=request.vocab, length=request.length, changes=common
    )
    config = base(wanted, comparison)
    if hasattr(config.task, "data"):  # read the data before anything is written
        config.task.batch(np.arange(1))
    n = request.n or comparison.n
    if hasattr(config.task, "evaluate_n"):
        config = config.on(replace(config.task, evaluate_n=n))  # type: ignore[type-var]
    found = entries(config, comparison, request.methods)
    found = with_changes(found, [change for change in request.changes if change not in common], config)
    flops = request.flops if request.minutes is None else None
    if flops is None and request.minutes is None:
        flops = default_flops(config, comparison)
    return Plan(
        task=request.task,
        budget=Budget(flops, request.minutes),
        n=n,
        seeds=tuple(range(request.seeds)),
        nfe=tuple(sorted(set(request.nfe or comparison.nfe))),
        entries=found,
        teacher_share=request.teacher_share,
        judge=request.judge or comparison.judge,
    )


def report(path: Path) -> RefereeResult:
    """Write the report of a folder again."""
    folder = RefereeFolder(path)
    plan = folder.plan
    if plan is None:
        raise UsageError(f"{path} is not a comparison: it has no plan.json")
    document, files = write_report(folder, plan)
    return RefereeResult(document, tuple(files))


def merge(path: Path, others: tuple[Path, ...], progress: Progress = Progress()) -> RefereeResult:
    """Import the runs of other folders, and write the report of all."""
    kept = RefereeFolder(path).merge(others)
    if kept:
        progress.note(f"{', '.join(kept)} are in several folders: kept from {path}, or from the first folder")
    return report(path)
