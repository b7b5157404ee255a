"""One run of a comparison: train (a teacher first, if the method has one), sample at each budget, save a trace."""

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.loading import load
from dbtm.checkpoint.lock import RunLock
from dbtm.checkpoint.migrate import read_config
from dbtm.config import RunConfig
from dbtm.core.device import pick_device
from dbtm.core.errors import UsageError, out_of_memory
from dbtm.evals.cost import cost_of_run
from dbtm.evals.judges import load_judge
from dbtm.evals.provenance import made
from dbtm.evals.referee.budget import Budget, fitted, with_steps
from dbtm.evals.referee.folder import OWN_COUNT, Job, Plan, RefereeFolder, read, write
from dbtm.evals.referee.measures import Settings, measure
from dbtm.evals.training_cost import run_flops
from dbtm.sampling import Cancelled, Sampler, Trace
from dbtm.train import loop
from dbtm.train.pace import OPEN

BUSY, STOPPED, NO_WEIGHTS = 75, 130, 76  # exit codes of a process that does one job
SAMPLES_SEED = 1_000_000  # added to a run's seed: samples of a run
TRACE_NFE = 8
"""Evaluations of the saved trace: this many, or the nearest budget."""


class BusyError(Exception):
    """Another process works on the run."""


class NoWeightsError(Exception):
    """A run was merged from another machine: its numbers are here, but not the weights for further ones."""


@dataclass
class Work:
    """A job with its folder and plan."""

    folder: RefereeFolder
    plan: Plan
    job: Job
    device: str = "auto"
    cancelled: Callable[[], bool] | None = None
    isolated: bool = False
    """Whether the process runs only this job, so that its peak memory is the run's."""

    @property
    def path(self) -> Path:
        return self.folder.run(self.job)


def do(work: Work) -> None:
    """Finish a job; a failure is recorded and does not end the comparison."""
    lock = _take(work.path)
    try:
        if work.folder.done(work.job, work.plan):
            return
        try:
            _train_and_measure(work)
        except (Cancelled, KeyboardInterrupt, BusyError, NoWeightsError):
            raise
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            write(work.path / "failed.json", {"reason": reason(error), "kind": type(error).__name__})
    finally:
        lock.release()


def reason(error: Exception) -> str:
    """The reason why a run failed, in one line."""
    words = (str(error).strip() or type(error).__name__).split("\n")[0][:300]
    if out_of_memory(error):
        return f"not enough memory ({words})"
    if isinstance(error, UsageError | loop.NonFiniteLoss):
        return words
    return f"{type(error).__name__}: {words}"


def _take(path: Path) -> RunLock:
    lock = RunLock(path)
    try:
        return lock.take()
    except UsageError as error:
        if "another process" in str(error):
            raise BusyError(path.name) from None
        raise


def _train_and_measure(work: Work) -> None:
    entry, plan = work.plan.entries[work.job.label], work.plan
    budget, taught = plan.budget, None
    config = _seeded(entry.config, work)
    if entry.teacher is not None:
        where, taught = _teacher(work, _seeded(entry.teacher, work), plan.budget.share(plan.teacher_share))
        budget = plan.budget.share(1 - plan.teacher_share)
        config = replace(config, train=replace(config.train, init=str(where)))
    newest, training = _trained(work, work.path, config, budget)
    if taught is not None and "teacher" not in training:
        write(work.path / "training.json", with_teacher(training, taught))
    _measure(work, newest)


def with_teacher(training: dict[str, Any], teacher: dict[str, Any]) -> dict[str, Any]:
    """A distilled run's cost includes its whole teacher, even if others share it."""
    both = {name: training[name] + teacher[name] for name in ("flops", "seconds", "steps", "sequences")}
    peaks = [run["peak_memory"] for run in (training, teacher) if run["peak_memory"] is not None]
    student = {name: training[name] for name in (*both, "peak_memory")}
    about = {name: teacher[name] for name in (*both, "method", "peak_memory", "parameters")}
    return {**training, **both, "peak_memory": max(peaks, default=None), "student": student, "teacher": about}


def _seeded(config: RunConfig, work: Work) -> RunConfig:
    return replace(config, train=replace(config.train, seed=work.job.seed, device=work.device))


# -- training ----------------------------------------------------------------------------------------------------------


def _teacher(work: Work, config: RunConfig, budget: Budget) -> tuple[Path, dict[str, Any]]:
    """The teacher's checkpoint and its cost; trained here if it does not exist yet."""
    path = work.folder.teacher(config.method_name, work.job.seed)
    lock = _take(path)
    try:
        return _trained(work, path, config, budget)
    finally:
        lock.release()


