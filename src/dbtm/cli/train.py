"""`dbtm train RECIPE`: train a recipe, or your own tokens."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbtm.cli.console import complain, say
from dbtm.core.errors import UsageError, nearest
from dbtm.core.limits import MOST_MINUTES
from dbtm.methods import BUILT_IN

if TYPE_CHECKING:
    from dbtm.service.training import TrainRequest


def train(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe; `dbtm recipes` lists them.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; repeatable.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help=f"Use this method instead of the recipe's, with its own defaults: {', '.join(BUILT_IN)}."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run (default: runs/RECIPE, or runs/RECIPE-METHOD).")
    ] = None,
    resume: Annotated[
        str, typer.Option(help="auto: resume the run in --out, if there is one, with its own settings.")
    ] = "none",
    max_seconds: Annotated[float | None, typer.Option(help="Stop cleanly and save after this many seconds.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Set train.steps to fit into this time on this machine (not with --set train.steps)."),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(help="Start from the averaged weights of this checkpoint or run; not needed to resume."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Text and gsm8k recipes: a prepared folder. Recipe 'own': a file of rows, .npy, .csv, .jsonl, .fasta "
            "or .txt."
        ),
    ] = None,
    puzzles: Annotated[
        list[Path] | None,
        typer.Option(
            help="Sudoku recipes: train on the puzzles of this CSV file instead of generated ones; repeatable."
        ),
    ] = None,
    vocab: Annotated[
        int | None, typer.Option(help="Recipe 'own': size of the vocabulary (default: the file's).")
    ] = None,
    length: Annotated[int | None, typer.Option(help="Recipe 'own': tokens per row (default: the file's).")] = None,
    size: Annotated[
        str,
        typer.Option(help="Recipe 'own': tiny, small, medium or large; auto chooses for this machine and the data."),
    ] = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Run a few steps and print memory and time of the run; write nothing.")
    ] = False,
) -> None:
    """Train a recipe; stop and resume it at any time."""
    if resume not in ("auto", "none"):
        raise UsageError(f"--resume {resume} is not a choice{nearest(resume, ['auto', 'none'])}")
    for option, value, most in (
        ("--max-seconds", max_seconds, 60 * MOST_MINUTES),
        ("--minutes", minutes, MOST_MINUTES),
    ):
        if value is not None and not 0 < value <= most:
            raise UsageError(f"{option} must be positive, and at most {most:,.0f} (ten years)")
    if minutes is not None and any(word.startswith("train.steps=") for word in set_ or []):
        raise UsageError("--minutes chooses train.steps: leave --set train.steps out, or give --max-seconds instead")
    from dbtm.service.training import TrainRequest
    from dbtm.service.training import train as run
    from dbtm.train.distributed import LostPeer
    from dbtm.train.loop import Interrupted, NonFiniteLoss

    request = TrainRequest(
        recipe=recipe,
        method=method,
        changes=tuple(set_ or ()),
        out=out,
        resume=resume == "auto",
        init=init,
        data=data,
        puzzles=tuple(puzzles or ()),
        vocab=vocab,
        length=length,
        size=size,
        max_seconds=max_seconds,
        minutes=minutes,
    )
    if dry_run:
        _print_dry_run(request)
        return
    try:
        folder = run(request)
    except (NonFiniteLoss, Interrupted, LostPeer) as error:
        complain(str(error))
        raise typer.Exit(1) from None
    if os.environ.get("RANK", "0") == "0":  # printed by one of several processes
        say(folder)


def _print_dry_run(request: "TrainRequest") -> None:
    from dbtm.service.training import dry_run
    from dbtm.train.display import duration
    from dbtm.train.header import header

    found = dry_run(request)
    config, model = found.config, found.config.model
    for line in header(config, request.folder):
        say(line)
    say(f"  network: {found.parameters:,} parameters, width {model.width}, depth {model.depth}")
    say(f"  device: {found.device}, {config.train.precision}")
    if remark := config.task.remark():
        say(f"  {remark}")
    more = "" if found.peak_bytes is not None else "; activations, which grow with train.batch, are not included"
    say(f"  memory: {found.state_bytes / 2**20:,.0f} MiB of weights, gradients, averages and optimizer state{more}")
    if found.peak_bytes is not None:
        say(f"  memory on the GPU at its peak: {found.peak_bytes / 2**30:,.1f} GiB")
    say(
        f"  time: {duration(found.first_step_seconds)} for the first step, then {1 / found.seconds_per_step:.3g} step/s"
    )
    whole = f"{config.train.steps:,} steps take {duration(found.seconds)}"
    say(f"  {whole}, without evaluations and checkpoints; nothing was written")
