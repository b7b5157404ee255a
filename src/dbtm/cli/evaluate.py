"""`dbtm eval`: how good a checkpoint is, with intervals, and as a JSON that says how to get the numbers again."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dbtm.cli import files
from dbtm.cli.common import in_range, model, numbers, print_whole, progress_bar, show
from dbtm.cli.solve import check_scorer, load_sudoku
from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from rich.progress import Progress

    from dbtm.evals.sudoku import Row
    from dbtm.sampling import Sampler

app = typer.Typer(help="Measure a checkpoint.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Measure a checkpoint."""  # with a callback, a lone command keeps its name


@app.command()
def sudoku(
    puzzles: Annotated[Path | None, typer.Option(help="CSV of puzzles: puzzle,solution (or puzzle alone).")] = None,
    clues: Annotated[str | None, typer.Option(help="Generate puzzles with so many clues: 30, or 30,35,40.")] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="Puzzles to generate for each count of clues (default: 2000).")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="Seed of the generated puzzles and of the noise. Recipes train on seeds below 1,000,000."),
    ] = 2_000_000,
    checkpoint: Annotated[str, typer.Option(help="A checkpoint folder, a run, or a model of the package.")] = "sudoku",
    nfe: Annotated[str, typer.Option(help="Budgets of network evaluations.")] = "1,2,4,8,16",
    kappa: Annotated[
        str | None, typer.Option(help="Commit thresholds, as .5,.9,.999 (default: the one tuned for each budget).")
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(help="confidence, quality, spread or none (default: the checkpoint's).")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Puzzles side by side (default: 1024 on a GPU, else 32).")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write rows, model, data and machine.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Exact-solve rates over budgets (NFE) and commit thresholds (kappa), on a CSV or on generated puzzles."""
    if (puzzles is None) == (clues is None):
        raise UsageError("give either --puzzles CSV or --clues N (or 30,35,40), not both and not neither")
    if n is not None and clues is None:
        raise UsageError("--n is for generated puzzles (--clues); a CSV is evaluated whole")
    in_range("--n", n, 1)
    in_range("--batch", batch, 1)
    budgets = numbers("--nfe", nfe, int, lambda value: value >= 1, "whole numbers from 1 on, as 1,2,4")
    thresholds: list[float | None] = [None]
    if kappa is not None:
        thresholds = [*numbers("--kappa", kappa, float, lambda value: 0 <= value <= 1, "numbers from 0 to 1, as .5,.9")]
    counts: list[int] = []
    if clues is not None:
        counts = numbers("--clues", clues, int, lambda value: value >= 1, "counts, as 30,35,40")
    files.check_all([("--json", json_file)], reads=[("--puzzles", puzzles)])
    check_scorer(scorer)
    sampler = load_sudoku(checkpoint, device)
    sampler.batch = batch or (1024 if sampler.device.type == "cuda" else 32)

    from rich.console import Console

    from dbtm.evals.report import document, threshold_table
    from dbtm.evals.sudoku import of_thresholds, settings

    with progress_bar() as progress:
        sets, data = _from_csv(sampler, puzzles) if puzzles else _generated(sampler, counts, n or 2000, seed, progress)
        pairs = settings(budgets, thresholds)
        found = [(each.title, _sweep(sampler, each, pairs, scorer, seed, progress)) for each in sets]
    if json_file is not None:
        import json

        from dbtm.evals.cost import cost
        from dbtm.recipes import recipe

        # one evaluation commits everything, whatever the threshold: it was made once, and stands there for each
        every = [each for _, rows in found for row in rows for each in of_thresholds(row, thresholds)]
        # The paper's cost comes from its sizes: 512 wide, 8 blocks.
        about = {**model(sampler, checkpoint), "paper": cost(recipe("sudoku-paper").model)}
        whole = document(every, about, {**data, "seed": seed}, sampler.device)
        files.write(json_file, json.dumps(whole, indent=2) + "\n")
    console = Console(highlight=False)
    for title, rows in found:
        console.print(f"\n[bold]{title}[/], scorer {rows[0].scorer}", soft_wrap=True)
        print_whole(threshold_table(rows))
    console.print("% solved exactly (95 % interval), network evaluations used, puzzles a second", style="dim")
    if json_file is not None:
        print(json_file)


class _Set(NamedTuple):
    """Puzzles that are evaluated together."""

    title: str
    clues: int | None
    puzzles_BC: "np.ndarray"
    solutions_BC: "np.ndarray"


def _from_csv(sampler: "Sampler", path: Path) -> tuple[list[_Set], dict[str, Any]]:
    """The puzzles of a file, and what the JSON says about them."""
    from rich.markup import escape

    from dbtm.core.digest import sha256
    from dbtm.tasks.sudoku import csvfile

    puzzles_BC, solutions_BC = csvfile.read(path)
    n, cells = puzzles_BC.shape
    expected = sampler.task.layout.cells  # type: ignore[union-attr]
    if cells != expected:
        raise UsageError(f"{path} holds grids of {cells} cells, but the checkpoint solves {expected}")
    whole = _Set(f"{escape(path.name)}, {n} puzzles", None, puzzles_BC, solutions_BC)
    return [whole], {"file": path.name, "sha256": sha256(path), "n": n}


def _generated(
    sampler: "Sampler", counts: list[int], n: int, seed: int, progress: "Progress"
) -> tuple[list[_Set], dict[str, Any]]:
    """New puzzles for every count of clues, and what the JSON says about them."""
    from dbtm.evals.sudoku import held_out, refuse_trained
    from dbtm.tasks.sudoku.clues import clue_range

    task: Any = sampler.task
    for count in counts:  # complaints come before the work
        clue_range(count, task.box)
        refuse_trained(task, count, seed)
    sets = []
    for count in counts:
        bar = progress.add_task(f"making {n} puzzles with {count} clues", total=n)
        made = held_out(task, count, n, seed, partial(show, progress, bar))
        show(progress, bar, n)
        sets.append(_Set(f"{count} clues, {n} puzzles, seed {seed}", count, *made))
    return sets, {"clues": counts, "n": n}


def _sweep(
    sampler: "Sampler",
    puzzles: _Set,
    pairs: list[tuple[int, float | None]],
    scorer: str | None,
    seed: int,
    progress: "Progress",
) -> "list[Row]":
    """All rows of one set, under a progress bar that counts puzzles over all of them."""
    from dbtm.evals.sudoku import sweep

    each = len(puzzles.puzzles_BC)
    bar = progress.add_task(f"solving {puzzles.title}", total=len(pairs) * each)
    rows: list[Row] = []
    arguments = (puzzles.puzzles_BC, puzzles.solutions_BC, pairs, scorer, seed, puzzles.clues)
    for row in sweep(sampler, *arguments, progress=lambda done: show(progress, bar, len(rows) * each + done)):
        rows.append(row)
    return rows