def _trained(work: Work, path: Path, config: RunConfig, budget: Budget) -> tuple[Path, dict[str, Any]]:
    """Train to the end of the budget, resuming an earlier process; the cost is in training.json."""
    run = path / "run"
    newest = checkpoint.latest(run)
    if (path / "training.json").is_file():
        if newest is None:
            raise NoWeightsError(f"the weights of {path.name} are on another machine")
        return newest, read(path / "training.json")
    minutes = None
    if budget.flops is not None:
        config = fitted(config, budget.flops)
        write(path / "steps.json", {"steps": config.train.steps})
    else:
        assert budget.minutes is not None
        config = with_steps(config, 10**6 if newest is None else _planned_steps(newest))
        minutes = budget.minutes - seconds_trained(run) / 60
    if newest is None or (checkpoint.step_of(newest) < config.train.steps and (minutes is None or minutes > 0)):
        loop.fit(config, run, resume=newest is not None, minutes=minutes)
        newest = checkpoint.latest(run)
    assert newest is not None
    step, last = checkpoint.step_of(newest), read_config(newest)
    spent = seconds_trained(run)
    if step < last.train.steps and (budget.minutes is None or spent < 0.9 * 60 * budget.minutes):
        raise Cancelled  # a signal stopped the trainer, which has saved a checkpoint
    training = _training(work, last, newest, step, spent)
    write(path / "training.json", training)
    return newest, training


def _planned_steps(newest: Path) -> int:
    """The number of steps that a timed run has settled on so far."""
    steps = read_config(newest).train.steps
    return steps if steps < OPEN else 10**6


def _training(work: Work, config: RunConfig, newest: Path, step: int, seconds: float) -> dict[str, Any]:
    return {
        "method": config.method_name,
        "steps": step,
        "batch": config.train.batch,
        "sequences": step * config.train.batch,
        "flops": run_flops(config, step),
        "seconds": seconds,
        "parameters": cost_of_run(config)["parameters"],
        "peak_memory": peak_memory(pick_device(work.device), work.isolated),
        "checkpoint": newest.name,
        **made(pick_device(work.device)),
    }


def seconds_trained(run: Path) -> float:
    """Seconds in the loop, summed over all processes of a run: each counts from 0."""
    path, total, last = run / "metrics.jsonl", 0.0, 0.0
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            now = float(json.loads(line)["seconds"])
        except (ValueError, KeyError, TypeError):
            continue  # cut off by a kill, or not a progress record
        if now < last:
            total += last
        last = now
    return total + last


def peak_memory(device: torch.device, isolated: bool) -> int | None:
    """Bytes of the GPU's tensors, or of a process that ran only this job; None if unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if not isolated:
        return None
    try:
        import resource
    except ImportError:  # Windows
        return None
    scale = 1 if sys.platform == "darwin" else 1024
    return scale * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# -- measuring ---------------------------------------------------------------------------------------------------------


def _measure(work: Work, trained: Path) -> None:
    """Measure the missing rows, then the trace."""
    sampler = load(trained, work.device)
    sampler.task = work.plan.entries[
        work.job.label
    ].config.task  # it has the held-out examples, and its data may have moved
    judge = None if work.plan.judge is None else load_judge(work.plan.judge, work.device)
    settings = Settings(work.plan.n, judge, SAMPLES_SEED + work.job.seed, work.cancelled)
    budgets = work.folder.missing(work.job, work.plan) if sampler.has_budget else [None]
    if not sampler.has_budget and OWN_COUNT in work.folder.rows(work.job):
        budgets = []
    if budgets:
        _warm_up(sampler, settings)
    for asked in budgets:
        row = measure(sampler, asked, settings)
        name = OWN_COUNT if asked is None else str(asked)
        write(work.path / "rows" / f"{name}.json", {**row.document(), **made(sampler.device)})
    if work.folder.trace(work.job) is None:
        write(work.path / "trace.json", _trace(sampler, work.plan))


def _warm_up(sampler: Sampler, settings: Settings) -> None:
    """Run one evaluation before timing: the first one includes allocation and compilation."""
    task: Any = sampler.task
    options: dict[str, Any] = {"nfe": 1} if sampler.has_budget else {}
    sampler.sample(**given_input(task, 1), seed=settings.seed, **options)


def given_input(task: Any, n: int) -> dict[str, Any]:
    """The given tokens of the trace, the same for all methods: the first held-out prompts, or none."""
    examples = task.held_out_examples(n)
    if examples is None or examples.prompt is None or not np.asarray(examples.prompt).any():
        return {"n": n}
    return {"tokens": examples.tokens[:n], "clean": np.array(examples.prompt[:n])}


def _trace(sampler: Sampler, plan: Plan) -> dict[str, Any]:
    """One sample on the common input, with the common seed."""
    nearest = min(plan.nfe, key=lambda nfe: abs(nfe - TRACE_NFE))
    options: dict[str, Any] = {"nfe": nearest} if sampler.has_budget else {}
    trace = sampler.sample(**given_input(sampler.task, 1), seed=0, trace=True, **options)
    return trace_document(trace)


def trace_document(trace: Trace) -> dict[str, Any]:
    """A `Trace` as plain lists."""

    def plain(x: np.ndarray | None) -> Any:
        return None if x is None else x.tolist()

    rounds = [
        {
            "tokens": plain(state.tokens),
            "committed": plain(state.committed),
            "score": None if state.score is None else np.nan_to_num(state.score.astype(float)).round(4).tolist(),
            "time": state.time,
        }
        for state in trace.rounds
    ]
    return {"tokens": plain(trace.tokens), "nfe": plain(trace.nfe), "prompt": plain(trace.prompt), "rounds": rounds}
