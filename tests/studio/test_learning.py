"""A map that is trained while one waits: in a process of its own, which can be stopped and leaves nothing behind."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbtm.service.training import TrainRequest, train
from dbtm.studio.simplex import Learning


@pytest.fixture
def learning():
    made = Learning()
    yield made
    made.stop()


def test_it_trains_until_it_is_stopped(learning):
    assert learning.state() == {"state": "idle"}
    learning.start(0)
    process, folder = learning.process, Path(learning.folder.name)
    told = learning.state()
    assert told["state"] == "training"
    assert 0 <= told["step"] < told["steps"]
    learning.start(0)
    assert learning.process is process, "the same is not begun twice"
    learning.stop()
    assert process.exitcode is not None
    assert not folder.exists()
    assert learning.state() == {"state": "idle"}


def test_what_it_has_learned_is_measured_once(learning):
    learning.folder = tempfile.TemporaryDirectory()
    train(TrainRequest(recipe="simplex", changes=("train.steps=3", "optim.warmup=1"), out=Path(learning.folder.name)))
    learning.process = SimpleNamespace(is_alive=lambda: False, exitcode=0)
    told = learning.state()
    assert (told["state"], told["p"]) == ("ready", [0.5, 0.3, 0.2])
    assert len(told["basins"]) == told["cells"] ** 2
    assert 0 <= told["agreement"] <= 1
    assert learning.state() == told


def test_a_run_that_failed_says_so(learning):
    learning.folder = tempfile.TemporaryDirectory()
    learning.process = SimpleNamespace(is_alive=lambda: False, exitcode=1)
    assert learning.state()["state"] == "failed"
    assert learning.state() == {"state": "idle"}
