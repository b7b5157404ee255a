"""`dbtm demo`: the main tasks on built-in examples."""

from pathlib import Path
from typing import Annotated

import typer

from dbtm.cli.common import print_solution, write_solution_page
from dbtm.cli.console import open_console, say
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
    demos = {"all": (sudoku, hole, text), "text": (hole, text), "sudoku": (sudoku,), "simplex": (simplex,)}
    if what not in demos:
        raise UsageError(f"there is no demo '{what}'{nearest(what, demos)}")
    try:
        if what != "text":
            out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be a folder for the files: {error.strerror}") from None
    right = [show(out, seed) for show in demos[what]]
    if not all(right):
        raise typer.Exit(1)


HOLES = "The town is on the ____ of the river, and was founded in ____ by"


def hole(out: Path, seed: int) -> bool:
    """A sentence with holes, filled by the packaged model."""
    from dbtm.checkpoint.loading import PACKAGED
    from dbtm.service.generation import InfillRequest, infill, parts_of
    from dbtm.viz.spell import speller_of
    from dbtm.viz.token_trace import result_text, sample_of

    console = open_console()
    say(f"holes filled, and the text continued, in 4 network evaluations: {HOLES}\n")
    parts = parts_of(infill=HOLES)
    request = InfillRequest(checkpoint=str(PACKAGED / "text"), parts=parts, hole=4, options={"nfe": 4}, seed=seed)
    result = infill(request)
    drawn = sample_of(result.trace, 0, speller_of(result.task), result.task.vocab)
    console.print(result_text(drawn), soft_wrap=not console.is_terminal)
    say('\nnext: dbtm sample text --infill "The ____ of ____" --trace   your own holes, filled round by round\n')
    return True


def text(out: Path, seed: int) -> bool:
    """Texts of the packaged model from the same initial noise, at rising numbers of network evaluations."""
    from dbtm.checkpoint.loading import PACKAGED, load
    from dbtm.service.generation import SampleRequest, sample
    from dbtm.viz.spell import speller_of
    from dbtm.viz.token_trace import result_text, sample_of

    checkpoint, console = str(PACKAGED / "text"), open_console()
    sampler = load(checkpoint)
    say(
        "text without a prompt, each time from the same initial noise: a model of 7.6M parameters, trained for nine "
        "minutes on encyclopaedia and news\n"
    )
    for nfe in (1, 4, 16):
        result = sample(SampleRequest(checkpoint=checkpoint, options={"nfe": nfe}, seed=seed), sampler)
        drawn = sample_of(result.trace, 0, speller_of(result.task), result.task.vocab)
        console.print(f"{nfe} network evaluation{'s' if nfe > 1 else ''}", style="bold")
        console.print(result_text(drawn), soft_wrap=not console.is_terminal)
        console.print()
    say('next: dbtm sample text --prompt "The river" --trace   your own prompt, refined round by round')
    return True


def sudoku(out: Path, seed: int) -> bool:
    """Solve the built-in puzzle as `dbtm solve` does, show the rounds and write a page that replays them."""
    from dbtm.service.solving import SolveRequest, solve

    result = solve(SolveRequest(seed=seed, self_check=True, warm_up=True))
    print_solution(result)
    page = out / "sudoku.html"
    write_solution_page(result, page)
    say(f"page that replays it: {page}")
    say("\nnext: dbtm solve PUZZLE                      your own: 81 characters, 0 or . for empty, or a file")
    say("      dbtm eval sudoku --clues 30 --n 100    its solve rate, with intervals")
    say("      dbtm demo simplex                      train a one-step map in a minute, and see it")
    say("      dbtm studio                            the same and more in the browser\n")
    return result.solved


def simplex(out: Path, seed: int) -> bool:
    """Learn the one-step map on the 2-simplex and draw it beside the exact flow's basins."""
    from dbtm.service.simplex import train_simplex_map
    from dbtm.viz.simplex import save_learned_beside_exact

    say("training the one-step map T on the 2-simplex, p = (.5, .3, .2): no teacher, no time input\n")
    learned = train_simplex_map(seed)
    path = save_learned_beside_exact(learned.vertex_of, learned.p, out / "simplex.png")
    say(f"\none network evaluation from noise to a vertex, {learned.samples:,} samples")
    say("  vertex      learned   data")
    for j, (got, want) in enumerate(zip(learned.frequencies, learned.p, strict=True)):
        say(f"  e{j + 1}          {got:.3f}     {want:.3f}  {'#' * round(60 * got)}")
    say(f"agreement of the learned map with the basins of the exact autonomous flow: {learned.agreement:.1%}")
    say(f"figure: {path}")
    return True
