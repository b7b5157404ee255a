"""`dbtm eval own`: generated rows of a model of your own data, beside the held-out rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import common, files, tables
from dbtm.cli.common import number
from dbtm.cli.console import open_console, say
from dbtm.cli.options import Batch, Budgets, Checkpoint, Device, Json, Seed, takes_sampler_options

if TYPE_CHECKING:
    from dbtm.evals.own import RowsScore
    from dbtm.service.evaluation.own_rows import OwnEvaluation


@takes_sampler_options("nfe")
def own(
    checkpoint: Checkpoint,
    nfe: Budgets = None,
    n: Annotated[int, typer.Option("--n", help="Samples per budget, and largest number of held-out rows.")] = 1000,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Your own metric, FILE.py:FUNCTION. The file is run; the function gets a list of rows and returns a "
            "number, one per row, or a dictionary of these."
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="New path of the rows, if they have moved.")] = None,
    seed: Seed = 0,
    json_file: Json = None,
    batch: Batch = None,
    device: Device = "auto",
    *,
    options: dict[str, Any],
) -> None:
    """Your metric, entropy and copies of training rows over budgets (NFE); cross-entropy of held-out rows."""
    common.in_range("--n", n, 1)
    common.in_range("--batch", batch, 1)
    budgets = tables.budgets_of(nfe)
    files.check_all([("--json", json_file)], reads=[("--data", data)])

    from dbtm.service.evaluation.own_rows import OwnEvaluationRequest, evaluate_own

    request = OwnEvaluationRequest(
        checkpoint=checkpoint,
        n=n,
        data=data,
        metric=metric,
        seed=seed,
        budgets=budgets,
        options=options,
        batch=batch,
        device=device,
    )
    with common.shown_progress() as progress:
        *_, result = evaluate_own(request, progress)
    tables.write_json(json_file, result.document())
    _print(result)
    tables.print_paths(json_file)


def _print(result: "OwnEvaluation") -> None:
    if result.held_out is not None:
        value, low, high = result.held_out.nats_per_token
        say(f"held out: {value:.4f} nats per token ({low:.4f}-{high:.4f}; {result.held_out.kind}), "
            f"{result.held_out.n:,} rows")  # fmt: skip
    if result.validation is not None:
        say(f"validation loss (the method's own objective on held-out rows): {result.validation:.4f}")
    common.print_whole(_table(result.scores))
    open_console().print("95 % intervals over rows; copies: rows that occur in the training data", style="dim")


def _table(scores: "tuple[RowsScore, ...]") -> Any:
    from rich.markup import escape
    from rich.table import Table

    table, names = Table(), list(scores[-1].metric)
    for name in ("", "n", *map(escape, names), "entropy", "copies", "different\nrows", "rows/s"):
        table.add_column(name, justify="right" if name else "left")
    for score in scores:
        budget = score.settings.get("nfe")
        kind = score.kind if score.kind != "samples" else "samples" if budget is None else f"{budget} NFE"
        rate = "" if not score.seconds else number(score.n / score.seconds)
        values = [score.metric[name] for name in names]
        cells = [tables.interval(each, 4) for each in (*values, score.entropy, score.copies)]
        table.add_row(kind, str(score.n), *cells, f"{score.distinct:.1%}", rate, end_section=True)
    return table
