"""`dbtm export`: a trained map for other runtimes, or a checkpoint with one file per part."""

from pathlib import Path
from typing import Annotated

import typer

from dbtm.cli import files
from dbtm.cli.console import say
from dbtm.cli.options import Checkpoint
from dbtm.core.errors import UsageError


def export(
    checkpoint: Checkpoint,
    onnx: Annotated[
        Path | None, typer.Option(help="Write one refinement round as an ONNX file, weights included.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a new folder with one file per part, however the checkpoint was written.")
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(help="Commit order: confidence, quality or spread (default: the checkpoint's).")
    ] = None,
) -> None:
    """Export a trained map for other runtimes, or gather the pieces of a checkpoint that several processes wrote."""
    if (onnx is None) == (out is None):
        raise UsageError("give either --onnx FILE or --out FOLDER")
    if out is not None:
        from dbtm.service.gathering import gather

        say(gather(checkpoint, out))
        return
    assert onnx is not None
    files.check("--onnx", onnx)
    from dbtm.service.exporting import export_onnx

    made = export_onnx(checkpoint, onnx, scorer)
    about = ", ".join(f"{name} {value}" for name, value in made.about.items())
    say(f"{made.path}: {made.size / 2**20:.1f} MiB; {about}")
