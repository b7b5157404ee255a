"""Training: from a recipe's name and a user's changes to a checkpoint."""

import importlib
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.loading import find
from dbtm.checkpoint.migrate import read_config
from dbtm.config import RunConfig, override
from dbtm.core.device import device_name, pick_device
from dbtm.core.errors import UsageError
from dbtm.core.threads import thread_count
from dbtm.evals import machine, quick
from dbtm.recipes import PAPER, recipe, sizes
from dbtm.service.tuning import tune_finished
from dbtm.train import loop
from dbtm.train.callbacks import Callback
from dbtm.train.header import SLOW, announce
from dbtm.train.pace import OPEN

READERS = {"text": ("dbtm.tasks.text.places", "opened"), "gsm8k": ("dbtm.tasks.gsm8k.prepared", "Prepared")}
"""Names of prepared sets, by task."""


@dataclass(frozen=True)
class TrainRequest:
    """A run: a recipe, its changed settings, and its folder."""

    recipe: str
    method: str | None = None
    """A method instead of the recipe's, with its default settings."""
    changes: tuple[str, ...] = ()
    """section.key=value, applied in their order."""
    out: Path | None = None
    """Folder of the run; None: runs/RECIPE, or runs/RECIPE-METHOD for another method."""
    resume: bool = False
    """Resume the run in `out`, if there is one, with its own settings."""
    init: Path | None = None
    """A checkpoint or run whose averaged weights a new run starts from."""
    data: Path | None = None
    """Prepared text or problems; for the recipe 'own', a file of rows."""
    puzzles: tuple[Path, ...] = ()
    """Sudoku: files of puzzles to train on instead of generated ones."""
    vocab: int | None = None
    """Recipe 'own': size of the vocabulary; None: the file's."""
    length: int | None = None
    """Recipe 'own': tokens per row; None: the file's."""
    size: str = "auto"
    """Recipe 'own': tiny, small, medium or large; auto chooses for the device and the data."""
    max_seconds: float | None = None
    """Stop and save after this many seconds."""
    minutes: float | None = None
    """Set train.steps to fit into this time."""

    @property
    def folder(self) -> Path:
        return self.out or Path("runs") / (self.recipe if self.method is None else f"{self.recipe}-{self.method}")


def train(request: TrainRequest) -> Path:
    """Train and return the folder of the last checkpoint."""
    config = configuration(request)
    return fit(config, request.folder, request.resume, request.max_seconds, request.minutes)


@dataclass(frozen=True)
class DryRun:
    """Cost of a run, measured on its first steps; nothing is kept."""

    config: RunConfig
    parameters: int
    device: str
    state_bytes: int
    """Weights, gradients, averaged weights and optimizer."""
    peak_bytes: int | None
    """Peak GPU memory of a step; None on a CPU."""
    seconds_per_step: float
    """Seconds per step without the first one, which compiles."""
    first_step_seconds: float

    @property
    def seconds(self) -> float:
        """Seconds of the whole run without evaluations."""
        return self.first_step_seconds + self.seconds_per_step * (self.config.train.steps - 1)


