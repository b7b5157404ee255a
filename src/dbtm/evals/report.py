"""What an evaluation leaves behind: a table to look at, and a JSON that says how to get the same numbers again."""

import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from dbtm.evals.intervals import wilson
from dbtm.evals.sudoku import Row


def threshold_table(rows: Sequence[Row]) -> Table:
    """The paper's threshold sweep (tab:sudoku-threshold-sweep): rows NFE, columns kappa, best of a row in bold.

    A cell holds the exact-solve rate with its 95 % interval, and below it the evaluations used and the throughput.
    """
    columns = list(dict.fromkeys(_column(row) for row in rows if row.nfe > 1)) or ["any kappa"]
    table = Table()
    table.add_column("NFE", justify="right")
    for column in columns:
        table.add_column(column, justify="right")
    for nfe in dict.fromkeys(row.nfe for row in rows):
        of_budget = {_column(row): row for row in rows if row.nfe == nfe}
        best = max(row.solved for row in of_budget.values())
        several = len(of_budget) > 1
        cells = [_cell(row, several and row.solved == best) for row in of_budget.values()]
        # A budget of 1 was evaluated once, because kappa makes no difference there: it stands for all columns.
        table.add_row(str(nfe), *(cells * len(columns) if nfe == 1 else cells), end_section=True)
    return table


def _column(row: Row) -> str:
    return "tuned kappa" if row.tuned else f"kappa {row.kappa:g}"


def _cell(row: Row, best: bool) -> str:
    low, high = wilson(row.solved, row.total)
    rate = f"{row.solved / row.total:.2%}".removesuffix("%")
    rate = f"[bold]{rate}[/bold]" if best else rate
    kappa = f"kappa {row.kappa:g}, " if row.tuned and row.nfe > 1 else ""
    return (
        f"{rate} ({100 * low:.1f}-{100 * high:.1f})\n"
        f"[dim]{kappa}{row.mean_nfe:.2f} NFE, {row.total / row.seconds:.3g}/s[/dim]"
    )


def document(rows: Sequence[Row], model: dict[str, Any], data: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The whole JSON of an evaluation."""
    return {
        "rows": [row.document() for row in rows],
        "model": model,
        "data": data,
        "hardware": hardware(device),
        "torch": torch.__version__,
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def hardware(device: torch.device) -> str:
    """The processor that did the work, in words."""
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    return f"cpu: {_processor()}, {torch.get_num_threads()} of {os.cpu_count()} cores"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def commit() -> str | None:
    """The commit of the code that runs, with `-dirty` where it has changes; None outside its own repository."""
    package = Path(__file__).parents[1] / "__init__.py"

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(package.parent), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        # An installed copy may lie in some other project's repository, whose commit would mean nothing here.
        git("ls-files", "--error-unmatch", package.name)
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*")
    except (OSError, subprocess.SubprocessError):
        return None
