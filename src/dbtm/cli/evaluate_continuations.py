"""`dbtm eval continuations`: perplexity of a model's continuations of new text, beside the real ones."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import common, files, tables
from dbtm.cli.console import open_console
from dbtm.cli.options import Batch, Budgets, Checkpoint, Device, Json, Seed, takes_sampler_options
from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    from dbtm.evals.continuations import ContinuationScore


@takes_sampler_options("nfe")
def continuations(
    checkpoint: Checkpoint,
    texts: Annotated[Path, typer.Argument(help="Text, one per line (also .gz, .xz, .zst, .jsonl, .parquet).")],
    nfe: Budgets = None,
    judge: tables.Judge = "smollm2",
    n: Annotated[int, typer.Option("--n", help="Number of texts: the first ones that fit.")] = 512,
    seed: Seed = 0,
    json_file: Json = None,
    batch: Batch = None,
    device: Device = "auto",
    *,
    options: dict[str, Any],
) -> None:
    """Perplexity of continuations, given the first halves of texts, beside that of the real second halves."""
    common.in_range("--n", n, 1)
    common.in_range("--batch", batch, 1)
    if judge == "none":
        raise UsageError("continuations are measured by a judge: name one with --judge")
    if not texts.is_file():
        raise UsageError(f"no such file: {texts}")
    budgets = tables.budgets_of(nfe)
    files.check_all([("--json", json_file)], reads=[("TEXTS", texts)])

    from dbtm.service.evaluation.continuations import ContinuationRequest, evaluate_continuations

    request = ContinuationRequest(
        checkpoint=checkpoint,
        texts=texts,
        judge=judge,
        n=n,
        seed=seed,
        budgets=budgets,
        options=options,
        batch=batch,
        device=device,
    )
    with common.shown_progress() as progress:
        *_, result = evaluate_continuations(request, progress)
    tables.write_json(json_file, result.document())
    common.print_whole(_table(result.scores, result.judge["name"]))
    open_console().print("95 % intervals over texts; both halves of a text have half of its words", style="dim")
    tables.print_paths(json_file)


def _table(scores: "tuple[ContinuationScore, ...]", judge: str) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"judge: {escape(judge)}", title_justify="left")
    for name in ("second halves", "n", "perplexity", "different\ntokens", "texts/s"):
        table.add_column(name, justify="left" if name == "second halves" else "right")
    for score in scores:
        budget = score.settings.get("nfe")
        kind = "real" if score.kind == "real" else "samples" if budget is None else f"{budget} NFE"
        rate = "" if not score.seconds else f"{score.n / score.seconds:.3g}"
        cells = tables.interval(score.perplexity, 1), tables.interval(score.distinct, 3)
        table.add_row(kind, str(score.n), *cells, rate, end_section=True)
    return table
