"""`dbtm sweep`: a text model over all its knobs: frontier, perplexity at matched entropy, the paper's comparisons."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import files
from dbtm.cli.evaluate import _numbers, _progress
from dbtm.cli.evaluate_text import JUDGE_HELP, Checkpoint, count, load_text, pick_judge, show, title
from dbtm.errors import UsageError, nearest

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from dbtm.evals.judges.base import Judge
    from dbtm.evals.studies import Grid
    from dbtm.evals.sweep import Plan, SweepFolder
    from dbtm.sampling import Sampler

app = typer.Typer(help="Measure a model over all its knobs.", no_args_is_help=True)

Entropies = Annotated[
    str | None, typer.Option(help="Entropies to compare at, as 4.2,4.3 (default: around real text's).")
]


@app.command()
def text(
    checkpoint: Checkpoint = None,
    out: Annotated[Path, typer.Option(help="Folder of the sweep; run the command again to go on.")] = Path("sweep"),
    study: Annotated[str, typer.Option(help="frontier, horizon, iterate, scorer, commit; or all.")] = "frontier",
    judge: Annotated[str, typer.Option(help=JUDGE_HELP)] = "smollm2",
    n: Annotated[int, typer.Option("--n", help="Samples for every setting.")] = 256,
    nfe: Annotated[str, typer.Option(help="Budgets of network evaluations.")] = "1,2,4,8,16",
    kappa: Annotated[str, typer.Option(help="Commit thresholds.")] = ".5,.9,.99",
    temperature: Annotated[str, typer.Option(help="Temperatures; 0 takes the most likely token.")] = "0,.7,1",
    sigma: Annotated[str | None, typer.Option(help="Scales of the prior (default: the checkpoint's).")] = None,
    repetition_penalty: Annotated[str, typer.Option(help="Repetition penalties; 0 is off.")] = "0,1",
    entropy: Entropies = None,
    seed: Annotated[int, typer.Option(help="Same seed, same samples.")] = 0,
    references: Annotated[bool, typer.Option(help="Measure real and shuffled validation text too.")] = True,
    batch: Annotated[int | None, typer.Option(help="Samples side by side (default: what fits).")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Draw and judge samples over kappa x temperature x sigma x repetition penalty x NFE; resumable.

    With --judge none the samples are only drawn; without a CHECKPOINT the samples in --out are only judged.
    """
    studies = _studies(study)
    if n < 1 or (batch is not None and batch < 1):
        raise UsageError("--n and --batch must be at least 1")
    grid = _grid(nfe, kappa, temperature, sigma, repetition_penalty)
    entropies = _entropies(entropy)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file: give a folder")

    from dbtm.evals.sweep import SweepFolder

    folder = SweepFolder(out)
    if checkpoint is None and folder.plan is None:
        raise UsageError(f"--out {out} holds no sweep: give a CHECKPOINT to sample from")
    sampler = None if checkpoint is None else load_text(checkpoint, device, batch)
    judging = pick_judge(judge, device)
    with _progress() as progress:
        if sampler is not None and checkpoint is not None:
            plan = _plan(folder, sampler, checkpoint, studies, grid, n, seed)
            _draw(folder, plan, sampler, references, progress)
        if judging is not None:
            _judge(folder, judging, progress)
    if judging is None:
        print(f"samples: {folder.samples}; judge them with: dbtm sweep text --out {out} --judge J")
    else:
        _tell(folder, judging, entropies)


@app.command("frontier")
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of sweeps under the same judge; a name is its label.")],
    out: Annotated[Path, typer.Option(help="Stem of the figure: OUT.png and OUT.svg.")] = Path("frontier"),
    judge: Annotated[str | None, typer.Option(help="Whose numbers (default: the only judge there).")] = None,
    entropy: Entropies = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the table with all frontiers.")] = None,
) -> None:
    """Several sweeps in one table and one figure."""
    from dbtm.evals.outcome import curves, matched, matched_entropies
    from dbtm.evals.sweep import SweepFolder
    from dbtm.viz.frontier import draw, save

    files.check("--out", out.with_name(f"{out.name}.png"))
    files.check("--json", json_file)
    name = judge or _only_judge(folders)
    found = [curves(folder.resolve().name, SweepFolder(folder).judged(name)) for folder in folders]
    for folder, each in zip(folders, found):
        if not each.points:
            raise UsageError(f"{folder} has no rows by the judge '{name}': see `dbtm sweep text --out {folder}`")
    entropies = _entropies(entropy) or matched_entropies(found)
    records = matched(found, entropies)
    _print_frontier(records, entropies, name)
    for path in save(draw(found, name), out):
        print(path)
    if json_file is not None:
        _write_json(json_file, {"judge": name, "frontier": records})


def _only_judge(folders: Sequence[Path]) -> str:
    from dbtm.evals.sweep import SweepFolder

    names = sorted({name for folder in folders for name in SweepFolder(folder).judges()})
    if not names:
        raise UsageError("there is nothing judged in these folders: see `dbtm sweep text`")
    if len(names) > 1:
        raise UsageError(f"these sweeps were judged by {', '.join(names)}: choose with --judge, two are never mixed")
    return names[0]


