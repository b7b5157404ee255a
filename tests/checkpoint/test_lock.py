"""One trainer per run: the second is refused in a line, and a killed one leaves nothing that is in the way."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.lock import NAME, RunLock
from dbtm.core.errors import UsageError

HOLD = "import sys, time; from pathlib import Path; from dbtm.checkpoint.lock import RunLock; lock = RunLock(Path(sys.argv[1])).take(); print('held', flush=True); time.sleep(60)"  # noqa: E501


def holder(run):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_is_refused_by_name(tmp_path):
    process = holder(tmp_path)
    try:
        with pytest.raises(UsageError, match=rf"being trained by another process \(process {process.pid} on '"):
            RunLock(tmp_path).take()
        with pytest.raises(UsageError, match="being trained"):
            RunLock(tmp_path).refuse_if_held()
    finally:
        process.kill()
        process.wait()


def test_death_releases_it(tmp_path):
    process = holder(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    lock = RunLock(tmp_path).take()
    assert json.loads((tmp_path / NAME).read_text())["pid"] == os.getpid()
    lock.release()


def test_a_look_leaves_no_trace_in_a_new_folder(tmp_path):
    RunLock(tmp_path / "new").refuse_if_held()
    assert not (tmp_path / "new").exists()


def test_a_damaged_note_of_the_holder_is_no_reason_to_fail(tmp_path):
    process = holder(tmp_path)
    try:
        (tmp_path / NAME).write_text("\x1b[2J nonsense")
        with pytest.raises(UsageError, match="another process: wait"):
            RunLock(tmp_path).take()
    finally:
        process.kill()
        process.wait()


def test_pruning_spares_what_living_processes_write(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    host = checkpoint._own_name().rpartition("-")[0]
    alive, dead = (tmp_path / f".writing-step-00000001-{host}-{pid}" for pid in (process.pid, 2**22 - 7))
    for path in (alive, dead):
        path.mkdir()
    try:
        checkpoint.prune(tmp_path, 2)
        assert alive.exists()
        assert not dead.exists()
    finally:
        process.kill()
        process.wait()
    deadline = time.monotonic() + 10
    while alive.exists() and time.monotonic() < deadline:
        checkpoint.prune(tmp_path, 2)
    assert not alive.exists()


def test_milestones_stay(tmp_path):
    for step in range(1, 8):
        checkpoint.write(tmp_path / f"step-{step:08d}", {}, {"config": "{}"})
    checkpoint.prune(tmp_path, 2, milestones=(2, 4))
    assert [checkpoint.step_of(folder) for folder in checkpoint.all_in(tmp_path)] == [2, 4, 6, 7]
