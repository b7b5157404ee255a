"""The command in this process, and a checkpoint that is quick to load and never right."""

import sys

import pytest

from dbtm.cli import main
from tests.evals.tiny import mini_sudoku, write_checkpoint


@pytest.fixture
def command(capsys, monkeypatch):
    """(exit code, stdout, stderr) of `dbtm WORDS`."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dbtm", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return (int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def untrained(tmp_path_factory):
    """The folder of a 4 x 4 Sudoku model that has learned nothing, with a pool small enough to make at once."""
    return write_checkpoint(mini_sudoku(), tmp_path_factory.mktemp("untrained"))
