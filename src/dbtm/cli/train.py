"""`dbtm train RECIPE`: train a recipe, or your own tokens."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbtm.core.errors import UsageError, nearest

if TYPE_CHECKING:
    from dbtm.config import RunConfig


def train(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe; `dbtm recipes` lists them.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run (default: runs/RECIPE).")] = None,
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
        typer.Option(help="Text and gsm8k recipes: a prepared folder. Recipe 'own': a .npy file of integer tokens."),
    ] = None,
    vocab: Annotated[int | None, typer.Option(help="Recipe 'own': size of the vocabulary.")] = None,
    length: Annotated[int | None, typer.Option(help="Recipe 'own': tokens in a sequence.")] = None,
) -> None:
    """Train a recipe; stop and continue it at any time."""
    if resume not in ("auto", "none"):
        raise UsageError(f"--resume {resume} is not a choice{nearest(resume, ['auto', 'none'])}")
    for option, value in (("--max-seconds", max_seconds), ("--minutes", minutes)):
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{option} must be positive")
    if minutes is not None and any(word.startswith("train.steps=") for word in set_ or []):
        raise UsageError("--minutes chooses train.steps: leave --set train.steps out, or give --max-seconds instead")
    from dbtm import loading
    from dbtm.config import override
    from dbtm.recipes import recipe as find_recipe
    from dbtm.recipes.prepared import READERS, on_data
    from dbtm.train import checkpoint
    from dbtm.train.loop import NonFiniteLoss, fit

    config, out = find_recipe(recipe), out or Path("runs") / recipe
    newest = checkpoint.latest(out) if resume == "auto" else None
    if newest is not None:
        config = _saved(newest, config)
    own = {"data": None if data is None else str(data), "vocab": vocab, "length": length}
    assignments = [f"task.{name}={json.dumps(value)}" for name, value in own.items() if value is not None]
    takes = {*own} if recipe == "own" else {"data"} if config.task.name in READERS else set()
    wrong = [f"--{name}" for name, value in own.items() if value is not None and name not in takes]
    if wrong:
        raise UsageError(f"options that belong to the recipe 'own', not to '{recipe}': leave {', '.join(wrong)} out")
    if data is not None and recipe != "own":
        assignments = on_data(config, str(data))
    if recipe == "own" and len(assignments) < 3 and newest is None:
        missing = ", ".join(f"--{name}" for name, value in own.items() if value is None)
        raise UsageError(f"the recipe 'own' needs {missing}: dbtm train own --data tokens.npy --vocab V --length L")
    if init is not None and newest is None:
        assignments.append(f"train.init={json.dumps(str(loading.find(init)))}")
    config = override(config, assignments + (set_ or []))
    try:
        folder = fit(config, out, resume == "auto", max_seconds, minutes)
    except NonFiniteLoss as error:
        print(f"dbtm: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    if os.environ.get("RANK", "0") == "0":  # one of several processes tells it
        print(folder)


def _saved(folder: Path, recipe: "RunConfig") -> "RunConfig":
    """The settings of the run that is continued; one by the clock that had no length yet has the recipe's."""
    from dataclasses import replace

    from dbtm.config import loads
    from dbtm.train import checkpoint
    from dbtm.train.pace import OPEN

    checkpoint.verify(folder, ["config.json"])
    saved = loads((folder / "config.json").read_text())
    if saved.recipe != recipe.recipe:
        raise UsageError(
            f"{folder.parent} is a run of '{saved.recipe}', not of '{recipe.recipe}': choose another --out"
        )
    steps = saved.train.steps if saved.train.steps < OPEN else recipe.train.steps
    return replace(saved, train=replace(saved.train, steps=steps))
