"""`dbtm train RECIPE`: train a recipe, or your own tokens."""

import os
from pathlib import Path
from typing import Annotated

import typer

from dbtm.cli.console import complain, say
from dbtm.core.errors import UsageError, nearest
from dbtm.core.limits import MOST_MINUTES
from dbtm.methods import BUILT_IN


def train(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe; `dbtm recipes` lists them.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; repeatable.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help=f"Another method than the recipe's, with its own defaults: {', '.join(BUILT_IN)}."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run (default: runs/RECIPE, or runs/RECIPE-METHOD).")
    ] = None,
    resume: Annotated[
        str, typer.Option(help="auto: continue the run in --out, where there is one, with the settings it had.")
    ] = "none",
    max_seconds: Annotated[float | None, typer.Option(help="Stop cleanly and save after this many seconds.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Set train.steps to what fits into this time here (not with --set train.steps)."),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(help="Start from the averaged weights of this checkpoint or run; a resumed run has them."),
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
) -> None:
    """Train a recipe; stop and continue it at any time."""
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
    try:
        folder = run(request)
    except (NonFiniteLoss, Interrupted) as error:
        complain(str(error))
        raise typer.Exit(1) from None
    if os.environ.get("RANK", "0") == "0":  # one of several processes tells it
        say(folder)
