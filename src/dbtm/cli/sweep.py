"""`dbtm sweep`: a text model over all its knobs: frontier, perplexity at matched entropy, the paper's comparisons."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbtm.cli.common import in_range, numbers, print_whole, progress_bar, refuse, refuse_sigma, show
from dbtm.cli.evaluate_text import JUDGE_HELP, Checkpoint, Data, count, load_text, pick_judge
from dbtm.cli.sweep_frontier import Entropies, compare, entropies_of, print_frontier, write_json
from dbtm.cli.text_table import title
from dbtm.core.errors import UsageError, nearest

if TYPE_CHECKING:
    from rich.progress import Progress

    from dbtm.evals.judges.base import Judge
    from dbtm.evals.samples import SampleSet
    from dbtm.evals.sweep.folder import Plan, SweepFolder
    from dbtm.evals.sweep.studies import Grid
    from dbtm.sampling import Sampler

_GRID = ("nfe", "kappa", "temperature", "sigma", "repetition_penalty")
_DRAWING = ("study", "n", *_GRID, "seed", "data", "references", "batch")

app = typer.Typer(help="Measure a model over all its knobs.", no_args_is_help=True)
app.command("frontier")(compare)


@app.command()
def text(
    context: typer.Context,
    checkpoint: Checkpoint = None,
    out: Annotated[Path, typer.Option(help="Folder of the sweep; run the command again to go on.")] = Path("sweep"),
    study: Annotated[str, typer.Option(help="frontier, horizon, iterate, scorer, commit, noise; or all.")] = "frontier",
    judge: Annotated[str, typer.Option(help=JUDGE_HELP)] = "smollm2",
    n: Annotated[int, typer.Option("--n", help="Samples for every setting.")] = 256,
    nfe: Annotated[str, typer.Option(help="Budgets of network evaluations.")] = "1,2,4,8,16",
    kappa: Annotated[str, typer.Option(help="Commit thresholds.")] = ".5,.9,.99",
    temperature: Annotated[str, typer.Option(help="Temperatures; 0 takes the most likely token.")] = "0,.7,1",
    sigma: Annotated[str | None, typer.Option(help="Scales of the prior (default: the checkpoint's).")] = None,
    repetition_penalty: Annotated[str, typer.Option(help="Repetition penalties; 0 is off.")] = "0,1",
    entropy: Entropies = None,
    seed: Annotated[int, typer.Option(help="Same seed, same samples.")] = 0,
    data: Data = None,
    references: Annotated[bool, typer.Option(help="Measure real and shuffled validation text too.")] = True,
    batch: Annotated[int | None, typer.Option(help="Samples side by side (default: what fits).")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Draw and judge samples over kappa x temperature x sigma x repetition penalty x NFE; resumable.

    With --judge none the samples are only drawn; without a CHECKPOINT the samples in --out are only judged.
    """
    studies = _studies(study)
    in_range("--n", n, 1)
    in_range("--batch", batch, 1)
    grid = _grid(nfe, kappa, temperature, sigma, repetition_penalty)
    entropies = entropies_of(entropy)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file: give a folder")

    from dbtm.evals.sweep.folder import SweepFolder

    folder = SweepFolder(out)
    if checkpoint is None and folder.plan is None:
        raise UsageError(f"--out {out} holds no sweep: give a CHECKPOINT to sample from")
    if checkpoint is None:
        refuse(context, _DRAWING, "without a CHECKPOINT nothing is drawn")
    sampler = None if checkpoint is None else load_text(checkpoint, device, batch, data)
    refuse_sigma(sampler, sigma)
    judging = pick_judge(judge, device)
    with progress_bar() as progress:
        if sampler is not None and checkpoint is not None:
            compared = _references(folder, sampler, n) if references else []
            plan = _plan(folder, sampler, checkpoint, studies, grid, n, seed)
            _draw(folder, plan, sampler, compared, progress)
        if judging is not None:
            _judge(folder, judging, progress)
    if judging is None:
        print(f"samples: {folder.samples}; judge them with: dbtm sweep text --out {out} --judge J")
    else:
        _tell(folder, judging, entropies)


# -- what was asked for ------------------------------------------------------------------------------------------------


def _studies(text: str) -> list[str]:
    from dbtm.evals.sweep.studies import STUDIES

    names = list(STUDIES) if text == "all" else text.split(",")
    for name in names:
        if name not in STUDIES:
            raise UsageError(f"--study {name} is not a choice{nearest(name, [*STUDIES, 'all'])}")
    return list(dict.fromkeys(names))


