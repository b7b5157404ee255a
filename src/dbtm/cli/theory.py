"""`dbtm theory`: the figures of the theory lab, their numbers, and the interactive page."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dbtm.core.errors import UsageError


class _FigureGroup(TyperGroup):
    """A word that is no command of the group names a figure: `dbtm theory simplex` is `dbtm theory draw simplex`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = ["draw", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_FigureGroup,
    help="Exact fields, attractors and commitment times on the simplex: `dbtm theory FIGURE` draws one figure.",
    no_args_is_help=True,
)

Out = Annotated[Path, typer.Option("--out", help="Folder for the files; made if it is not there.")]


@app.command("list")
def list_figures() -> None:
    """Name the figures, with the setting each is drawn at unless told otherwise."""
    from dbtm.theory.figures import FIGURES

    for name, entry in FIGURES.items():
        options = {"p": ",".join(f"{v:g}" for v in entry.default.p), "sigma": entry.default.sigma, "a": entry.default.a}
        told = "  ".join(f"--{key} {value}" for key, value in options.items() if key in entry.reads)
        print(f"{name:13s} {entry.about}\n{'':13s} {told}")


@app.command("draw")
def draw_figure(
    figure: Annotated[str, typer.Argument(help="A name from `dbtm theory list`.")],
    p: Annotated[str | None, typer.Option("--p", help="Target probabilities, as .5,.3,.2")] = None,
    sigma: Annotated[float | None, typer.Option("--sigma", help="Scale of the prior.")] = None,
    a: Annotated[float | None, typer.Option("--a", help="Exponent of the schedule, at least 1.")] = None,
    out: Out = Path("theory"),
) -> None:
    """Draw one figure as PNG and SVG, with its numbers as JSON."""
    from dbtm.theory.figures import draw, save, setting_for

    setting = setting_for(figure, None if p is None else _probabilities(p), sigma, a)
    folder = _folder(out)
    for path in save(figure, draw(figure, setting), setting, folder):
        print(path)


@app.command("page")
def write_page(out: Out = Path("theory")) -> None:
    """Write the interactive page for three vertices: one HTML file that works offline."""
    from dbtm.theory.page import write

    print(write(_folder(out)))


@app.command("all")
def draw_all(out: Out = Path("theory")) -> None:
    """Draw every figure at its default setting, and write the page."""
    from dbtm.theory.figures import FIGURES, draw, save
    from dbtm.theory.page import write

    folder, began = _folder(out), time.perf_counter()
    for number, (name, entry) in enumerate(FIGURES.items(), 1):
        print(f"[{number}/{len(FIGURES)}] {name} ... ", end="", flush=True)
        start = time.perf_counter()
        save(name, draw(name), entry.default, folder)
        print(f"{time.perf_counter() - start:.1f} s", flush=True)
    print(f"{len(FIGURES)} figures and {write(folder).name} in {folder} ({time.perf_counter() - began:.0f} s)")


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be a folder for the files: {error.strerror}") from None
    return out


def _probabilities(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--p takes numbers with commas between, as .5,.3,.2; got '{text}'") from None
