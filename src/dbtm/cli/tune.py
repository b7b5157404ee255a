"""`dbtm tune CHECKPOINT`: plan the rounds of a sampler on the trained weights."""

from pathlib import Path
from typing import Annotated

import typer

from dbtm.cli import files
from dbtm.cli.console import say
from dbtm.cli.options import Checkpoint, Device


def tune(
    checkpoint: Checkpoint,
    data: Annotated[Path | None, typer.Option(help="New path of the data, if they have moved.")] = None,
    device: Device = "auto",
) -> None:
    """Plan how many positions each round commits with scorer=spread; the plan is written into config.json."""
    files.check_all([], reads=[("--data", data)])

    from dbtm.service.tuning import tune as run

    tuned = run(checkpoint, data, device)
    for nfe, sizes in getattr(tuned.options, "plan_by_nfe", ()):
        say(f"{nfe} NFE: {' '.join(map(str, sizes))}")
    say(tuned.folder / "config.json")
