"""`dbtm solve`: solve one Sudoku and watch it being refined, round by round."""

import os
import select
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import files
from dbtm.cli.common import check_kappa
from dbtm.core.errors import UsageError, nearest

if TYPE_CHECKING:
    import numpy as np

    from dbtm.sampling import Sampler
    from dbtm.viz.grid import Round

BUILT_IN = {
    81: "850002400720000009004000000000107002305000900040000000000080070017000000000036040",
    16: "1000003004000002",
}
"""The puzzle that is solved where none is given, by the cells of the checkpoint's grids.

The 9 x 9 one has 22 clues, cannot be solved by looking for cells or digits with one choice left, and takes the packaged
model more than one round.
"""

STDIN_WAIT = 0.5  # seconds


@dataclass(frozen=True)
class Answer:
    """What the model made of a puzzle, and how."""

    puzzle_C: "np.ndarray"
    rounds: "list[Round]"
    nfe: int
    milliseconds: float
    wrong: str | None
    """The first clue or rule that the answer breaks; None where it is right."""
    settings: dict[str, Any]
    """Checkpoint, budget, kappa, scorer, seed and device."""

    @property
    def solution_C(self) -> "np.ndarray":
        return self.rounds[-1].values_C


def solve(
    puzzle: Annotated[
        str | None,
        typer.Argument(
            help="81 characters with 0 or . for empty, nine lines, a file, or - for stdin. "
            "Without one: what stdin holds, or else a built-in hard puzzle."
        ),
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="A checkpoint folder, a run, or a model of the package.")] = "sudoku",
    nfe: Annotated[int, typer.Option(help="Network evaluations: the budget of refinement rounds.")] = 4,
    kappa: Annotated[
        float | None, typer.Option(help="Commit what scores at least this (default: tuned for the budget).")
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(help="confidence, quality, spread or none (default: the checkpoint's).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the noise: same seed, same answer.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer and its rounds as JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page that replays the rounds.")] = None,
) -> None:
    """Solve a Sudoku; exit code 1 where the model's answer is wrong, 2 where the puzzle is no puzzle."""
    files.check("--html", html)
    answer = find_answer(read_puzzle(puzzle), checkpoint, nfe, kappa, scorer, seed)
    if html is not None:
        write_page(answer, html)
    if as_json:
        print(to_json(answer))
    else:
        show(answer)
        if html is not None:
            print(f"page: {html}")
    if answer.wrong:
        raise typer.Exit(1)


# -- the puzzle --------------------------------------------------------------------------------------------------------


def read_puzzle(argument: str | None) -> "np.ndarray | None":
    """The puzzle that was asked for, checked to have exactly one solution; None where none was given."""
    text, where = _puzzle_text(argument)
    if text is None:
        return None
    from dbtm.tasks.sudoku.puzzle import check, parse

    try:
        puzzle_C = parse(text)
        check(puzzle_C)
    except UsageError as error:
        raise UsageError(f"{where}{error}") from None
    return puzzle_C


def _puzzle_text(argument: str | None) -> tuple[str | None, str]:
    """The puzzle as text, and where it comes from as the beginning of a complaint."""
    if argument is None:
        return (sys.stdin.read() if _stdin_waits() else "").strip() or None, "stdin: "
    if argument == "-":
        return sys.stdin.read() if sys.stdin else "", "stdin: "
    if _exists(argument):
        try:
            return Path(argument).read_text(encoding="utf-8"), f"{argument}: "
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {argument}: {getattr(error, 'strerror', None) or error}") from None
    if 2 * sum(character in "0123456789." for character in argument) < len(argument):
        raise UsageError(f"'{argument}' is no puzzle, and there is no such file: give 81 characters, 0 or . for empty")
    return argument, ""


def _exists(name: str) -> bool:
    """Whether there is a file, pipe or folder of this name."""
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it
        return False


def _stdin_waits() -> bool:
    """Whether stdin is a file or pipe with something to read.

    A pipe that nobody writes to and nobody closes, as some CI systems leave it, must not make the command hang: after
    a moment it counts as empty. (`-` waits for as long as it takes.)
    """
    try:
        return not sys.stdin.isatty() and bool(select.select([sys.stdin], [], [], STDIN_WAIT)[0])
    except (AttributeError, OSError, ValueError):  # no stdin, a closed one, or one that cannot be waited for
        return False


# -- the answer --------------------------------------------------------------------------------------------------------


def load_sudoku(checkpoint: str, device: str = "auto") -> "Sampler":
    """The sampler of a checkpoint that was trained on Sudoku."""
    # PyTorch's threads wait for each other by spinning. A solve is hundreds of short steps, and where other processes
    # want the same cores, .3 s were seen to become 20 s; threads that sleep at once make it half as slow again. So they
    # spin for a moment, then sleep. (Read when torch is loaded.)
    os.environ.setdefault("GOMP_SPINCOUNT", "30000")
    from dbtm.loading import load
    from dbtm.tasks.sudoku.task import Sudoku

    sampler = load(checkpoint, device)
    if not isinstance(sampler.task, Sudoku):
        name = sampler.task.name if sampler.task else "nothing"
        raise UsageError(f"--checkpoint {checkpoint} was trained on '{name}', not on Sudoku")
    return sampler


def check_scorer(scorer: str | None) -> None:
    from typing import get_args, get_type_hints

    from dbtm.config import SampleConfig

    choices = get_args(get_type_hints(SampleConfig)["scorer"])
    if scorer is not None and scorer not in choices:
        raise UsageError(f"--scorer {scorer} is not a choice{nearest(scorer, choices)}")


