"""The table says what the rows say."""

import io
from dataclasses import replace

from rich.console import Console

from dbtm.evals import report
from dbtm.evals.sudoku import Row

ROW = Row(nfe=1, kappa=0.5, tuned=False, scorer="quality", solved=1, total=8, mean_nfe=1.0, seconds=2.0)
ROWS = [
    ROW,
    replace(ROW, nfe=4, solved=6, mean_nfe=2.0),
    replace(ROW, nfe=4, kappa=0.9, solved=7, mean_nfe=3.25),
]


def printed(rows, **options):
    console = Console(file=io.StringIO(), width=100, **options)
    console.print(report.threshold_table(rows))
    return console.file.getvalue()


def test_rows_are_budgets_and_columns_thresholds():
    text = printed(ROWS)
    lines = text.splitlines()
    assert [word in lines[1] for word in ("NFE", "kappa 0.5", "kappa 0.9")] == [True] * 3
    one, four = (next(line for line in lines if f" {nfe} │" in line) for nfe in (1, 4))
    assert one.count("12.50 (2.2-47.1)") == 2, "a budget of 1 stands in every column"
    assert four.index("75.00") < four.index("87.50")
    assert "3.25 NFE, 4/s" in text


def test_the_best_of_a_row_is_bold():
    text = printed(ROWS, force_terminal=True, color_system="standard")
    assert "\x1b[1m87.50" in text
    assert "\x1b[1m75.00" not in text


def test_a_tuned_column_names_each_threshold():
    text = printed([replace(row, tuned=True) for row in ROWS[:2]])
    assert "the checkpoint's kappa" in text
    assert "kappa 0.5, 2.00 NFE" in text


def test_budget_one_alone_is_a_table_too():
    assert "12.50" in printed([ROW])


def test_spread_commits_have_no_threshold_to_name():
    text = printed([replace(row, kappa=None, tuned=True, scorer="spread") for row in ROWS[:2]])
    assert "no threshold" in text
    assert "kappa" not in text
