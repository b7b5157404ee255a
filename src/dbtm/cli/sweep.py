"""`dbtm sweep`: a text model over all options of its sampler: frontier, perplexity at matched entropy, comparisons."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbtm.cli import common, files, tables
from dbtm.cli.console import say
from dbtm.cli.options import Batch, Device, Json, Seed
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_EVALUATIONS

if TYPE_CHECKING:
    from dbtm.service.sweeping import SweepResult

_VARIED = ("nfe", "kappa", "temperature", "sigma", "repetition_penalty", "top_p")
_DRAWING = ("study", "n", *_VARIED, "seed", "data", "references", "batch")

app = typer.Typer(help="Measure a model over all options of its sampler.", no_args_is_help=True)


@app.command()
def text(
    context: typer.Context,
    checkpoint: Annotated[str | None, typer.Argument(help="A checkpoint folder, a run, or a packaged model.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the sweep; run the command again to resume.")] = Path("sweep"),
    study: Annotated[str, typer.Option(help="frontier, horizon, iterate, scorer, commit, noise; or all.")] = "frontier",
    judge: tables.Judge = "smollm2",
    n: Annotated[int, typer.Option("--n", help="Samples per setting.")] = 256,
    nfe: Annotated[str | None, typer.Option(help="Budgets of network evaluations (default: 1,2,4,8,16).")] = None,
    kappa: Annotated[str | None, typer.Option(help="Commit thresholds (default: .5,.9,.99).")] = None,
    temperature: Annotated[
        str | None, typer.Option(help="Temperatures; 0 takes the most likely token (default: 0,.7,1).")
    ] = None,
    sigma: Annotated[str | None, typer.Option(help="Scales of the prior (default: the checkpoint's).")] = None,
    repetition_penalty: Annotated[
        str | None, typer.Option(help="Repetition penalties; 0 is off (default: 0,1).")
    ] = None,
    top_p: Annotated[
        str | None,
        typer.Option(help="ar, mdlm: shares of probability that are drawn from (default: the checkpoint's)."),
    ] = None,
    entropy: tables.Entropies = None,
    seed: Seed = 0,
    data: tables.Data = None,
    references: tables.References = True,
    batch: Batch = None,
    device: Device = "auto",
) -> None:
    """Draw and judge samples over NFE x kappa x temperature x ...: all options of the method; resumable.

    With --judge none the samples are only drawn; without a CHECKPOINT the samples in --out are only judged.
    """
    common.in_range("--n", n, 1)
    common.in_range("--batch", batch, 1)
    values = _values(nfe, kappa, temperature, sigma, repetition_penalty, top_p)
    entropies = tables.entropies_of(entropy)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file: give a folder")
    if checkpoint is None:
        if not (out / "plan.json").is_file():
            raise UsageError(f"--out {out} has no sweep: give a CHECKPOINT to sample from")
        common.refuse(context, _DRAWING, "without a CHECKPOINT nothing is drawn")

    from dbtm.evals.perplexity import NoReferenceError
    from dbtm.service.sweeping import SweepRequest, run_sweep

    request = SweepRequest(
        folder=out,
        checkpoint=checkpoint,
        studies=tuple(study.split(",")),
        values=values,
        judge=None if judge == "none" else judge,
        n=n,
        seed=seed,
        entropies=entropies,
        references=references,
        data=data,
        batch=batch,
        device=device,
    )
    with common.shown_progress() as progress:
        try:
            result = run_sweep(request, progress)
        except NoReferenceError as error:
            raise UsageError(f"{error}; give its path with --data, or leave it out with --no-references") from None
    if result.frontiers is None:
        say(f"samples: {result.folder.samples}; judge them with: dbtm sweep text --out {out} --judge J")
    else:
        _print(result)


def _values(
    nfe: str | None,
    kappa: str | None,
    temperature: str | None,
    sigma: str | None,
    repetition_penalty: str | None,
    top_p: str | None,
) -> dict[str, list]:
    """The values of the given options."""
    inf = float("inf")
    from_zero = "numbers of at least 0, such as 0,.7,1"
    wanted = {
        "nfe": (
            nfe,
            int,
            lambda x: 1 <= x <= MOST_EVALUATIONS,
            f"whole numbers from 1 to {MOST_EVALUATIONS}, such as 1,2,4",
        ),
        "kappa": (kappa, float, lambda x: 0 <= x <= 1, "numbers from 0 to 1, such as .5,.9"),
        "temperature": (temperature, float, lambda x: 0 <= x < inf, from_zero),
        "sigma": (sigma, float, lambda x: 0 < x < inf, "numbers above 0, such as .8,1"),
        "repetition_penalty": (repetition_penalty, float, lambda x: 0 <= x < inf, from_zero),
        "top_p": (top_p, float, lambda x: 0 < x <= 1, "numbers above 0 and at most 1, such as .9,1"),
    }
    return {
        name: common.numbers(f"--{name.replace('_', '-')}", given, kind, fits, words)
        for name, (given, kind, fits, words) in wanted.items()
        if given is not None
    }


def _print(result: "SweepResult") -> None:
    """Tables to read, and the files of the outcome."""
    from dbtm.evals.sweep.studies import TITLES

    assert result.frontiers is not None
    assert result.plan is not None
    if any(each.points for each in result.frontiers.sweeps):
        tables.print_frontiers(result.frontiers)
    for study in TITLES:
        cells = [cell for cell in result.plan.cells if cell.study == study]
        if cells:
            common.print_whole(tables.study_table(study, cells, result.rows))
    tables.print_paths(*result.files)


@app.command()
def frontier(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders of sweeps with the same judge; their names are the labels.")
    ],
    out: Annotated[Path, typer.Option(help="Stem of the figure: OUT.png and OUT.svg.")] = Path("frontier"),
    judge: Annotated[str | None, typer.Option(help="Judge whose numbers are compared (default: the only one).")] = None,
    entropy: tables.Entropies = None,
    json_file: Json = None,
) -> None:
    """Several sweeps in one table and one figure."""
    if not out.name:
        raise UsageError(f"--out {out} is a folder: give the name of a figure in it")
    files.check("--out", out.with_name(f"{out.name}.png"))
    files.check("--json", json_file)
    entropies = tables.entropies_of(entropy)

    from dbtm.service.sweeping import ComparisonRequest, compare_sweeps

    frontiers = compare_sweeps(ComparisonRequest(folders=tuple(folders), judge=judge, entropies=entropies))
    tables.print_frontiers(frontiers)
    tables.print_paths(*frontiers.save_figure(out))
    tables.write_json(json_file, frontiers.document())
    tables.print_paths(json_file)
