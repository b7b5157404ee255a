"""`dbtm plot RUN...`: curves of losses and evaluations, of one or several runs, as SVG, PNG or PDF."""

from pathlib import Path
from typing import Annotated

import typer

from dbtm.cli import files
from dbtm.cli.console import say
from dbtm.core.errors import UsageError

FORMATS = (".svg", ".png", ".pdf")


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    out: Annotated[Path, typer.Option(help="The figure: .svg, .png or .pdf.")] = Path("curves.svg"),
    name: Annotated[
        list[str] | None,
        typer.Option(help="Metric to draw, such as loss, validation or solved_4; repeatable (default: the main ones)."),
    ] = None,
) -> None:
    """Draw losses and evaluations over steps; several runs share each panel."""
    if out.suffix.lower() not in FORMATS:
        raise UsageError(f"--out {out} must end in {', '.join(FORMATS)}")
    files.check("--out", out)
    from dbtm.viz.curves import draw_training, read_run

    labels = [run.name for run in runs]
    alike = len(set(labels)) < len(labels)
    figure = draw_training([read_run(run, str(run) if alike else None) for run in runs], name or ())
    from dbtm.core import atomic
    from dbtm.viz.theory.style import drawn

    atomic.write_bytes(out, drawn(figure, format=out.suffix[1:].lower(), dpi=200))
    say(out)
