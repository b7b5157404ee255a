"""A map that is trained while one waits: in a process of its own, which can be stopped and leaves nothing behind."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbtm.service.training import TrainRequest, train
from dbtm.studio import simplex
from dbtm.studio.simplex import Learning
from tests.processes import PATIENCE, wait_until


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


def test_stopping_does_not_wait_for_a_measurement(learning, monkeypatch):
    measuring, go = threading.Event(), threading.Event()

    def slow(*_):
        measuring.set()
        assert go.wait(PATIENCE)
        return {"p": [1.0]}

    monkeypatch.setattr(simplex, "_load", lambda folder: None)
    monkeypatch.setattr(simplex, "learned", slow)
    learning.folder = tempfile.TemporaryDirectory()
    learning.process = SimpleNamespace(is_alive=lambda: False, exitcode=0)
    told = []
    asking = threading.Thread(target=lambda: told.append(learning.state()), daemon=True)
    asking.start()
    assert measuring.wait(PATIENCE)
    stopping = threading.Thread(target=learning.stop, daemon=True)
    stopping.start()
    stopping.join(10)
    stopped = not stopping.is_alive()
    go.set()
    asking.join(PATIENCE)
    assert stopped
    assert told == [{"state": "idle"}], "what was stopped is not shown"
    assert learning.state() == {"state": "idle"}


PARENT = """
import os
from dbtm.studio.simplex import Learning

if __name__ == "__main__":
    learning = Learning()
    learning.start(0)
    print(learning.process.pid, learning.folder.name, flush=True)
    input()
    os._exit(1)
"""


def is_running(pid: int) -> bool:
    """Whether a process works: one that has ended may still be listed until someone asks how."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    listed = Path(f"/proc/{pid}/stat")
    return not listed.exists() or listed.read_text().rpartition(")")[2].split()[0] != "Z"


def test_training_ends_with_a_studio_that_is_killed(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    words = [sys.executable, str(tmp_path / "parent.py")]
    parent = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, _, folder = parent.stdout.readline().strip().partition(" ")
    metrics = Path(folder) / "metrics.jsonl"
    assert wait_until(metrics.exists), "it has begun to train"
    parent.kill()
    parent.wait()
    assert wait_until(lambda: not is_running(int(pid)))
    assert not any(Path(folder).glob("step-*")), "it trained to its end"
    shutil.rmtree(folder)
