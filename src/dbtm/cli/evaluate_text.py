"""`dbtm eval text`: generative perplexity, entropy and repetition of a text model's samples, with intervals."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dbtm.cli import common, files, tables
from dbtm.cli.options import SAMPLER, Batch, Budgets, Device, Json, Seed, takes_sampler_options
from dbtm.core.errors import UsageError

_DRAWING = ("n", *SAMPLER, "seed", "data", "references", "matches", "batch", "save_samples")  # options


@takes_sampler_options("nfe")
def text(
    context: typer.Context,
    checkpoint: Annotated[str | None, typer.Argument(help="A checkpoint folder, a run, or a packaged model.")] = None,
    nfe: Budgets = None,
    judge: tables.Judge = "smollm2",
    n: Annotated[int, typer.Option("--n", help="Samples per budget, and blocks of real text.")] = 1024,
    seed: Seed = 0,
    data: tables.Data = None,
    references: tables.References = True,
    matches: Annotated[
        bool, typer.Option("--matches", help="Also the longest run of each sample that occurs in the training text.")
    ] = False,
    samples: Annotated[Path | None, typer.Option(help="Judge this file of samples instead of drawing samples.")] = None,
    save_samples: Annotated[Path | None, typer.Option(help="Write the samples: FILE.jsonl or FILE.jsonl.gz.")] = None,
    json_file: Json = None,
    batch: Batch = None,
    device: Device = "auto",
    *,
    options: dict[str, Any],
) -> None:
    """Generative perplexity and entropy over budgets (NFE), beside real and shuffled text.

    Samples can be drawn on one machine (--judge none --save-samples F) and judged on another (--samples F --judge J).
    """
    if (checkpoint is None) == (samples is None):
        raise UsageError("give either a CHECKPOINT to sample from or --samples FILE to judge")
    if samples is not None:
        common.refuse(context, _DRAWING, "--samples are judged as they are")
    common.in_range("--n", n, 1)
    common.in_range("--batch", batch, 1)
    budgets = tables.budgets_of(nfe)
    files.check_all([("--json", json_file), ("--save-samples", save_samples)], reads=[("--samples", samples)])

    from dbtm.evals.perplexity import NoReferenceError
    from dbtm.evals.samples import write_sets
    from dbtm.service.evaluation.generated_text import TextEvaluationRequest, evaluate_text

    request = TextEvaluationRequest(
        checkpoint=checkpoint,
        samples=samples,
        judge=None if judge == "none" else judge,
        n=n,
        seed=seed,
        budgets=budgets,
        options=options,
        references=references,
        matches=matches,
        data=data,
        batch=batch,
        device=device,
    )
    with common.shown_progress() as progress:
        try:
            for result in evaluate_text(request, progress):
                if save_samples is not None and not result.scores:  # drawn, and not judged yet
                    write_sets(save_samples, result.sets)
        except NoReferenceError as error:
            raise UsageError(f"{error}; give its path with --data, or leave it out with --no-references") from None
    tables.write_json(json_file, result.document())
    tables.print_text_scores(result.scores, result.judge["name"] if result.judge else None)
    tables.print_paths(save_samples, json_file)
