"""`dbtm eval text`: generative perplexity, entropy and repetition of a text model's samples, with intervals."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import files
from dbtm.cli.common import FreshNoise, check_kappa, in_range, numbers, progress_bar, refuse, refuse_sigma, show
from dbtm.cli.text_table import print_rows, title
from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress, TaskID

    from dbtm.evals.judges.base import Judge
    from dbtm.evals.samples import SampleSet
    from dbtm.sampling import Sampler
    from dbtm.tasks.text.task import Text

JUDGE_HELP = "smollm2, a GGUF file, a causal language model of transformers (gpt2-large, a folder), or none."
Checkpoint = Annotated[str | None, typer.Argument(help="A checkpoint folder, a run, or a model of the package.")]
Data = Annotated[Path | None, typer.Option(help="Where the prepared text is now, if not where it was.")]
_DRAWING = ("n", "nfe", "kappa", "temperature", "sigma", "repetition_penalty", "scorer", "fresh_noise", "seed", "data")


def text(
    context: typer.Context,
    checkpoint: Checkpoint = None,
    nfe: Annotated[str, typer.Option(help="Budgets of network evaluations.")] = "1,2,4,8,16",
    judge: Annotated[str, typer.Option(help=JUDGE_HELP)] = "smollm2",
    n: Annotated[int, typer.Option("--n", help="Samples for every budget, and blocks of real text.")] = 1024,
    kappa: Annotated[
        float | None, typer.Option(help="Commit what scores at least this (default: tuned for the budget).")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="0 takes the most likely token.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Scale of the prior noise.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="0 is off.")] = None,
    scorer: Annotated[
        str | None, typer.Option(help="confidence, quality, spread or none (default: the checkpoint's).")
    ] = None,
    fresh_noise: FreshNoise = None,
    seed: Annotated[int, typer.Option(help="Same seed, same samples.")] = 0,
    data: Data = None,
    references: Annotated[bool, typer.Option(help="Measure real and shuffled validation text too.")] = True,
    samples: Annotated[Path | None, typer.Option(help="Judge this file of samples instead of drawing some.")] = None,
    save_samples: Annotated[Path | None, typer.Option(help="Write the samples: FILE.jsonl or FILE.jsonl.gz.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write rows, judge, samples' origin.")] = None,
    batch: Annotated[int | None, typer.Option(help="Samples side by side (default: what fits).")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Generative perplexity and entropy over budgets (NFE), beside real and shuffled text.

    Samples can be drawn on one machine (--judge none --save-samples F) and judged on another (--samples F --judge J).
    """
    if (checkpoint is None) == (samples is None):
        raise UsageError("give either a CHECKPOINT to sample from or --samples FILE to judge, not both and not neither")
    if samples is not None:
        refuse(context, (*_DRAWING, "references", "batch", "save_samples"), "--samples are judged as they are")
    in_range("--n", n, 1)
    in_range("--batch", batch, 1)
    budgets = numbers("--nfe", nfe, int, lambda value: value >= 1, "whole numbers from 1 on, as 1,2,4")
    asked = {"kappa": kappa, "temperature": temperature, "sigma": sigma, "scorer": scorer}
    asked |= {"repetition_penalty": repetition_penalty, "fresh_noise": fresh_noise}
    asked = {name: value for name, value in asked.items() if value is not None}
    check_kappa(kappa)
    files.check_all([("--json", json_file), ("--save-samples", save_samples)], reads=[("--samples", samples)])

    from dbtm.evals.draw import resolve
    from dbtm.evals.samples import key, read, write
    from dbtm.evals.text import document, measure

    sampler = None if checkpoint is None else load_text(checkpoint, device, batch, data)
    refuse_sigma(sampler, sigma)
    resolved = [] if sampler is None else [resolve(sampler, {"nfe": budget, **asked}) for budget in budgets]
    settings = list({key(each): each for each in resolved}.values())
    found = read(samples) if samples is not None else []
    judging = pick_judge(judge, device)
    with progress_bar() as progress:
        if sampler is not None and checkpoint is not None:
            found = draw_all(sampler, checkpoint, settings, n, seed, references, progress)
            if save_samples is not None:
                write(save_samples, found)
        rows = []
        for each in found:
            bar = progress.add_task(f"judging {title(each.kind, each.settings)}", total=None, visible=bool(judging))
            rows.append(measure(each, judging, partial(show, progress, bar)))
    if json_file is not None:
        import json

        whole = document(rows, judging, [each.origin for each in found])
        files.write(json_file, json.dumps(whole, indent=2, allow_nan=False) + "\n")
    print_rows(rows, judging)
    for path in (save_samples, json_file):
        if path is not None:
            print(path)


def load_text(checkpoint: str, device: str, batch: int | None, data: Path | None) -> "Sampler":
    """The sampler of a checkpoint that was trained on text; `data` is where that lies now, if not where it was."""
    from dbtm.evals.draw import fitting_batch
    from dbtm.evals.text import text_task
    from dbtm.loading import load
    from dbtm.tasks.text.task import Text

    sampler = load(checkpoint, device)
    task = text_task(sampler.task)
    if data is not None:
        if not isinstance(task, Text):
            raise UsageError("--data is for checkpoints that were trained on prepared text")
        task = sampler.task = task.at(str(data))
    if isinstance(task, Text):
        _warn_of_other_data(task, checkpoint)
    sampler.batch = batch or fitting_batch(sampler)
    return sampler


def _warn_of_other_data(task: "Text", checkpoint: str) -> None:
    """Text that a model is compared with should not be text that it has seen."""
    import json

    from dbtm.loading import find
    from dbtm.tasks.folder import MANIFEST

    state = find(checkpoint) / "state.json"
    trained_on = json.loads(state.read_text()).get("data") if state.is_file() else None
    if trained_on and Path(task.data, MANIFEST).is_file() and trained_on != task.data_sha256():
        typer.echo(
            f"warning: {checkpoint} was not trained on {task.data}: it may have seen the text held out there", err=True
        )


def pick_judge(name: str, device: str) -> "Judge | None":
    from dbtm.evals.judges import load_judge

    return None if name == "none" else load_judge(name, device)


def draw_all(
    sampler: "Sampler",
    checkpoint: str,
    settings: "Sequence[dict[str, Any]]",
    n: int,
    seed: int,
    with_references: bool,
    progress: "Progress",
) -> "list[SampleSet]":
    """A set for every setting, and the references last."""
    from dbtm.evals.draw import draw, origin
    from dbtm.evals.text import references, text_task

    compared = references(text_task(sampler.task), n) if with_references else []
    source = origin(sampler, checkpoint, seed)
    found = []
    for each in settings:
        bar = progress.add_task(f"drawing {title('sample', each)}", total=n)
        found.append(draw(sampler, each, n, seed, source, partial(count, progress, bar, 0)))
    return [*found, *compared]


def count(progress: "Progress", bar: "TaskID", before: int, done: int) -> None:
    progress.update(bar, completed=before + done)
