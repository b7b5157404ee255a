"""`dbtm eval`: quality of a checkpoint, with intervals, and as JSON with all that reproduces the numbers."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from dbtm.cli import files, tables
from dbtm.cli.common import in_range, numbers, print_whole, shown_progress
from dbtm.cli.console import open_console
from dbtm.cli.options import Budgets, Device, Json, takes_sampler_options
from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    from dbtm.service.evaluation.sudoku import PuzzleSet, SudokuEvaluationRequest


class _SharedGroup(TyperGroup):
    """Started by torchrun, the first process runs the command, and the others do their shares of its work."""

    def invoke(self, context: Any) -> Any:
        if "RANK" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
            return super().invoke(context)
        from dbtm.service.evaluation.together import joined

        with joined() as first:  # older versions of click hide errors from context.with_resource
            return super().invoke(context) if first else 0


app = typer.Typer(cls=_SharedGroup, help="Measure a checkpoint.", no_args_is_help=True)


@app.command()
@takes_sampler_options("nfe", "kappa")
def sudoku(
    puzzles: Annotated[Path | None, typer.Option(help="CSV of puzzles: puzzle,solution (or puzzle alone).")] = None,
    clues: Annotated[str | None, typer.Option(help="Generate puzzles with this many clues: 30, or 30,35,40.")] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="Puzzles to generate per number of clues (default: 2000).")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="Seed of the generated puzzles and of the noise. Recipes train on seeds below 1,000,000."),
    ] = 2_000_000,
    checkpoint: Annotated[str, typer.Option(help="A checkpoint folder, a run, or a packaged model.")] = "sudoku",
    nfe: Budgets = None,
    kappa: Annotated[
        str | None, typer.Option(help="Commit thresholds, such as .5,.9,.999 (default: the one tuned per budget).")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Puzzles per batch (default: 1024 on a GPU, else 32).")] = None,
    json_file: Json = None,
    device: Device = "auto",
    *,
    options: dict[str, Any],
) -> None:
    """Exact-solve rates over budgets (NFE) and commit thresholds (kappa), on a CSV or on generated puzzles."""
    if (puzzles is None) == (clues is None):
        raise UsageError("give either --puzzles CSV or --clues N (or 30,35,40)")
    if n is not None and clues is None:
        raise UsageError("--n is for generated puzzles (--clues): leave it out, a CSV is evaluated whole")
    in_range("--n", n, 1)
    in_range("--batch", batch, 1)
    counts: list[int] = []
    if clues is not None:
        counts = numbers("--clues", clues, int, lambda value: value >= 1, "counts, such as 30,35,40")
    budgets, kappas = tables.budgets_of(nfe), tables.thresholds_of(kappa)
    files.check_all([("--json", json_file)], reads=[("--puzzles", puzzles)])

    from dbtm.service.evaluation.sudoku import SudokuEvaluationRequest, evaluate_sudoku

    request = SudokuEvaluationRequest(
        checkpoint=checkpoint,
        puzzles=puzzles,
        clues=tuple(counts),
        n=n or 2000,
        seed=seed,
        budgets=budgets,
        kappas=kappas,
        options=options,
        batch=batch,
        device=device,
    )
    with shown_progress() as progress:
        *_, result = evaluate_sudoku(request, progress)
    tables.write_json(json_file, result.document())
    _print(request, result.sets)
    tables.print_paths(json_file)


def _print(request: "SudokuEvaluationRequest", sets: "tuple[PuzzleSet, ...]") -> None:
    from rich.markup import escape

    console = open_console()
    for group in sets:
        n = len(group.puzzles_BC)
        title = f"{group.clues} clues, {n} puzzles, seed {request.seed}"
        if request.puzzles is not None:
            title = f"{escape(request.puzzles.name)}, {n} puzzles"
        scorer = group.scores[0].settings.get("scorer")
        console.print(f"\n[bold]{title}[/]" + (f", scorer {scorer}" if scorer else ""), soft_wrap=True)
        print_whole(tables.threshold_table(group.scores))
    console.print("% solved exactly (95 % interval), network evaluations used, puzzles per second", style="dim")
