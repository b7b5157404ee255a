"""Tuning of sampler options on the trained weights; they are written into the checkpoint."""

import os
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from dbtm import config as configuration
from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.loading import PACKAGED, find, load
from dbtm.checkpoint.lock import RunLock
from dbtm.checkpoint.migrate import read_config
from dbtm.config import RunConfig, SampleConfig
from dbtm.core.errors import UsageError
from dbtm.methods.base import Method
from dbtm.tasks.base import Batch, Task
from dbtm.train.display import shown

EXAMPLES = 256


@dataclass(frozen=True)
class Tuned:
    """A checkpoint with tuned options."""

    folder: Path
    options: SampleConfig
    """The section `sample` of its configuration."""


def tune(source: str | Path, data: Path | None = None, device: str = "auto") -> Tuned:
    """Tune the options of a checkpoint's sampler on held-out examples of its task, or on training examples if none are
    held out, and write them into its config.json. `data` is the new path of the data.
    """
    folder = find(source)
    if folder.resolve().is_relative_to(PACKAGED.resolve()):
        raise UsageError(f"'{source}' is a packaged model, which must not change: copy its folder first")
    sampler = load(folder, device)
    assert isinstance(sampler.method, Method)
    assert sampler.task is not None
    examples = _examples(sampler.task if data is None else _moved(sampler.task, data))
    prompt = np.zeros(examples.tokens.shape, dtype=bool) if examples.prompt is None else np.array(examples.prompt)
    options = sampler.method.tune(sampler.network, sampler.given(examples.tokens, prompt))
    config = replace(read_config(folder), sample=options)
    lock = RunLock(folder.parent) if (folder.parent / RunLock(folder.parent).path.name).is_file() else None
    try:
        if lock is not None:
            lock.take()
        checkpoint.rewrite(folder, {"config": configuration.dumps(config)})
    finally:
        if lock is not None:
            lock.release()
    return Tuned(folder, options)


def tune_finished(folder: Path) -> None:
    """Tune the last checkpoint of a run with tuned options (`SampleConfig.tunes`). A stopped run is left alone; a
    failure to tune is only a warning, as the run itself is complete.
    """
    config = read_config(folder)
    if not config.sample.tunes or os.environ.get("RANK", "0") != "0" or not _complete(folder, config):
        return
    try:
        with shown("planning the sampler's rounds"):
            tune(folder, device=config.train.device)
    except KeyboardInterrupt:
        print(f"the run is complete: {folder}; `dbtm tune {folder.parent}` plans its sampler's rounds", file=sys.stderr)
        raise
    except UsageError as error:
        print(f"warning: the sampler is not tuned: {error}", file=sys.stderr)


def _complete(folder: Path, config: RunConfig) -> bool:
    return bool(checkpoint.read_state(folder)["step"] >= config.train.steps)


def _moved(task: Task, data: Path) -> Task:
    """The task with its data at a new path."""
    if "data" not in {f.name for f in fields(task)}:  # type: ignore[arg-type]
        raise UsageError(f"the task '{task.name}' reads no data: leave it out")
    return replace(task, data=str(data))  # type: ignore[type-var]


def _examples(task: Task) -> Batch:
    held_out = task.held_out_examples(EXAMPLES)
    return task.batch(np.arange(EXAMPLES)) if held_out is None else held_out
