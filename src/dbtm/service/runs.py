"""Training runs on disk: list, progress, curves, checkpoints, settings and samples."""

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.loading import load
from dbtm.checkpoint.migrate import read_config
from dbtm.core.errors import UsageError
from dbtm.core.numbers import is_number, is_whole
from dbtm.sampling import Trace
from dbtm.service.explaining import Setting, explain
from dbtm.service.finding import find_folders
from dbtm.service.progress import Cancelled, Progress
from dbtm.tasks.base import Task
from dbtm.tasks.sudoku.puzzle import parse
from dbtm.tasks.sudoku.task import Sudoku

METRICS = "metrics.jsonl"
MOST_STEP = 2**63 - 1
MOST_RUNS = 500  # in a list
MOST_BYTES = 4 << 20  # of metrics per read
MOST_SAMPLES = 12  # sampled checkpoints
LIVE = 60.0  # a run counts as alive for this many seconds after its last record


@dataclass(frozen=True)
class Records:
    """Records of a run's metrics, and the position to continue from."""

    records: list[dict[str, Any]]
    end: int
    """Bytes read so far."""
    restarted: bool
    """The file has shrunk: the run was resumed from an earlier step, and everything is read again."""
    more: bool
    """There are more records."""


@dataclass(frozen=True)
class CheckpointNote:
    """A checkpoint of a run, and its scores."""

    name: str
    step: int
    score: float | None
    best: bool


@dataclass(frozen=True)
class RunSummary:
    """Progress of a run. Unknown values, as before the first record, are None."""

    recipe: str | None
    task: str | None
    method: str | None
    step: int
    steps: int | None
    loss: float | None
    score: float | None
    steps_per_second: float | None
    seconds_left: float | None
    live: bool
    age: float | None
    """Seconds since the last record."""


# -- finding -----------------------------------------------------------------------------------------------------------


def find_runs(places: Iterable[Path]) -> dict[str, Path]:
    """{name: folder} of the runs under some folders, or of the folders themselves, newest first."""
    named = find_folders(places, is_run, MOST_RUNS)
    return dict(sorted(named.items(), key=lambda item: -_modified(item[1])))


def is_run(folder: Path) -> bool:
    """Whether a folder is a run: it has metrics, or at least one checkpoint."""
    return (folder / METRICS).is_file() or checkpoint.latest(folder) is not None


def _modified(run: Path) -> float:
    try:
        return (run / METRICS).stat().st_mtime
    except OSError:
        return 0.0


# -- metrics -----------------------------------------------------------------------------------------------------------


def read_records(run: Path, start: int = 0, most: int = MOST_BYTES) -> Records:
    """Complete records from byte `start` on; an unfinished line is left for the next read."""
    try:
        with open(run / METRICS, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            restarted = start > size
            start = 0 if restarted else start
            file.seek(start)
            data = file.read(most)
    except FileNotFoundError:
        return Records([], 0, start > 0, False)
    except OSError as error:
        raise UsageError(f"cannot read {METRICS}: {error.strerror}") from None
    whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == most else b"")  # a line that never ends is skipped
    records = [record for line in whole.splitlines() if (record := _record(line)) is not None]
    return Records(records, start + len(whole), restarted, start + len(whole) < size and len(whole) > 0)


