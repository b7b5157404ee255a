"""`dbtm eval gsm8k`: how many word problems a model's programs solve, run in the sandbox; or given programs."""

import dataclasses
import json
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import common, files
from dbtm.cli.solve import check_scorer
from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.progress import Progress

    from dbtm.evals.gsm8k import Result, Row
    from dbtm.sampling import Sampler
    from dbtm.sandbox import Sandbox
    from dbtm.tasks.gsm8k.data import Example

SYNTHETIC = 500
OF_A_MODEL = ("data", "nfe", "kappa", "scorer", "seed", "tokenizer", "batch", "device")  # options


def gsm8k(
    context: typer.Context,
    checkpoint: Annotated[str | None, typer.Argument(help="A checkpoint folder, or a run.")] = None,
    nfe: Annotated[str, typer.Option(help="Budgets of network evaluations.")] = "1,2,4,8,16,32,64",
    data: Annotated[
        Path | None, typer.Option(help="Problems: JSON lines with question and answer (default: held-out synthetic).")
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", help=f"Only the first N problems (default: all; synthetic: {SYNTHETIC}).")
    ] = None,
    oracle: Annotated[
        Path | None, typer.Option(help="Run the programs of this file (JSON lines with code and answer) instead.")
    ] = None,
    kappa: Annotated[float | None, typer.Option(help="Commit threshold (default: tuned for the budget).")] = None,
    scorer: Annotated[
        str | None, typer.Option(help="confidence, quality, spread or none (default: the checkpoint's).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the noise, and of synthetic problems.")] = 0,
    tokenizer: Annotated[str | None, typer.Option(help="Where the tokenizer is now, if not where it was.")] = None,
    batch: Annotated[int | None, typer.Option(help="Problems side by side (default: what fits).")] = None,
    workers: Annotated[int | None, typer.Option(help="Programs run side by side (default: one a core).")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write rows, model, data and machine.")] = None,
    jsonl_file: Annotated[Path | None, typer.Option("--jsonl", help="Write every problem with its program.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Accuracy over budgets (NFE), with intervals and the kinds of failure."""
    if (checkpoint is None) == (oracle is None):
        raise UsageError("give either a CHECKPOINT or --oracle FILE, not both and not neither")
    if oracle is not None:
        common.refuse(context, OF_A_MODEL, "--oracle takes programs and answers from its file")
    for option, value, least in (("--n", n, 1), ("--batch", batch, 1), ("--workers", workers, 1), ("--seed", seed, 0)):
        common.in_range(option, value, least)
    common.check_kappa(kappa)
    budgets = common.numbers("--nfe", nfe, int, lambda value: value >= 1, "whole numbers from 1 on, as 1,2,4")
    check_scorer(scorer)
    files.check_all([("--json", json_file), ("--jsonl", jsonl_file)], reads=[("--data", data), ("--oracle", oracle)])

    from dbtm.sandbox import Sandbox

    chosen: dict[str, Any] = {"kappa": kappa, "scorer": scorer}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    sampler = None if checkpoint is None else _load(checkpoint, device, batch, tokenizer)
    examples, about = _problems(oracle or data, "code" if oracle else "question", n, seed)
    rows: list[Row] = []
    lines: list[dict[str, Any]] = []
    with Sandbox(workers=workers) as sandbox, common.progress_bar() as progress:
        sandbox.warn()
        if sampler is None or checkpoint is None:
            model, found = None, _given(examples, sandbox, progress)
        else:
            model, about = common.model(sampler, checkpoint), {**about, "seed": seed}
            found = _sweep(sampler, examples, sandbox, budgets, seed, chosen, progress)
        for row, results in found:  # what is done is on the disk, whatever becomes of the next budget
            rows.append(row)
            lines += _lines(row, results)
            if json_file is not None:
                _write_json(json_file, rows, model, about, sampler, sandbox)
            if jsonl_file is not None:
                files.write(jsonl_file, "".join(json.dumps(line) + "\n" for line in lines))
        means = sandbox.means
    _print(rows, means)
    for path in (json_file, jsonl_file):
        if path is not None:
            print(path)


def _load(checkpoint: str, device: str, batch: int | None, tokenizer: str | None) -> "Sampler":
    """The sampler of a checkpoint that was trained on this task; complaints about its tokenizer come at once."""
    from dbtm.evals.gsm8k import gsm8k_task
    from dbtm.loading import load

    sampler = load(checkpoint, device)
    task = gsm8k_task(sampler.task)
    if tokenizer is not None:
        task = sampler.task = dataclasses.replace(task, tokenizer=tokenizer)
    room = 1 << (30 if sampler.device.type == "cuda" else 26)  # numbers of one batch of noise, (B, L, V)
    sampler.batch = batch or max(1, room // (task.length * task.vocab))
    _ = task.layout
    return sampler


def _problems(path: Path | None, field: str, n: int | None, seed: int) -> "tuple[list[Example], dict[str, Any]]":
    """The problems, and what the JSON says about them."""
    from dbtm.tasks.gsm8k.data import read
    from dbtm.tasks.gsm8k.synthetic import held_out

    if path is None:
        made = held_out(n or SYNTHETIC, seed)
        return made, {"synthetic": "held out", "n": len(made)}
    from dbtm.core.digest import sha256

    found = list(islice(read(path, field, "answer"), n))
    return found, {"file": path.name, "sha256": sha256(path), "n": len(found)}


def _given(examples: "list[Example]", sandbox: "Sandbox", progress: "Progress") -> "Iterator[tuple[Row, list[Result]]]":
    from dbtm.evals.gsm8k import given_programs

    bar = progress.add_task("running programs", total=len(examples))
    yield given_programs(examples, sandbox, partial(common.show, progress, bar))


def _sweep(
    sampler: "Sampler",
    examples: "list[Example]",
    sandbox: "Sandbox",
    budgets: list[int],
    seed: int,
    chosen: dict[str, Any],
    progress: "Progress",
) -> "Iterator[tuple[Row, list[Result]]]":
    """All budgets, under one bar that counts every program twice: generated, and run."""
    from dbtm.evals.gsm8k import sweep

    each = 2 * len(examples)
    bar = progress.add_task(f"{len(examples)} problems", total=len(budgets) * each)
    finished = 0

    def show(done: int) -> None:
        common.show(progress, bar, finished + done)

    for pair in sweep(sampler, examples, sandbox, budgets, seed=seed, progress=show, **chosen):
        finished += each
        yield pair


def _print(rows: "Sequence[Row]", means: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    from dbtm.evals.intervals import wilson

    sampled = rows[0].nfe is not None
    table = Table()
    for name in [
        *(["NFE"] if sampled else []),
        "correct",
        "%",
        *(["NFE used", "sampled/s"] if sampled else []),
        "run/s",
    ]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("failures")
    for row in rows:
        low, high = wilson(row.correct, row.total)
        cells = [
            f"{row.correct} of {row.total}",
            f"{100 * row.correct / row.total:.2f} ({100 * low:.1f}-{100 * high:.1f})",
            f"{row.total / row.run_seconds:.3g}",
            ", ".join(f"{kind} {count}" for kind, count in row.failures.items() if count) or "none",
        ]
        if row.nfe is not None and row.sample_seconds is not None:
            cells = [
                str(row.nfe),
                *cells[:2],
                f"{row.mean_nfe:.2f}",
                f"{row.total / row.sample_seconds:.3g}",
                *cells[2:],
            ]
        table.add_row(*cells)
    common.print_whole(table)
    walls = ", ".join(means) or "the allow-list alone"
    Console(highlight=False).print(f"95 % intervals; sandbox: {walls}", style="dim")


def _lines(row: "Row", results: "Sequence[Result]") -> "Iterator[dict[str, Any]]":
    """Every problem of a row, as it stands in the per-problem file."""
    budget = {} if row.nfe is None else {"nfe": row.nfe}
    return ({"index": i, **budget, **result.document()} for i, result in enumerate(results))


def _write_json(
    path: Path,
    rows: "Sequence[Row]",
    model: dict[str, Any] | None,
    about: dict[str, Any],
    sampler: "Sampler | None",
    sandbox: "Sandbox",
) -> None:
    """One document: the rows of a model, or, for given programs, the counts themselves."""
    import torch

    from dbtm.evals.provenance import made

    device = torch.device("cpu") if sampler is None else sampler.device
    found = rows[0].document() if model is None else {"rows": [row.document() for row in rows], "model": model}
    whole = found | {"data": about, **made(device), "sandbox": sandbox.means, "sandbox_without": sandbox.missing}
    files.write(path, json.dumps(whole, indent=2) + "\n")