def _grid(nfe: str, kappa: str, temperature: str, sigma: str | None, penalty: str) -> "Grid":
    from dbtm.evals.sweep.studies import Grid

    positive, from_zero = "numbers above 0, as .8,1", "numbers from 0 on, as 0,.7,1"
    inf = float("inf")
    return Grid(
        nfe=numbers("--nfe", nfe, int, lambda x: x >= 1, "whole numbers from 1 on, as 1,2,4"),
        kappa=numbers("--kappa", kappa, float, lambda x: 0 <= x <= 1, "numbers from 0 to 1, as .5,.9"),
        temperature=numbers("--temperature", temperature, float, lambda x: 0 <= x < inf, from_zero),
        sigma=[None] if sigma is None else [*numbers("--sigma", sigma, float, lambda x: 0 < x < inf, positive)],
        repetition_penalty=numbers("--repetition-penalty", penalty, float, lambda x: 0 <= x < inf, from_zero),
    )


# -- the three stages --------------------------------------------------------------------------------------------------


def _references(folder: "SweepFolder", sampler: "Sampler", n: int) -> "list[SampleSet]":
    """Real and shuffled text; the folder's own, where it has some."""
    from dbtm.evals.text import references, text_task

    sets = references(text_task(sampler.task), n)
    folder.refuse_other_text(sets[0].origin)
    return sets


def _plan(
    folder: "SweepFolder", sampler: "Sampler", checkpoint: str, studies: list[str], grid: "Grid", n: int, seed: int
) -> "Plan":
    """The plan with the studies that were asked for."""
    from dbtm.evals.draw import origin, resolve
    from dbtm.evals.sweep.folder import Planned
    from dbtm.evals.sweep.studies import STUDIES

    cells = [
        Planned(cell.study, cell.row, cell.column, resolve(sampler, cell.asked))
        for name in studies
        for cell in STUDIES[name](grid, sampler)
    ]
    return folder.extend(origin(sampler, checkpoint, seed), n, cells)


def _draw(
    folder: "SweepFolder", plan: "Plan", sampler: "Sampler", compared: "list[SampleSet]", progress: "Progress"
) -> None:
    """Draw what is planned and not there yet, after what it is compared with."""
    from dbtm.evals.draw import draw
    from dbtm.evals.sweep.folder import identity

    there = folder.drawn()
    for each in compared:
        if identity(each.kind, each.settings) not in there:
            folder.add_samples(each)
    wanted = plan.settings()
    bar = progress.add_task("drawing", total=len(wanted) * plan.n)
    for done, settings in enumerate(wanted):
        progress.update(bar, description=f"drawing {title('sample', settings)}", completed=done * plan.n)
        if identity("sample", settings) not in there:
            told = partial(count, progress, bar, done * plan.n)
            folder.add_samples(draw(sampler, settings, plan.n, plan.origin["seed"], plan.origin, told))
    progress.update(bar, description="drawing", completed=len(wanted) * plan.n)


def _judge(folder: "SweepFolder", judge: "Judge", progress: "Progress") -> None:
    """Judge what is drawn and not judged yet."""
    from rich.markup import escape

    from dbtm.evals.sweep.folder import identity
    from dbtm.evals.text import measure

    described = judge.describe()
    there = folder.judged(described).keys()
    waiting = len(folder.drawn() - there)
    bar = progress.add_task(f"judging with {escape(judge.name)}", total=waiting)
    for each in folder.sets():
        if identity(each.kind, each.settings) in there:
            continue
        part = progress.add_task(title(each.kind, each.settings), total=None)
        folder.add_row(measure(each, judge, partial(show, progress, part)).document(), described)
        progress.remove_task(part)
        progress.advance(bar)


def _tell(folder: "SweepFolder", judge: "Judge", entropies: list[float]) -> None:
    """Tables to read, and the files of the outcome."""
    from dbtm.evals.sweep.studies import TITLES
    from dbtm.evals.sweep.tables import curves, matched, matched_entropies, study_table, summary
    from dbtm.viz.frontier import draw, save

    plan, rows = folder.plan, folder.judged(judge.describe())
    assert plan is not None
    found = [curves(folder.path.resolve().name, plan, rows)]
    entropies = entropies or matched_entropies(found)
    records = matched(found, entropies)
    write_json(folder.path / "sweep.json", summary(plan, judge, records, rows, folder.real_text()))
    drawn = save(draw(found, judge.name), folder.path / "frontier") if found[0].points else []
    if found[0].points:
        print_frontier(records, entropies, judge.name)
    for study in TITLES:
        cells = [cell for cell in plan.cells if cell.study == study]
        if cells:
            print_whole(study_table(study, cells, rows))
    for path in drawn:
        print(path)
