"""`dbtm export`: a trained map for other runtimes."""

from pathlib import Path
from typing import Annotated

import typer

from dbtm.cli import files
from dbtm.cli.console import say
from dbtm.cli.options import Checkpoint


def export(
    checkpoint: Checkpoint,
    onnx: Annotated[Path, typer.Option(help="Write one refinement round as an ONNX file, weights included.")],
    scorer: Annotated[
        str | None, typer.Option(help="What is committed first: confidence, quality or spread (default: its own).")
    ] = None,
) -> None:
    """Export a trained map for other runtimes."""
    files.check("--onnx", onnx)
    from dbtm.service.exporting import export_onnx

    made = export_onnx(checkpoint, onnx, scorer)
    about = ", ".join(f"{name} {value}" for name, value in made.about.items())
    say(f"{made.path}: {made.size / 2**20:.1f} MiB; {about}")
