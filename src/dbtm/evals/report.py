"""What an evaluation of Sudoku leaves behind: a table to look at, and a JSON that says how to get the same numbers."""

from collections.abc import Sequence
from typing import Any

import torch
from rich.table import Table

from dbtm.evals.intervals import wilson
from dbtm.evals.provenance import made
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
    if row.kappa is None:
        return "no threshold"
    return "the checkpoint's kappa" if row.tuned else f"kappa {row.kappa:g}"


def _cell(row: Row, best: bool) -> str:
    low, high = wilson(row.solved, row.total)
    rate = f"{row.solved / row.total:.2%}".removesuffix("%")
    rate = f"[bold]{rate}[/bold]" if best else rate
    kappa = f"kappa {row.kappa:g}, " if row.kappa is not None and row.tuned and row.nfe > 1 else ""
    return (
        f"{rate} ({100 * low:.1f}-{100 * high:.1f})\n"
        f"[dim]{kappa}{row.mean_nfe:.2f} NFE, {row.total / row.seconds:.3g}/s[/dim]"
    )


def document(rows: Sequence[Row], model: dict[str, Any], data: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The whole JSON of an evaluation."""
    return {"rows": [row.document() for row in rows], "model": model, "data": data, **made(device)}