def _record(line: bytes) -> dict[str, Any] | None:
    """A line's step and numbers; other values are left out, and a line cut off by a kill is None."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not is_whole(values.get("step"), 0, MOST_STEP):
        return None
    return {str(name)[:80]: value for name, value in values.items() if is_number(value)}


def summarise(run: Path) -> RunSummary:
    """Progress of a run, from its last records and its newest configuration."""
    tail = _tail(run)
    losses: dict[str, Any] = next((record for record in reversed(tail) if "loss" in record), {})
    scores = [record["eval/score"] for record in tail if "eval/score" in record]
    best = checkpoint.best(run)
    config = _config(run)
    steps = None if config is None else config.train.steps
    step = max([record["step"] for record in tail], default=checkpoint.step_of(checkpoint.latest(run) or Path("-")))
    speed = losses.get("steps_per_second")
    left = max(0, steps - step) / speed if steps is not None and speed else None
    left = left if is_number(left) else None
    age = time.time() - _modified(run) if tail else None
    return RunSummary(
        recipe=None if config is None else config.recipe,
        task=None if config is None else config.task.name,
        method=None if config is None else config.method_name,
        step=max(0, step),
        steps=steps,
        loss=losses.get("loss"),
        score=best["score"] if best else max(scores, default=None),
        steps_per_second=speed,
        seconds_left=left,
        live=age is not None and age < LIVE and (steps is None or step < steps),
        age=age,
    )


def _tail(run: Path, size: int = 1 << 16) -> list[dict[str, Any]]:
    """The last records, at most `size` bytes of them."""
    try:
        whole = (run / METRICS).stat().st_size
    except OSError:
        return []
    return read_records(run, max(0, whole - size), size).records


def _config(run: Path) -> Any:
    newest = checkpoint.latest(run)
    try:
        return None if newest is None else read_config(newest)
    except UsageError:
        return None


# -- checkpoints, settings, samples ------------------------------------------------------------------------------------


def list_checkpoints(run: Path, records: Iterable[dict[str, Any]] = ()) -> list[CheckpointNote]:
    """Checkpoints, oldest first, with the recorded scores of their steps."""
    scores = {record["step"]: record["eval/score"] for record in records if "eval/score" in record}
    best = checkpoint.best(run)
    if best is not None:
        scores.setdefault(checkpoint.step_of(Path(best["checkpoint"])), best["score"])
    return [
        CheckpointNote(
            folder.name,
            checkpoint.step_of(folder),
            scores.get(checkpoint.step_of(folder)),
            best is not None and best["checkpoint"] == folder.name,
        )
        for folder in checkpoint.all_in(run)
    ]


def run_settings(run: Path) -> list[Setting]:
    """Every setting of a run, from its newest checkpoint."""
    newest = checkpoint.latest(run)
    if newest is None:
        raise UsageError("this run has no checkpoint yet: its settings are saved with the first one")
    return explain(read_config(newest))


@dataclass(frozen=True)
class StepSample:
    """The sample of one checkpoint from the common noise."""

    step: int
    text: str
    grid: list[int] | None
    """Sudoku: the cells of the answer."""
    nfe: int


def samples_over_training(
    run: Path, nfe: int | None = None, seed: int = 0, progress: Progress = Progress(), device: str = "auto"
) -> Iterator[StepSample]:
    """One sample by each checkpoint of a run, at most a dozen, all from the same noise."""
    from dbtm.service.solving import BUILT_IN

    folders = checkpoint.all_in(run)
    if not folders:
        raise UsageError("this run has no checkpoint yet: there is nothing to sample from")
    count = min(len(folders), MOST_SAMPLES)
    chosen = [folders[round(i * (len(folders) - 1) / max(1, count - 1))] for i in range(count)]
    progress.stage("sampling", count)
    for done, folder in enumerate(chosen):
        if progress.cancelled():
            raise Cancelled
        sampler = load(folder, device)
        task = sampler.task
        assert task is not None
        options: dict[str, Any] = {"nfe": nfe} if nfe is not None and sampler.has_budget else {}
        given: dict[str, Any] = {"n": 1}
        if isinstance(task, Sudoku):
            given = task.given(parse(BUILT_IN[task.layout.cells])[None])
        elif (examples := _prompted(task)) is not None:
            given = examples
        trace = sampler.sample(**given, seed=seed, cancelled=progress.cancelled, **options)
        progress.advance(done + 1, count)
        yield _step_sample(task, checkpoint.step_of(folder), trace)


def _prompted(task: Task) -> dict[str, Any] | None:
    """The first question, for tasks that have questions."""
    from dbtm.tasks.gsm8k.synthetic import held_out
    from dbtm.tasks.gsm8k.task import Gsm8k

    if not isinstance(task, Gsm8k):
        return None
    given, fits_B = task.given([example.question for example in held_out(16, 0)])
    first = next((i for i, fits in enumerate(fits_B) if fits), 0)
    return {name: given[name][first : first + 1] for name in ("tokens", "clean")}


def _step_sample(task: Task, step: int, trace: Trace) -> StepSample:
    grid = task.layout.decode(trace.tokens)[0].tolist() if isinstance(task, Sudoku) else None
    return StepSample(step, task.text(trace.tokens[0]), grid, int(trace.nfe[0]))
