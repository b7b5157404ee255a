"""Tables say what the results say."""

import io
from dataclasses import replace

from rich.console import Console

from dbtm.cli import tables
from dbtm.evals.estimates import Estimate
from dbtm.evals.likelihood import LikelihoodScore
from dbtm.evals.programs import FAILURES, ProgramScore
from dbtm.evals.sudoku import SudokuScore
from dbtm.evals.sweep.folder import Planned
from dbtm.evals.sweep.outcome import curves, matched, matched_entropies
from tests.evals.sweep.cells import row, rows_of, settings
from tests.evals.sweep.test_outcome import PLAN, ROWS


def score(nfe=1, kappa=0.5, **changes):
    one = SudokuScore({"nfe": nfe, "kappa": kappa, "scorer": "quality"}, 1, 8, mean_nfe=1.0, seconds=2.0, tuned=False)
    return replace(one, **changes)


SCORES = [score(), score(4, solved=6, mean_nfe=2.0), score(4, 0.9, solved=7, mean_nfe=3.25)]


def printed(table, **options):
    console = Console(file=io.StringIO(), width=200, **options)
    console.print(table)
    return console.file.getvalue()


def test_rows_are_budgets_and_columns_thresholds():
    text = printed(tables.threshold_table(SCORES))
    lines = text.splitlines()
    assert [word in lines[1] for word in ("NFE", "kappa 0.5", "kappa 0.9")] == [True] * 3
    one, four = (next(line for line in lines if f" {nfe} │" in line) for nfe in (1, 4))
    assert one.count("12.50 (2.2-47.1)") == 2, "a budget of 1 stands in every column"
    assert four.index("75.00") < four.index("87.50")
    assert "3.25 NFE, 4/s" in text


def test_the_best_of_a_row_is_bold():
    text = printed(tables.threshold_table(SCORES), force_terminal=True, color_system="standard")
    assert "\x1b[1m87.50" in text
    assert "\x1b[1m75.00" not in text


def test_a_tuned_column_names_each_threshold():
    text = printed(tables.threshold_table([replace(each, tuned=True) for each in SCORES[:2]]))
    assert "the checkpoint's kappa" in text
    assert "kappa 0.5, 2.00 NFE" in text


def test_budget_one_alone_is_a_table_too():
    assert "12.50" in printed(tables.threshold_table(SCORES[:1]))


def test_spread_commits_have_no_threshold_to_name():
    text = printed(tables.threshold_table([score(nfe, None, tuned=True) for nfe in (1, 4)]))
    assert "no threshold" in text
    assert "kappa" not in text


def test_other_methods_have_no_thresholds_and_perhaps_no_budget():
    text = printed(tables.threshold_table([score(settings={"nfe": 4, "order": "random"}, tuned=None)]))
    assert "% solved" in text
    assert "kappa" not in text
    text = printed(tables.threshold_table([score(settings={"top_p": 1.0}, tuned=None, mean_nfe=16.0)]))
    assert "1 per token │ 12.50" in text
    assert "16.00 NFE" in text


def test_programs_of_a_model_and_given_ones():
    failures = dict.fromkeys(FAILURES, 0) | {"wrong": 1, "parse": 2}
    given = ProgramScore(1, 4, failures, run_seconds=2.0)
    lines = printed(tables.programs_table([given])).splitlines()
    assert "NFE" not in lines[1]
    assert "1 of 4" in lines[3]
    assert "wrong 1, parse 2" in lines[3]
    made = replace(given, settings={"nfe": 4}, mean_nfe=3.5, sample_seconds=0.5)
    alone = replace(made, settings={"top_p": 1.0}, mean_nfe=99.0)
    lines = printed(tables.programs_table([made, alone])).splitlines()
    assert [cell.strip() for cell in lines[3].split("│")[1:6]] == ["4", "1 of 4", "25.00 (4.6-69.9)", "3.50", "8"]
    assert "1 per token" in lines[4]


def test_a_likelihood_says_whether_it_is_exact(capsys):
    one = LikelihoodScore(True, 1000, 8000, Estimate(1.0, 0.9, 1.1), seconds=1.0)
    tables.print_likelihood(one)
    text = capsys.readouterr().out
    assert "likelihood, exact: 1,000 examples, 8,000 tokens" in text
    assert "1.0000" in text
    assert "2.7183" in text, "perplexity"
    assert "1.4427" in text, "bits"
    assert "0.9000 - 1.1000" in text
    tables.print_likelihood(replace(one, exact=False))
    assert "likelihood, upper bound" in capsys.readouterr().out


def test_the_table_of_matched_entropies():
    sweeps = [curves("x", PLAN, ROWS)]
    entropies = matched_entropies(sweeps)
    text = printed(tables.frontier_table(matched(sweeps, entropies), entropies))
    assert "140.0" in text
    assert "4.00-4.50" in text
    assert "best, paper" in text
    assert "best, near real" in text
    assert "100.0 (4.00)" in text
    assert "200.0 (4.50)" in text


def test_a_study_shows_what_there_is():
    cells = [
        Planned("iterate", "4", "iterate", {"sampler": "iterate", "nfe": 4}),
        Planned("iterate", "4", "renoise + remap", settings(4, kappa=0.9)),
        Planned("iterate", "8", "iterate", {"sampler": "iterate", "nfe": 8}),
    ]
    rows = ROWS | rows_of(row({"sampler": "iterate", "nfe": 4}, 1.0, 9.0))
    lines = printed(tables.study_table("iterate", cells, rows)).splitlines()
    assert "1.0 (9.00)" in next(line for line in lines if line.startswith("│   4"))
    assert "200.0 (4.50)" in next(line for line in lines if line.startswith("│   4"))
    assert next(line for line in lines if line.startswith("│   8")).count("-") == 2
