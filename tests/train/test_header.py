"""The first lines of a run."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dbtm.core.errors import UsageError
from dbtm.recipes import recipe
from dbtm.train.header import header, said_if_slow
from dbtm.train.loop import fit


def test_a_header_has_recipe_method_data_steps_and_folder():
    first, second = header(recipe("markov"), Path("runs/mine"))
    assert first == "markov by dbtm, 800 steps of 256 rows, into runs/mine"
    assert second == "  data: markov, made as it goes; vocabulary 8, length 8"
    assert "5 minutes" in header(recipe("markov"), Path("x"), minutes=5)[0]


def test_a_mistake_that_is_found_soon_is_a_line_of_its_own(capsys):
    with pytest.raises(UsageError), said_if_slow(["a run"], within=60):
        raise UsageError("wrong")
    assert capsys.readouterr().err == ""


def test_slow_work_is_announced_before_it_is_done(capsys):
    with said_if_slow(["a run"], within=0.0) as said:
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()
        assert capsys.readouterr().err == "a run\n"
    assert said()


def test_a_run_says_what_it_is_before_its_first_step(tmp_path, capsys):
    run = recipe("markov")
    train = replace(run.train, steps=2, batch=4, log_every=1, device="cpu")
    small = replace(run, model=replace(run.model, width=16, depth=1, heads=2), train=train)
    small = replace(small, optim=replace(run.optim, warmup=1))
    fit(small, tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("markov by dbtm, 2 steps of 4 rows")
    assert "parameters, width 16, depth 1" in lines[2]
    assert lines[3].startswith("  device: cpu")
    assert lines[4].startswith("step 1/2")
