"""The command in this process, and a checkpoint that is quick to load and never right."""

import sys

import pytest
import torch

from dbtm.cli import main
from dbtm.config import dumps, override
from dbtm.nn import TransportMap
from dbtm.recipes import recipe
from dbtm.train import checkpoint


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
    config = override(recipe("sudoku-mini"), ["model.width=16", "model.depth=1", "model.heads=2", "task.pool=50"])
    torch.manual_seed(0)
    model = TransportMap(config.model)
    with torch.no_grad():
        for parameter in model.parameters():  # a fresh head is zero: every answer would be the same
            parameter += 0.3 * torch.randn_like(parameter)
    folder = tmp_path_factory.mktemp("untrained") / "step-00000001"
    return checkpoint.write(folder, {"ema": model.state_dict()}, {"config": dumps(config)})
