"""`dbtm eval`: how good a checkpoint is, with intervals, and as a JSON that says how to get the numbers again."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from dbtm.cli import files
from dbtm.cli.solve import check_scorer, load_sudoku
from dbtm.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from rich.progress import Progress, TaskID

    from dbtm.evals.sudoku import Row
    from dbtm.sampling import Sampler

Number = TypeVar("Number", int, float)

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
    scorer: Annotated[str | None, typer.Option(help="confidence, quality or none (default: the checkpoint's).")] = None,
    batch: Annotated[int | None, typer.Option(help="Puzzles side by side (default: 1024 on a GPU, else 32).")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write rows, model, data and machine.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Exact-solve rates over budgets (NFE) and commit thresholds (kappa), on a CSV or on generated puzzles."""
    if (puzzles is None) == (clues is None):
        raise UsageError("give either --puzzles CSV or --clues N (or 30,35,40), not both and not neither")
    if n is not None and clues is None:
        raise UsageError("--n is for generated puzzles (--clues); a CSV is evaluated whole")
    if (n is not None and n < 1) or (batch is not None and batch < 1):
        raise UsageError("--n and --batch must be at least 1")
    budgets = _numbers("--nfe", nfe, int, lambda value: value >= 1, "whole numbers from 1 on, as 1,2,4")
    thresholds: list[float | None] = [None]
    if kappa is not None:
        thresholds = [
            *_numbers("--kappa", kappa, float, lambda value: 0 <= value <= 1, "numbers from 0 to 1, as .5,.9")
        ]
    counts: list[int] = []
    if clues is not None:
        counts = _numbers("--clues", clues, int, lambda value: value >= 1, "counts, as 30,35,40")
    files.check("--json", json_file)
    check_scorer(scorer)
    sampler = load_sudoku(checkpoint, device)
    sampler.batch = batch or (1024 if sampler.device.type == "cuda" else 32)

    from rich.console import Console

    from dbtm.evals.report import document, threshold_table
    from dbtm.evals.sudoku import settings

    with _progress() as progress:
        sets, data = _from_csv(sampler, puzzles) if puzzles else _generated(sampler, counts, n or 2000, seed, progress)
        pairs = settings(budgets, thresholds)
        found = [(each.title, _sweep(sampler, each, pairs, scorer, seed, progress)) for each in sets]
    console = Console(highlight=False)
    for title, rows in found:
        console.print(f"\n[bold]{title}[/], scorer {rows[0].scorer}", soft_wrap=True)
        console.print(threshold_table(rows))
    console.print("% solved exactly (95 % interval), network evaluations used, puzzles a second", style="dim")
    if json_file is not None:
        import json

        every = [row for _, rows in found for row in rows]
        whole = document(every, _model(sampler, checkpoint), {**data, "seed": seed}, sampler.device)
        files.write(json_file, json.dumps(whole, indent=2) + "\n")
        print(json_file)


def _numbers(
    option: str, text: str, kind: Callable[[str], Number], fits: Callable[[Number], bool], wanted: str
) -> list[Number]:
    """Numbers with commas between, repeats left out."""
    try:
        values = [kind(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(map(fits, values)):
        raise UsageError(f"{option} {text} is not a list of {wanted}")
    return list(dict.fromkeys(values))


class _Set(NamedTuple):
    """Puzzles that are evaluated together."""

    title: str
    clues: int | None
    puzzles_BC: "np.ndarray"
    solutions_BC: "np.ndarray"


def _from_csv(sampler: "Sampler", path: Path) -> tuple[list[_Set], dict[str, Any]]:
    """The puzzles of a file, and what the JSON says about them."""
    from rich.markup import escape

    from dbtm.tasks.sudoku import csvfile
    from dbtm.train.checkpoint import sha256

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
        made = held_out(task, count, n, seed, partial(_show, progress, bar))
        _show(progress, bar, n)
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
    for row in sweep(sampler, *arguments, progress=lambda done: _show(progress, bar, len(rows) * each + done)):
        rows.append(row)
    return rows


def _show(progress: "Progress", bar: "TaskID", done: int) -> None:
    progress.update(bar, completed=done)


def _model(sampler: "Sampler", checkpoint: str) -> dict[str, Any]:
    """The model and what it costs, beside the paper's, whose count comes from its sizes (512 wide, 8 blocks)."""
    from dbtm.evals.cost import cost
    from dbtm.loading import find
    from dbtm.recipes import recipe
    from dbtm.train.checkpoint import sha256

    weights = find(checkpoint) / "ema.safetensors"
    return {
        "checkpoint": checkpoint,
        "sha256": sha256(weights),
        **cost(sampler.model.config),
        "paper": cost(recipe("sudoku-paper").model),
    }


def _progress() -> "Progress":
    """A progress bar on stderr, so that stdout holds the table alone."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True))
