"""`dbtm data`: make the data for training and evaluating the recipes."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbtm.cli.common import in_range, progress_bar
from dbtm.cli.console import say
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_WORKERS

if TYPE_CHECKING:
    import numpy as np

app = typer.Typer(help="Make data files.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Make data files."""  # with a callback, a lone command keeps its name


@app.command()
def sudoku(
    out: Annotated[Path, typer.Option(help="CSV file to write: puzzle,solution as digits, 0 for empty.")],
    clues: Annotated[
        str | None, typer.Option(help="Clues per puzzle: a count, or a range such as 22-36 (default: 30).")
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(help="Hard, minimal puzzles instead: guesses that a logic solver needs, such as 20-100."),
    ] = None,
    n: Annotated[int, typer.Option("--n", help="Number of puzzles.")] = 1000,
    seed: Annotated[int, typer.Option(help="Puzzle i is a function of the seed and i alone.")] = 1,
    box: Annotated[int, typer.Option(help="Box size: 3 for 9 x 9 grids, 2 for 4 x 4.")] = 3,
    workers: Annotated[int, typer.Option(help="Threads; they do not change the result. 0: one per core.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
) -> None:
    """Make Sudoku puzzles with exactly one solution, by number of clues or by difficulty (--effort)."""
    if clues and effort:
        raise UsageError("--effort makes minimal puzzles, whatever their number of clues: leave --clues out")
    fewest, most = _range(effort or clues or "30", "--effort" if effort else "--clues")
    in_range("--n", n, 1)
    in_range("--workers", workers, 0, MOST_WORKERS)
    _check_out(out, force)

    from dbtm.tasks.sudoku import csvfile
    from dbtm.tasks.sudoku.clues import check_effort, clue_range

    if effort:
        check_effort((fewest, most), box)
    else:
        clue_range((fewest, most), box)
    from dbtm.tasks.sudoku.generate import generate
    from dbtm.tasks.sudoku.hard import generate_hard

    with progress_bar() as progress:
        task = progress.add_task("compiling", total=n)

        def show(made: int) -> None:
            progress.update(task, description="generating", completed=made)

        threads = workers or os.cpu_count() or 1
        if effort:
            puzzles_BC, solutions_BC = generate_hard((fewest, most), n, seed, workers=threads, progress=show)
        else:
            puzzles_BC, solutions_BC = generate((fewest, most), n, seed, 0, box, threads, show)
    try:
        csvfile.write(out, puzzles_BC, solutions_BC)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from error
    what = f"that take {effort} guesses" if effort else f"with {clues or 30} clues"
    say(f"{n:,} puzzles {what}, seed {seed}: {out}")
    if effort:
        say(_distribution(puzzles_BC))


def _distribution(puzzles_BC: "np.ndarray") -> str:
    """Difficulty of puzzles: quantiles of guesses without and with logic, and of clues."""
    import numpy as np

    from dbtm.tasks.sudoku.effort import efforts

    rows = {
        "guesses with logic": efforts(puzzles_BC, logic=True),
        "guesses with singles alone": efforts(puzzles_BC),
        "clues": np.count_nonzero(puzzles_BC, axis=1),
    }
    shares = (5, 25, 50, 75, 95)
    lines = [f"{'':28}" + "".join(f"{share:>6} %" for share in shares)]
    lines += [
        f"{name:28}" + "".join(f"{value:8.0f}" for value in np.percentile(values, shares))
        for name, values in rows.items()
    ]
    return "\n".join(lines)


def _range(text: str, option: str) -> tuple[int, int]:
    """`30` as (30, 30) and `22-36` as (22, 36)."""
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text.strip(), re.ASCII)
    if match is None:
        raise UsageError(f"{option} {text!r} is neither a count such as 30 nor a range such as 22-36")
    return int(match[1]), int(match[2] or match[1])


def _check_out(out: Path, force: bool) -> None:
    """Refuse a file that cannot be written before any work starts."""
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder: give the name of a file in it")
    if out.exists() and not force:
        raise UsageError(f"--out {out} exists: choose another name, or overwrite it with --force")
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.parent}: make it first")
