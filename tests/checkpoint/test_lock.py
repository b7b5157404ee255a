"""One trainer per run: the second is refused in a line, and a killed one leaves nothing that is in the way."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint import lock
from dbtm.checkpoint.lock import HELD, NAME, STALE, RunLock
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
    host = checkpoint.own_name().rpartition("-")[0]
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


# -- where the system has no locks -------------------------------------------------------------------------------------

WITHOUT = {
    "a file system without flock": "import errno, fcntl\ndef flock(*_): raise OSError(errno.ENOLCK, 'No locks available')\nfcntl.flock = flock\n",  # noqa: E501
    "no fcntl": "import sys\nsys.modules['fcntl'] = sys.modules['msvcrt'] = None\n",
}


@pytest.fixture(params=WITHOUT)
def no_locks(request, monkeypatch):
    """This process and, by the lines that are returned, others have no locks."""
    if request.param == "no fcntl":
        for name in ("fcntl", "msvcrt"):
            monkeypatch.setitem(sys.modules, name, None)
    else:
        monkeypatch.setattr("fcntl.flock", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOLCK, "No locks")))
    return WITHOUT[request.param]


def start_holder(run, lines):
    process = subprocess.Popen([sys.executable, "-c", lines + HOLD, str(run)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_without_locks_the_second_is_refused_too(tmp_path, no_locks, capsys):
    process = start_holder(tmp_path, no_locks)
    try:
        with pytest.raises(UsageError, match=rf"being trained by another process \(process {process.pid} on '"):
            RunLock(tmp_path).take()
        assert capsys.readouterr().err.count("warning: ") == 1, "never without a word"
        with pytest.raises(UsageError, match="being trained"):
            RunLock(tmp_path).refuse_if_held()
        assert capsys.readouterr().err == ""
    finally:
        process.kill()
        process.wait()


def test_without_locks_death_releases_it(tmp_path, no_locks):
    process = start_holder(tmp_path, no_locks)
    process.kill()
    process.wait()
    held = RunLock(tmp_path).take()
    assert json.loads((tmp_path / HELD).read_text())["pid"] == os.getpid()
    held.check()
    held.release()
    assert os.listdir(tmp_path) == [NAME]


@pytest.mark.parametrize(
    "note", ["", "\x1b[2J", '{"pid": 1}', '{"pid": 1, "host": "elsewhere", "among": "another machine"}']
)
def test_a_holder_elsewhere_is_dead_when_it_stops_beating(tmp_path, no_locks, note):
    (tmp_path / HELD).write_text(note)
    with pytest.raises(UsageError, match="being trained"):
        RunLock(tmp_path).take()
    long_ago = time.time() - STALE - 5
    os.utime(tmp_path / HELD, (long_ago, long_ago))
    RunLock(tmp_path).take().release()
    assert os.listdir(tmp_path) == [NAME]


def test_a_holder_beats_as_long_as_it_lives(tmp_path, no_locks, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.01)
    held = RunLock(tmp_path).take()
    os.utime(tmp_path / HELD, (0, 0))
    deadline = time.monotonic() + 60
    while (tmp_path / HELD).stat().st_mtime == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (tmp_path / HELD).stat().st_mtime > 0
    held.release()


def test_who_stood_still_for_too_long_writes_nothing_more(tmp_path, no_locks):
    """Suspended, and taken for dead: the first holder must not write beside the second."""
    first = RunLock(tmp_path).take()
    os.utime(tmp_path / HELD, (0, 0))
    second = RunLock(tmp_path).take()
    second.check()
    with pytest.raises(UsageError, match="taken over by another process"):
        first.check()
    first.release()
    assert (tmp_path / HELD).exists(), "the second's"
    second.check()
    second.release()


def test_what_another_took_in_between_is_put_back(tmp_path, no_locks):
    """Two find the same dead holder; the slower one must not remove the faster one's file."""
    (tmp_path / HELD).write_text("dead")
    slower = lock._Held(tmp_path / HELD)
    found = slower._read()
    os.utime(tmp_path / HELD, (0, 0))
    faster = RunLock(tmp_path).take()
    slower._set_aside(found)
    assert not slower._create()
    faster.check()
    faster.release()


def test_without_locks_six_start_and_one_trains(tmp_path, no_locks):
    """All at the same moment, beside the remains of a dead one."""
    (tmp_path / HELD).write_text("dead")
    os.utime(tmp_path / HELD, (0, 0))
    race = no_locks + (
        "import sys, time\nfrom pathlib import Path\nfrom dbtm.checkpoint.lock import RunLock\n"
        "while not Path(sys.argv[1] + '/go').exists(): time.sleep(.001)\n"
        "try:\n    RunLock(Path(sys.argv[1], 'run')).take()\n    print('took')\n    time.sleep(60)\n"
        "except ValueError:\n    print('refused')\n"
    )
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / HELD).rename(run / HELD)
    racers = [
        subprocess.Popen(
            [sys.executable, "-u", "-c", race, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(6)
    ]
    try:
        (tmp_path / "go").touch()
        said = sorted(process.stdout.readline() for process in racers)
    finally:
        for process in racers:
            process.kill()
            process.wait()
    assert said == ["refused\n"] * 5 + ["took\n"]
