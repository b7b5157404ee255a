"""The first lines of a run: what is trained, its data, its length, and its folder."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dbtm.config import RunConfig
from dbtm.core.device import device_name
from dbtm.core.terminal import visible
from dbtm.kernels.dispatch import no_compiling
from dbtm.train.display import DAY, duration

if TYPE_CHECKING:
    from dbtm.train.loop import Trainer

SLOW = DAY  # a longer run gets a warning


def announce(lines: Iterable[str]) -> None:
    """Print lines to stderr, on the first process only."""
    if os.environ.get("RANK", "0") == "0":
        for line in lines:
            print(visible(line), file=sys.stderr, flush=True)


def watched() -> bool:
    """Whether the output is a terminal, whose user should see the first lines before data is read. In a log they come
    after all checks, so that an error is the only line.
    """
    return sys.stderr is not None and sys.stderr.isatty()


def header(config: RunConfig, out: Path, minutes: float | None = None) -> list[str]:
    """The lines known before anything is read or built."""
    task, train = config.task, config.train
    data = getattr(task, "data", "") or ", ".join(getattr(task, "puzzle_files", ())) or "generated"
    length = f"{minutes:g} minutes" if minutes is not None else f"{train.steps:,} steps"
    preparation = [f"  {task.preparation()}"] if task.preparation() else []
    return [
        f"{config.recipe} by {config.method_name}, {length} of {train.batch} rows, into {out}",
        f"  data: {task.name}, {data}; vocabulary {task.vocab:,}, length {task.length:,}",
        *preparation,
    ]


def slow_line(least: float, steps: int, smaller: str) -> list[str]:
    """A warning if the run takes days, from a lower bound known in advance; `smaller` is a recipe to try instead."""
    if least <= SLOW:
        return []
    advice = f"; for this machine try {smaller}" if smaller else ""
    return [f"warning: {steps:,} steps take at least {duration(least)} here{advice}"]


def trainer_header(trainer: "Trainer") -> list[str]:
    """The lines known once the network is built, and the work of the first step."""
    model, train, network = trainer.config.model, trainer.config.train, trainer.model
    count = sum(p.numel() for p in network.parameters())
    loops = f" x {model.loops} loops" if model.loops > 1 else ""
    devices = f"{trainer.world.size} x " if trainer.world.size > 1 else ""
    lines = [
        f"  network: {count:,} parameters, width {model.width}, depth {model.depth}{loops}",
        f"  device: {devices}{device_name(trainer.device)}, {train.precision}",
    ]
    if remark := trainer.config.task.remark():
        lines.append(f"  {remark}")
    if trainer.step:
        lines.append(f"  resumed at step {trainer.step:,}")
    if train.compile and not no_compiling(trainer.device):
        lines.append("  the first steps compile the blocks: a minute or more without a report")
    return lines