# -- what was asked for ------------------------------------------------------------------------------------------------


def _studies(text: str) -> list[str]:
    from dbtm.evals.studies import STUDIES

    names = list(STUDIES) if text == "all" else text.split(",")
    for name in names:
        if name not in STUDIES:
            raise UsageError(f"--study {name} is not a choice{nearest(name, [*STUDIES, 'all'])}")
    return list(dict.fromkeys(names))


def _grid(nfe: str, kappa: str, temperature: str, sigma: str | None, penalty: str) -> "Grid":
    from dbtm.evals.studies import Grid

    positive, from_zero = "numbers above 0, as .8,1", "numbers from 0 on, as 0,.7,1"
    inf = float("inf")
    return Grid(
        nfe=_numbers("--nfe", nfe, int, lambda x: x >= 1, "whole numbers from 1 on, as 1,2,4"),
        kappa=_numbers("--kappa", kappa, float, lambda x: 0 <= x <= 1, "numbers from 0 to 1, as .5,.9"),
        temperature=_numbers("--temperature", temperature, float, lambda x: 0 <= x < inf, from_zero),
        sigma=[None] if sigma is None else [*_numbers("--sigma", sigma, float, lambda x: 0 < x < inf, positive)],
        repetition_penalty=_numbers("--repetition-penalty", penalty, float, lambda x: 0 <= x < inf, from_zero),
    )


def _entropies(text: str | None) -> list[float]:
    if text is None:
        return []
    return _numbers("--entropy", text, float, lambda x: 0 <= x < float("inf"), "numbers from 0 on, as 4.2,4.3")


# -- the three stages --------------------------------------------------------------------------------------------------


def _plan(
    folder: "SweepFolder", sampler: "Sampler", checkpoint: str, studies: list[str], grid: "Grid", n: int, seed: int
) -> "Plan":
    """The plan with the studies that were asked for."""
    from dbtm.evals.draw import origin, resolve
    from dbtm.evals.studies import STUDIES
    from dbtm.evals.sweep import Planned

    cells = [
        Planned(cell.study, cell.row, cell.column, resolve(sampler, cell.asked))
        for name in studies
        for cell in STUDIES[name](grid, sampler)
    ]
    return folder.extend(origin(sampler, checkpoint, seed), n, cells)


def _draw(folder: "SweepFolder", plan: "Plan", sampler: "Sampler", with_references: bool, progress: "Progress") -> None:
    """Draw what is planned and not there yet."""
    from dbtm.evals.draw import draw
    from dbtm.evals.sweep import identity
    from dbtm.evals.text import references, text_task

    there = folder.drawn()
    if with_references:
        for each in references(text_task(sampler.task), plan.n):
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
    from dbtm.evals.sweep import identity
    from dbtm.evals.text import measure

    there = folder.judged(judge.name).keys()
    waiting = len(folder.drawn() - there)
    bar = progress.add_task(f"judging with {judge.name}", total=waiting)
    for each in folder.sets():
        if identity(each.kind, each.settings) in there:
            continue
        part = progress.add_task(title(each.kind, each.settings), total=None)
        folder.add_row(measure(each, judge, partial(show, progress, part)).document())
        progress.remove_task(part)
        progress.advance(bar)


def _tell(folder: "SweepFolder", judge: "Judge", entropies: list[float]) -> None:
    """Tables to read, and the files of the outcome."""
    from dbtm.evals.outcome import curves, matched, matched_entropies, study_table, summary
    from dbtm.evals.studies import TITLES
    from dbtm.viz.frontier import draw, save

    plan, rows = folder.plan, folder.judged(judge.name)
    assert plan is not None
    found = [curves(folder.path.resolve().name, rows)]
    entropies = entropies or matched_entropies(found)
    records = matched(found, entropies)
    if found[0].points:
        _print_frontier(records, entropies, judge.name)
    for study in TITLES:
        cells = [cell for cell in plan.cells if cell.study == study]
        if cells:
            _print_whole(study_table(study, cells, rows))
    _write_json(folder.path / "sweep.json", summary(plan, judge, records, rows))
    if found[0].points:
        for path in save(draw(found, judge.name), folder.path / "frontier"):
            print(path)


def _print_frontier(records: list[dict[str, Any]], entropies: list[float], judge: str) -> None:
    from rich.console import Console

    from dbtm.evals.outcome import NEAR, frontier_table

    console = Console(highlight=False)
    console.print(f"\n[bold]perplexity under {judge} on the frontier, at matched entropy[/]")
    _print_whole(frontier_table(records, entropies))
    console.print(f"best: the least perplexity with an entropy within {NEAR:.2f} of real text's", style="dim")


def _print_whole(table: "Table") -> None:
    """A table as wide as it needs to be: a narrow terminal wraps it, but no digit is left out."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(highlight=False)
    needed = Measurement.get(console, console.options.update(width=1000), table).maximum
    Console(highlight=False, width=max(console.width, needed)).print(table)


def _write_json(path: Path, whole: dict[str, Any]) -> None:
    import json

    files.write(path, json.dumps(whole, indent=2, allow_nan=False) + "\n")
    print(path)
