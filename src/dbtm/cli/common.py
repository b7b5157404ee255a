"""What several commands share: lists of numbers, incompatible options, progress, tables, a solved Sudoku."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from dbtm.cli import files
from dbtm.cli.console import open_console, say
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_COUNT

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.table import Table

    from dbtm.service.progress import Progress
    from dbtm.service.solving import SolveResult

Number = TypeVar("Number", int, float)
QUIET = 60.0  # seconds between lines of progress where there is no terminal

# -- words -------------------------------------------------------------------------------------------------------------


def numbers(
    option: str, text: str, kind: Callable[[str], Number], fits: Callable[[Number], bool], wanted: str
) -> list[Number]:
    """Comma-separated numbers, without duplicates."""
    try:
        values = [kind(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(map(fits, values)):
        raise UsageError(f"{option} {text} is not a list of {wanted}")
    return list(dict.fromkeys(values))


def refuse(context: typer.Context, names: Iterable[str], why: str) -> None:
    """Refuse given options that would be ignored; `names` are their parameters."""
    sources = ((name, context.get_parameter_source(name)) for name in names)
    given = [name for name, source in sources if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise UsageError(f"{why}: leave {', '.join('--' + name.replace('_', '-') for name in given)} out")


def in_range(option: str, value: float | None, least: float, most: float = MOST_COUNT) -> None:
    """Refuse a number out of range; None means not given."""
    if value is not None and not least <= value <= most:
        raise UsageError(f"{option} {_short(value)} must be at least {least} and at most {most}")


def _short(value: float) -> str:
    """A number in few characters, however large."""
    return f"{'-' * (value < 0)}10^18 and more" if abs(value) >= 1e18 else str(value)


def check_kappa(kappa: float | None) -> None:
    if kappa is not None and not 0 <= kappa <= 1:
        raise UsageError(f"--kappa {kappa:g} must be between 0 and 1")


# -- progress ----------------------------------------------------------------------------------------------------------


def progress_bar() -> "Bars":
    """A progress bar on a terminal's stderr, so that stdout holds only the answer and logs hold no bars."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = open_console(file=sys.stderr)  # looked up now: silencing a run must not silence the bar
    return Progress(*columns, console=console, disable=not console.is_terminal)


@contextmanager
def shown_progress() -> "Iterator[Progress]":
    """A listener that draws a bar for every stage of the work, and prints notes as warnings."""
    from dbtm.service.progress import Progress

    with progress_bar() as bars:

        class Shown(Progress):
            told = -QUIET

            def stage(self, name: str, total: int | None = None) -> None:
                self.bar = bars.add_task(name, total=total)

            def advance(self, done: int, total: int | None = None) -> None:
                bars.update(self.bar, completed=done, total=total)

            def now(self, text: str) -> None:
                bars.update(self.bar, description=text)
                if bars.disable and time.monotonic() - self.told >= QUIET:  # a line now and then for logs
                    self.told = time.monotonic()
                    say(text, error=True)

            def note(self, text: str) -> None:
                bars.console.print(f"warning: {text}", markup=False, highlight=False, soft_wrap=True)

        yield Shown()


# -- tables ------------------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Three digits, without an exponent for large numbers: 1,780, not 1.78e+03."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def print_whole(table: "Table") -> None:
    """Print a table at its full width: a narrow terminal wraps it, and no digit is cut off."""
    from rich.measure import Measurement

    console = open_console()
    needed = Measurement.get(console, console.options.update(width=1000), table).maximum
    open_console(width=max(console.width, needed)).print(table)


# -- a solved Sudoku ---------------------------------------------------------------------------------------------------


def print_solution(result: "SolveResult", asked: Iterable[str] = ()) -> None:
    """Print the rounds side by side, the verdict and the settings, among them those that the user gave (`asked`)."""
    from dbtm.viz.sudoku_trace import SudokuTrace

    console = open_console()
    clues, empty = (result.puzzle_C > 0).sum(), (result.puzzle_C == 0).sum()
    way = "renoise and remap" if result.settings.get("sampler") == "refine" else result.settings["method"]
    console.print(f"A Sudoku with {clues} clues; {empty} cells to find, by {way}\n")
    console.print(SudokuTrace(result.puzzle_C, result.rounds))
    cost = f"{result.evaluations} network evaluations, {gflops(result.flops)}, {result.duration}"
    if result.stable is not None:
        console.print(f"\nthe model {trust(result.stable)}")
    console.print(f"\n[bold green]solved[/] in {cost}" if result.solved else f"\n[bold red]wrong[/] after {cost}")
    if not result.solved:
        console.print(f"{result.violation}{_advice(result.settings)}")
    settings = ", ".join(f"{name} {value}" for name, value in result.shown_settings(asked).items())
    console.print(f"[dim]{settings}[/]")


def _advice(settings: Mapping[str, Any]) -> str:
    """What may help after a wrong answer: the budget of an answer is --nfe, and checks have one of their own."""
    nfe, check = settings.get("nfe"), settings.get("check")
    if nfe is None:
        return ""
    spent = f"; budget: {nfe} evaluations per answer, {check} for checks and further answers" if check else ""
    rounds = "more evaluations (--nfe 16), or " if nfe < 16 else ""
    return f"{spent}; try {rounds}new noise (--tries 8)"


def gflops(flops: float) -> str:
    return f"{number(flops / 1e9)} GFLOPs"


def trust(stable: bool) -> str:
    """The model's verdict on its own answer, before any rule is checked."""
    return "stands by this answer" if stable else "does not trust this answer"


def write_solution_page(result: "SolveResult", path: Path, asked: Iterable[str] = ()) -> None:
    """One HTML file that replays the rounds, offline."""
    from dbtm.service.pages import solution_page

    files.write_text(path, solution_page(result, asked))
