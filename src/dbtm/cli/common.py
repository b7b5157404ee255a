"""What several commands share: lists of numbers, options that do not go together, progress bars, tables."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from rich.table import Table

    from dbtm.sampling import Sampler

Number = TypeVar("Number", int, float)
FreshNoise = Annotated[
    bool | None,
    typer.Option("--fresh-noise/--same-noise", help="Noise of the rounds after the first (default: the checkpoint's)."),
]


def numbers(
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


def refuse(context: typer.Context, names: Iterable[str], why: str) -> None:
    """Refuse options (by the names of their parameters) that were given and would be ignored."""
    sources = ((name, context.get_parameter_source(name)) for name in names)
    given = [name for name, source in sources if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise UsageError(f"{why}: leave {', '.join('--' + name.replace('_', '-') for name in given)} out")


def in_range(option: str, value: float | None, least: float, most: float | None = None) -> None:
    """Refuse a number out of its range; None was not given."""
    if value is not None and (value < least or (most is not None and value > most)):
        raise UsageError(f"{option} {value} must be at least {least}" + (f" and at most {most}" if most else ""))


def check_kappa(kappa: float | None) -> None:
    if kappa is not None and not 0 <= kappa <= 1:
        raise UsageError(f"--kappa {kappa:g} must be between 0 and 1")


def refuse_sigma(sampler: "Sampler | None", sigma: object) -> None:
    """Refuse a scale of the noise that the map would not see."""
    if sampler is not None and sigma is not None and sampler.model.config.input_norm:
        raise UsageError("this map norms its input (model.input_norm), so --sigma changes nothing: leave it out")


def model(sampler: "Sampler", checkpoint: str) -> dict[str, Any]:
    """What the JSON of an evaluation says about the model: where it is, its weights, and what it costs."""
    from dbtm.core.digest import sha256
    from dbtm.evals.cost import cost
    from dbtm.loading import find

    return {
        "checkpoint": checkpoint,
        "sha256": sha256(find(checkpoint) / "ema.safetensors"),
        **cost(sampler.model.config),
    }


def progress_bar() -> "Progress":
    """A progress bar on a terminal's stderr, so that stdout holds the answer alone and logs hold no bars."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not console.is_terminal)


def show(progress: "Progress", bar: "TaskID", done: int, total: int | None = None) -> None:
    progress.update(bar, completed=done, total=total)


def print_whole(table: "Table") -> None:
    """A table as wide as it needs to be: a narrow terminal wraps it, but no digit is left out."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(highlight=False)
    needed = Measurement.get(console, console.options.update(width=1000), table).maximum
    Console(highlight=False, width=max(console.width, needed)).print(table)
