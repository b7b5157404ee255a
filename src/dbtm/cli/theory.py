"""`dbtm theory`: the figures of the theory lab, their numbers, and the interactive page."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dbtm.cli.console import say
from dbtm.core.errors import UsageError


class _FigureGroup(TyperGroup):
    """Unknown commands are figures: `dbtm theory simplex` is `dbtm theory draw simplex`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = ["draw", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_FigureGroup,
    help="Exact fields, attractors and commitment times on the simplex: `dbtm theory FIGURE` draws one figure.",
    no_args_is_help=True,
)

Out = Annotated[Path, typer.Option("--out", help="Folder for the files; created if missing.")]


@app.command("list")
def list_figures() -> None:
    """List the figures, each with its options and their defaults."""
    from dbtm.service.theory import FIGURES

    for name, entry in FIGURES.items():
        defaults = entry.default._asdict() | {"p": ",".join(f"{v:g}" for v in entry.default.p)}
        options = "  ".join(f"--{key} {value}" for key, value in defaults.items() if key in entry.reads)
        say(f"{name:13s} {entry.about}\n{'':13s} {options}")


@app.command("draw")
def draw_figure(
    figure: Annotated[str, typer.Argument(help="A name from `dbtm theory list`.")],
    p: Annotated[str | None, typer.Option("--p", help="Target probabilities, such as .5,.3,.2")] = None,
    sigma: Annotated[float | None, typer.Option("--sigma", help="Scale of the prior.")] = None,
    a: Annotated[float | None, typer.Option("--a", help="Exponent of the schedule, at least 1.")] = None,
    out: Out = Path("theory"),
) -> None:
    """Draw one figure as PNG and SVG, with its numbers as JSON."""
    from dbtm.service import theory

    request = theory.FigureRequest(figure, None if p is None else _probabilities(p), sigma, a, out)
    for path in theory.draw_figure(request, _show_training).paths:
        say(path)


@app.command("page")
def write_page(out: Out = Path("theory")) -> None:
    """Write the interactive page for three vertices: one HTML file that works offline."""
    from dbtm.service import theory

    say(theory.write_page(out))


@app.command("all")
def draw_all(out: Out = Path("theory")) -> None:
    """Draw every figure at its default setting, and write the page."""
    from dbtm.service import theory

    began, total = time.perf_counter(), len(theory.FIGURES)
    page = theory.write_page(out)
    for number, name in enumerate(theory.FIGURES, 1):
        say(f"[{number}/{total}] {name} ... ", end="")
        start = time.perf_counter()
        theory.draw_figure(theory.FigureRequest(name, folder=out))
        say(f"{time.perf_counter() - start:.1f} s")
    say(f"{total} figures and {page.name} in {out} ({time.perf_counter() - began:.0f} s)")


def _show_training(done: int, total: int) -> None:
    """One line per training run on stderr, so that stdout holds only the paths."""
    if done < total:
        say(f"training run {done + 1} of {total}", error=True)


def _probabilities(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--p takes comma-separated numbers, such as .5,.3,.2; got '{text}'") from None
