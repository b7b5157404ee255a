"""`dbtm eval gsm8k`: accuracy of a model's programs, or of given ones, on word problems; run in the sandbox."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import common, files, tables
from dbtm.cli.console import open_console
from dbtm.cli.options import SAMPLER, Batch, Budgets, Device, Json, takes_sampler_options
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_SEED, MOST_WORKERS

if TYPE_CHECKING:
    from dbtm.service.evaluation.programs import ProgramsEvaluation

OF_A_MODEL = ("data", *SAMPLER, "seed", "tokenizer", "batch", "device")  # options


@takes_sampler_options("nfe")
def gsm8k(
    context: typer.Context,
    checkpoint: Annotated[str | None, typer.Argument(help="A checkpoint folder, or a run.")] = None,
    nfe: Budgets = None,
    data: Annotated[
        Path | None, typer.Option(help="Problems: JSON lines with question and answer (default: held-out synthetic).")
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="Only the first N problems (default: all; synthetic: 500).")
    ] = None,
    oracle: Annotated[
        Path | None, typer.Option(help="Run the programs of this file (JSON lines with code and answer) instead.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sampler, and of synthetic problems.")] = 0,
    tokenizer: Annotated[str | None, typer.Option(help="New path of the tokenizer, if it has moved.")] = None,
    batch: Batch = None,
    workers: Annotated[int | None, typer.Option(help="Programs run in parallel (default: one per core).")] = None,
    json_file: Json = None,
    jsonl_file: Annotated[Path | None, typer.Option("--jsonl", help="Write every problem with its program.")] = None,
    device: Device = "auto",
    *,
    options: dict[str, Any],
) -> None:
    """Accuracy over budgets (NFE), with intervals and the kinds of failure."""
    if (checkpoint is None) == (oracle is None):
        raise UsageError("give either a CHECKPOINT or --oracle FILE")
    if oracle is not None:
        common.refuse(context, OF_A_MODEL, "--oracle takes programs and answers from its file")
    for option, value in (("--n", n), ("--batch", batch)):
        common.in_range(option, value, 1)
    common.in_range("--workers", workers, 1, MOST_WORKERS)
    common.in_range("--seed", seed, 0, MOST_SEED)
    budgets = tables.budgets_of(nfe)
    files.check_all([("--json", json_file), ("--jsonl", jsonl_file)], reads=[("--data", data), ("--oracle", oracle)])

    from dbtm.service.evaluation.programs import ProgramsEvaluationRequest, evaluate_programs

    request = ProgramsEvaluationRequest(
        checkpoint=checkpoint,
        programs=oracle,
        data=data,
        n=n,
        seed=seed,
        budgets=budgets,
        options=options,
        tokenizer=tokenizer,
        batch=batch,
        workers=workers,
        device=device,
    )
    with common.shown_progress() as progress:
        for result in evaluate_programs(request, progress):
            tables.write_json(json_file, result.document())  # finished budgets stay if a later one fails
            if jsonl_file is not None:
                files.write_text(jsonl_file, "".join(json.dumps(line) + "\n" for line in result.lines()))
    _print(result)
    tables.print_paths(json_file, jsonl_file)


def _print(result: "ProgramsEvaluation") -> None:

    common.print_whole(tables.programs_table(result.scores))
    confined = ", ".join(result.sandbox) or "the allow-list alone"
    open_console().print(f"95 % intervals; sandbox: {confined}", style="dim")
