"""`dbtm demo`: the main job on a built-in default."""

from pathlib import Path
from typing import Annotated

import typer

from dbtm.core.errors import UsageError, nearest


def demo(
    what: Annotated[
        str,
        typer.Argument(
            help="text or sudoku: seconds, a trained model; simplex: a minute, trains one. all: the first two."
        ),
    ] = "all",
    out: Annotated[Path, typer.Option(help="Where the page or figure goes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the noise, or of the training run.")] = 0,
) -> None:
    """Solve a hard Sudoku and write text in a few network evaluations, or learn the one-step map on the 2-simplex."""
    demos = {"all": (text, sudoku), "text": (text,), "sudoku": (sudoku,), "simplex": (simplex,)}
    if what not in demos:
        raise UsageError(f"there is no demo '{what}'{nearest(what, demos)}")
    try:
        if what != "text":
            out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be a folder for the files: {error.strerror}") from None
    for show in demos[what]:
        show(out, seed)


def text(out: Path, seed: int) -> None:
    """Texts of the packaged model, from the same first noise, with more and more network evaluations."""
    from rich.console import Console

    from dbtm.cli.sample_kinds import Texts, Words
    from dbtm.loading import PACKAGED, load
    from dbtm.tasks.text.task import Text

    sampler, console = load(PACKAGED / "text"), Console(highlight=False)
    assert isinstance(sampler.task, Text)
    kind = Texts(sampler.task, Words(), 1)
    print("text from nothing: a small model of encyclopaedia and news, each time from the same first noise\n")
    for nfe in (1, 4, 16):
        trace = sampler.sample(tokens=kind.tokens_BL, clean=kind.clean_BL, nfe=nfe, seed=seed)
        console.print(f"{nfe} network evaluation{'s' if nfe > 1 else ''}", style="bold")
        kind.body(console, 0, kind.samples(trace)[0], rounds=False)
        console.print()
    print('next: dbtm sample text --prompt "The river" --trace   your own beginning, refined round by round\n')


def sudoku(out: Path, seed: int) -> None:
    """Solve the built-in puzzle with the packaged model, show its rounds and write the page that replays them."""
    from dbtm.cli.solve import find_answer, show, write_page

    answer = find_answer(None, seed=seed)
    show(answer)
    page = out / "sudoku.html"
    write_page(answer, page)
    print(f"page that replays it: {page}")
    print("\nnext: dbtm solve PUZZLE                      your own: 81 characters, 0 or . for empty, or a file")
    print("      dbtm eval sudoku --clues 30 --n 100    how often it is right, with intervals")
    print("      dbtm demo simplex                      train a one-step map in a minute, and see it")
    if answer.wrong:
        raise typer.Exit(1)


def simplex(out: Path, seed: int) -> None:
    """Learn the one-step map on the 2-simplex and draw it beside the exact flow's basins."""
    import tempfile

    import numpy as np

    from dbtm.config import override
    from dbtm.loading import load
    from dbtm.recipes import recipe
    from dbtm.train.loop import fit
    from dbtm.viz.simplex import draw

    config = override(recipe("simplex"), [f"train.seed={seed}"])
    print("training the one-step map T on the 2-simplex, p = (.5, .3, .2): no teacher, no time input\n")
    with tempfile.TemporaryDirectory() as folder:
        sampler = load(fit(config, folder), device="cpu")
    frequencies = np.bincount(sampler.sample(20_000, nfe=1, seed=1).tokens[:, 0], minlength=3) / 20_000
    agreement = config.task.evaluate(sampler, seed)["agreement"]
    path = draw(sampler.model, config.task.p, out / "simplex.png")  # type: ignore[attr-defined]
    print("\none network evaluation from noise to a vertex, 20,000 samples")
    print("  vertex      learned   data")
    for j, (got, want) in enumerate(zip(frequencies, config.task.p, strict=True)):  # type: ignore[attr-defined]
        print(f"  e{j + 1}          {got:.3f}     {want:.3f}  {'#' * round(60 * got)}")
    print(f"agreement of the learned map with the basins of the exact autonomous flow: {agreement:.1%}")
    print(f"figure: {path}")