def find_answer(
    puzzle_C: "np.ndarray | None",
    checkpoint: str = "sudoku",
    nfe: int = 4,
    kappa: float | None = None,
    scorer: str | None = None,
    seed: int = 0,
) -> Answer:
    """The model's answer to a checked puzzle, or to the built-in one; it is judged by the rules and the clues alone."""
    if nfe < 1:
        raise UsageError(f"--nfe {nfe}: at least 1 network evaluation is needed")
    check_kappa(kappa)
    import time

    from dbtm.tasks.sudoku.puzzle import parse, violation
    from dbtm.viz.grid import Round

    check_scorer(scorer)
    sampler = load_sudoku(checkpoint)
    layout = sampler.task.layout  # type: ignore[union-attr]
    if puzzle_C is None:
        puzzle_C = parse(BUILT_IN[layout.cells])
    if len(puzzle_C) != layout.cells:
        sizes = {16: "4 x 4", 81: "9 x 9"}
        makers = {16: "`dbtm train sudoku-mini` makes one", 81: "'sudoku' is the one in the package"}
        raise UsageError(
            f"the puzzle is {sizes[len(puzzle_C)]}, but the checkpoint '{checkpoint}' solves {sizes[layout.cells]} "
            f"grids: give another --checkpoint ({makers[len(puzzle_C)]})"
        )
    changes: dict[str, Any] = {"kappa": kappa, "scorer": scorer}
    changes = {"nfe": nfe} | {name: value for name, value in changes.items() if value is not None}
    options = sampler.with_options(**changes)
    given = sampler.task.given(puzzle_C[None])  # type: ignore[union-attr]
    # One evaluation before the clock runs: the first one also allocates memory and chooses kernels.
    sampler.sample(**given, nfe=1, seed=seed)
    start = time.perf_counter()
    trace = sampler.sample(**given, seed=seed, trace=True, **changes)
    milliseconds = 1000 * (time.perf_counter() - start)
    cells = layout.solution_positions
    rounds = [Round(layout.decode(r.tokens)[0], r.committed[0, cells], r.score[0, cells]) for r in trace.rounds]
    settings = {
        "checkpoint": checkpoint,
        "budget": nfe,
        "kappa": options.threshold,
        "scorer": options.scorer,
        "seed": seed,
        "device": sampler.device.type,
    }
    wrong = violation(rounds[-1].values_C, puzzle_C)
    return Answer(puzzle_C, rounds, int(trace.nfe[0]), milliseconds, wrong, settings)


# -- three ways to show it ---------------------------------------------------------------------------------------------


def show(answer: Answer) -> None:
    """The rounds side by side in the terminal, and the verdict."""
    from rich.console import Console

    from dbtm.viz.grid import SudokuTrace

    console = Console(highlight=False)
    clues, empty = (answer.puzzle_C > 0).sum(), (answer.puzzle_C == 0).sum()
    console.print(f"A Sudoku with {clues} clues; {empty} cells to find, by renoise and remap\n")
    console.print(SudokuTrace(answer.puzzle_C, answer.rounds))
    told = answer.settings
    cost = f"{answer.nfe} of {told['budget']} network evaluations, {answer.milliseconds:.0f} ms on the {told['device']}"
    console.print(
        f"\n[bold green]solved[/] in {cost}" if answer.wrong is None else f"\n[bold red]wrong[/] after {cost}"
    )
    if answer.wrong is not None:
        console.print(f"{answer.wrong}: another --seed may find it, or a larger budget, --nfe 16")
    how = ", ".join(f"{name} {value}" for name, value in _how(told).items())
    console.print(f"[dim]{how}[/]")


def _how(told: dict[str, Any]) -> dict[str, Any]:
    """The settings that the answer depends on, as they are shown."""
    kappa = {} if told["kappa"] is None else {"kappa": f"{told['kappa']:g}"}
    return {**kappa, "scorer": told["scorer"], "seed": told["seed"]}


def to_json(answer: Answer) -> str:
    """The answer for programs: grids as strings of digits in reading order."""
    import json

    rounds = [
        {
            "values": _digits(r.values_C),
            "committed": r.committed_C.astype(int).tolist(),
            "score": [round(float(score), 4) for score in r.score_C],
        }
        for r in answer.rounds
    ]
    return json.dumps(
        {
            "puzzle": _digits(answer.puzzle_C),
            "solution": _digits(answer.solution_C),
            "solved": answer.wrong is None,
            "violation": answer.wrong,
            "nfe": answer.nfe,
            "milliseconds": round(answer.milliseconds, 1),
            **answer.settings,
            "rounds": rounds,
        }
    )


def _digits(grid_C: "np.ndarray") -> str:
    return "".join(str(digit) for digit in grid_C)


def write_page(answer: Answer, path: Path) -> None:
    """One HTML file that replays the rounds, offline."""
    from dbtm.viz.page import sudoku_page

    told = answer.settings
    meta = {
        "title": f"A Sudoku with {(answer.puzzle_C > 0).sum()} clues, refined",
        "answer": answer.wrong or "solved",
        "network evaluations": f"{answer.nfe} of {told['budget']}",
        "time": f"{answer.milliseconds:.0f} ms on the {told['device']}",
        **_how(told),
    }
    files.write(path, sudoku_page(answer.puzzle_C, answer.rounds, meta))
