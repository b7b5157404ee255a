"""`dbtm data sudoku`: the file it writes, and what it refuses."""

import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from dbtm.cli.data import app
from dbtm.core.errors import UsageError
from dbtm.tasks.sudoku import csvfile
from dbtm.tasks.sudoku.generate import generate


def run(*arguments):
    return CliRunner().invoke(app, ["sudoku", *map(str, arguments)])


@pytest.mark.parametrize(("clues", "box", "asked"), [("30", 3, 30), ("26-36", 3, (26, 36)), ("6", 2, 6)])
def test_the_file_holds_the_puzzles_of_the_seed(tmp_path, clues, box, asked):
    out = tmp_path / "a.csv"
    result = run("--clues", clues, "--n", 40, "--seed", 5, "--box", box, "--out", out)
    assert result.exit_code == 0, result.exception
    assert str(out) in result.stdout
    assert np.array_equal(csvfile.read(out), generate(asked, 40, 5, box=box))


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    out = tmp_path / "a.csv"
    out.write_text("mine")
    result = run("--n", 3, "--out", out)
    assert isinstance(result.exception, UsageError)
    assert "--force" in str(result.exception)
    assert out.read_text() == "mine"
    assert run("--n", 3, "--out", out, "--force").exit_code == 0
    assert len(csvfile.read(out)[0]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clues", "many"], "--clues 'many' is neither a count"),
        (["--clues", "-30"], "neither"),
        (["--clues", "12"], "12 clues"),
        (["--n", "0"], "--n 0"),
        (["--seed", "-1"], "seed -1"),
        (["--box", "5"], "box size 5"),
        (["--workers", "-2"], "--workers -2"),
    ],
)
def test_bad_values_are_refused(tmp_path, arguments, message):
    result = run("--out", tmp_path / "a.csv", *arguments)
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written_are_refused(tmp_path):
    assert "is a folder" in str(run("--out", tmp_path).exception)
    assert "there is no folder" in str(run("--out", tmp_path / "none" / "a.csv").exception)


def test_help_loads_nothing_heavy():
    code = "import sys, dbtm.cli.data; print({'numba', 'numpy', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