def dry_run(request: TrainRequest, steps: int = 4) -> DryRun:
    """Build a run and do its first steps, in a temporary folder."""
    config = configuration(request)
    with tempfile.TemporaryDirectory() as folder, thread_count(config.train.threads):
        trainer = loop.Trainer(config, Path(folder) / "run")
        times = []
        for batches in islice(trainer.batches(), steps):
            start = time.perf_counter()
            float(trainer._step(batches)["loss"])  # waits for a GPU
            times.append(time.perf_counter() - start)
        tensors = [*trainer.model.parameters(), *trainer.ema.model.parameters()]
        state = sum(x.nbytes for x in tensors) + sum(x.nbytes for x in trainer.model.parameters())  # and gradients
        kept = (value for o in trainer.optimizers for each in o.state.values() for value in each.values())
        state += sum(x.nbytes for x in kept if isinstance(x, Tensor))
        gpu = trainer.device.type == "cuda"
        peak = torch.cuda.max_memory_allocated(trainer.device) if gpu else None
        count, name = sum(p.numel() for p in trainer.model.parameters()), device_name(trainer.device)
    rest = sorted(times[1:]) or times
    return DryRun(config, count, name, state, peak, rest[len(rest) // 2], times[0])


def fit(
    config: RunConfig,
    out: str | Path,
    resume: bool = False,
    max_seconds: float | None = None,
    minutes: float | None = None,
    callbacks: Sequence[Callback] = (),
) -> Path:
    """Train a run and return the folder of its last checkpoint; the task is evaluated during the run and at the end.

    With `minutes`, train.steps is set to fit into them, from the measured speed. `callbacks` receive every number of
    the run. Sampler options that are tuned on trained weights are tuned at the end.
    """
    new = minutes is None and not (resume and checkpoint.latest(Path(out)))
    least, smaller = _least_seconds(config) if new else 0.0, _smaller(config)
    evaluate, load = quick.on_the_way, quick.judge_of
    with thread_count(config.train.threads):
        folder = loop.fit(config, out, resume, max_seconds, minutes, evaluate, callbacks, smaller, load, least)
    tune_finished(folder)
    return folder


SMALLER = {"text": "text-tiny", "sudoku": "sudoku-mini", "own": "a smaller size, or a number of minutes"}
"""The suggestion for a machine on which a recipe takes days, by task."""


def _smaller(config: RunConfig) -> str:
    advice = SMALLER.get(config.task.name, "")
    return "" if advice == config.recipe else advice


def _least_seconds(config: RunConfig) -> float:
    """What the steps take at least, on a CPU that needs days for them; else 0."""
    if pick_device(config.train.device).type != "cpu":
        return 0.0
    return machine.least_seconds(config, SLOW) / int(os.environ.get("WORLD_SIZE", "1"))


def configuration(request: TrainRequest) -> RunConfig:
    """The complete configuration of a request; every mistake is reported here, before anything is written."""
    config = recipe(request.recipe)
    if request.method is not None:
        config = config.by(request.method)
    newest = checkpoint.latest(request.folder) if request.resume else None
    if newest is not None:
        config = _saved(newest, config)
    changes = _own(request, newest is not None) if request.recipe == "own" else _on_data(request, config)
    changes += _on_puzzles(request, config)
    if request.init is not None and newest is None:
        changes.append(f"train.init={json.dumps(str(find(request.init)))}")
    complete = override(config, [*changes, *request.changes])
    if complete.optim.warmup < config.optim.warmup and not any(x.startswith("optim.warmup=") for x in request.changes):
        was, now, steps = config.optim.warmup, complete.optim.warmup, complete.train.steps
        announce([f"optim.warmup is {now} instead of {was}: the run has only {steps} step{'s' * (steps > 1)}"])
    return complete


def _own(request: TrainRequest, resumed: bool) -> list[str]:
    """The settings of the recipe 'own': vocabulary and length are the file's unless given; `size` is the network's
    size.
    """
    data = None if request.data is None else str(request.data)
    values = {"data": data, "vocab": request.vocab, "length": request.length}
    if data is None and not resumed:
        missing = [name for name, value in values.items() if value is None]
        raise UsageError(f"the recipe 'own' needs {', '.join(missing)}: a file of rows, its vocabulary and its length")
    changes = []
    if data is not None and not resumed:
        from dbtm.tasks.own.read import read_rows

        rows = read_rows(data, request.length)
        values["vocab"] = request.vocab if request.vocab is not None else max(2, rows.vocab)
        values["length"] = rows.tokens_NL.shape[1]
        changes = sizes.changes(request.size, rows.tokens_NL.size, pick_device(_device(request.changes)))
        changes.append(f"model.position_axes={json.dumps([values['length']])}")
    return [*changes, *(f"task.{name}={json.dumps(value)}" for name, value in values.items() if value is not None)]


def _device(changes: Sequence[str]) -> str:
    """The device in a request's changes."""
    asked = [word.partition("=")[2] for word in changes if word.startswith("train.device=")]
    return asked[-1] if asked else "auto"


def _on_data(request: TrainRequest, config: RunConfig) -> list[str]:
    """The settings that train a recipe on a prepared set; the paper's recipes take only the set they are for."""
    reads = config.task.name in READERS
    given = {"data": request.data is not None and not reads, "vocab": request.vocab, "length": request.length}
    given["size"] = request.size != "auto"
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise UsageError(f"{', '.join(wrong)} are for the recipe 'own', not for '{request.recipe}': leave them out")
    if request.data is None:
        return []
    folder = str(request.data)
    module, reader = READERS[config.task.name]
    prepared = getattr(importlib.import_module(module), reader)(folder)
    settings = {"data": folder, "vocab": prepared.vocab, "length": prepared.length}
    fits = (prepared.vocab, prepared.length) == (config.task.vocab, config.task.length)
    maker = PAPER.get(config.recipe.partition("-")[0])
    if maker and not fits:
        raise UsageError(
            f"{folder} has vocabulary {prepared.vocab} and length {prepared.length}, but '{config.recipe}' is for "
            f"{config.task.vocab} and {config.task.length}: prepare its data with `dbtm data {maker}`"
        )
    return [f"task.{name}={json.dumps(value)}" for name, value in settings.items()]


def _on_puzzles(request: TrainRequest, config: RunConfig) -> list[str]:
    """The settings that train a Sudoku recipe on given puzzles."""
    if not request.puzzles:
        return []
    if config.task.name != "sudoku":
        raise UsageError(f"puzzles are for Sudoku recipes, not for '{request.recipe}': leave them out")
    names = [str(path) for path in request.puzzles]
    return ["task.clues=[]", "task.efforts=[]", f"task.puzzle_files={json.dumps(names)}"]


def _saved(folder: Path, wanted: RunConfig) -> RunConfig:
    """The settings of the resumed run; a timed run that had no length yet has the recipe's."""
    checkpoint.verify(folder, ["config.json"])
    saved = read_config(folder)
    for what, is_, was in (
        ("of", wanted.recipe, saved.recipe),
        ("by the method", wanted.method_name, saved.method_name),
    ):
        if is_ != was:
            raise UsageError(f"{folder.parent} is a run {what} '{was}', not {what} '{is_}': choose another folder")
    steps = saved.train.steps if saved.train.steps < OPEN else wanted.train.steps
    return replace(saved, train=replace(saved.train, steps=steps))
