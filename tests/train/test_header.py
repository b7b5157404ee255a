"""The first lines of a run."""

from dataclasses import replace
from pathlib import Path
from time import sleep

import pytest

from dbtm.core.errors import UsageError
from dbtm.recipes import recipe
from dbtm.tasks.own import Own
from dbtm.tasks.sudoku.task import Sudoku
from dbtm.train import display, loop
from dbtm.train.header import header, slow_line
from dbtm.train.loop import fit


def test_a_header_has_recipe_method_data_steps_and_folder():
    first, second = header(recipe("markov"), Path("runs/mine"))
    assert first == "markov by dbtm, 800 steps of 256 rows, into runs/mine"
    assert second == "  data: markov, generated; vocabulary 8, length 8"
    assert "5 minutes" in header(recipe("markov"), Path("x"), minutes=5)[0]


def test_a_header_tells_of_puzzles_that_are_generated_first():
    assert header(recipe("sudoku"), Path("x"))[2] == "  generating 400,000 puzzles before the first step"
    files = recipe("sudoku").on(Sudoku(clues=(), puzzle_files=("a.csv", "b.csv")))
    assert header(files, Path("x"))[1:] == ["  data: sudoku, a.csv, b.csv; vocabulary 12, length 180"]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_hears_of_a_run_before_its_data_is_read(tmp_path, monkeypatch, capsys, terminal):
    monkeypatch.setattr(loop, "watched", lambda: terminal)
    with pytest.raises(UsageError, match="no such data file"):
        fit(recipe("own").on(Own(data="nowhere.txt")), tmp_path)
    assert capsys.readouterr().err.startswith("own by dbtm") == terminal


def small():
    run = recipe("markov")
    train = replace(run.train, steps=2, batch=4, log_every=1, device="cpu")
    model, optim = replace(run.model, width=16, depth=1, heads=2), replace(run.optim, warmup=1)
    return replace(run, model=model, optim=optim, train=train)


def test_a_run_names_its_evaluation_and_shows_it_in_readable_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(display, "PATIENCE", 0.0)

    def evaluate(sampler, seed):
        sleep(0.2)
        return {"right_1": 0.25, "right_4": 0.5, "score": 0.5}

    fit(small(), tmp_path, evaluate=evaluate)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-3:] == ["evaluating", "step 2", "  right  1 NFE 0.2500  4 NFE 0.5000"]


def test_a_run_says_what_it_is_before_its_first_step(tmp_path, capsys):
    fit(small(), tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("markov by dbtm, 2 steps of 4 rows")
    assert "parameters, width 16, depth 1" in lines[2]
    assert lines[3].startswith("  device: cpu")
    assert lines[4].startswith("step 1/2")


def test_a_run_of_days_is_warned_of_in_its_header_and_one_of_hours_is_not(tmp_path, capsys):
    assert slow_line(3_600, 20_000, "text-tiny") == []
    assert slow_line(200_000, 20_000, "") == ["warning: 20,000 steps take at least 2 days here"]
    fit(small(), tmp_path, smaller="text-tiny", least=400_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[2] == "warning: 2 steps take at least 5 days here; for this machine try text-tiny"
