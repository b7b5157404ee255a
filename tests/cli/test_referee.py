"""`dbtm referee`: words to requests, results to tables."""

import re

import pytest
from typer.testing import CliRunner

from dbtm.cli import app
from dbtm.core.errors import UsageError

SMALL = ["model.width=16", "model.depth=1", "model.heads=2", "train.batch=8", "task.vocab=4", "task.length=4"]
BRIEF = ["--flops", "1e7", "--seeds", "1", "--nfe", "1,2", "--n", "20", "--jobs", "0", "--device", "cpu"]


def run(*words):
    sets = [word for change in SMALL for word in ("--set", change)]
    return CliRunner().invoke(app, ["referee", *map(str, words), *(sets if "--flops" in words else [])])


def test_a_comparison_is_printed_and_drawn_again_without_running(tmp_path):
    result = run("markov", "--out", tmp_path / "a", "--methods", "mdlm,ar", *BRIEF)
    assert result.exit_code == 0, result.output
    assert "total variation of adjacent pairs: lower is better" in result.output
    assert re.search(r"at 4 NFE", result.output), "the own count of a method without a budget"
    (tmp_path / "a" / "referee.html").unlink()
    again = run("markov", "--out", tmp_path / "a", "--report-only")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "a" / "referee.html").is_file()
    merged = run("markov", "--out", tmp_path / "b", "--merge", tmp_path / "a")
    assert merged.exit_code == 0, merged.output
    assert (tmp_path / "b" / "referee.json").read_text() == (tmp_path / "a" / "referee.json").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chess"], "no task 'chess'"),
        (["markov", "--flops", "1", "--minutes", "1"], "either training FLOPs or minutes"),
        (["markov", "--flops", "-1"], "must be positive"),
        (["markov", "--nfe", "0"], "whole numbers of at least 1"),
        (["markov", "--methods", "mdml", "--flops", "1e7"], "did you mean 'mdlm'"),
        (["markov", "--report-only", "--seeds", "2"], "leave --seeds out"),
        (["markov", "--report-only"], "is not a comparison"),
        (["text", "--flops", "1e7", "--methods", "mdlm"], "task"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing_behind(tmp_path, words, said):
    result = run(*words, "--out", tmp_path / "a")
    assert isinstance(result.exception, UsageError), result.output
    assert said in str(result.exception)
    assert not (tmp_path / "a").exists()
