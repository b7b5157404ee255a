"""A comparison that is killed outright, and two processes on one folder: real processes, real signals."""

import json
import os
import signal
import subprocess
import sys

import pytest

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.lock import RunLock
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.evals.referee.folder import Job, RefereeFolder
from dbtm.service.refereeing import RefereeRequest, planned, referee
from dbtm.service.refereeing.schedule import Schedule, _look_elsewhere
from tests.processes import default_signals_in_children, wait_until

pytest.importorskip("fcntl", reason="locks of Unix")

SMALL = ["model.width=16", "model.depth=1", "model.heads=2", "train.batch=8", "train.log_every=10", "task.length=4"]
JOB = Job("mdlm", 0)


FLOPS = 1e8  # of a run that is long enough to be killed on the way


def request(folder):
    """What `start` asks for, of this process."""
    return RefereeRequest(
        task="markov", folder=folder, methods=("mdlm",), flops=FLOPS, seeds=1, nfe=(1, 2), n=40, jobs=0, device="cpu",
        changes=tuple(SMALL),
    )  # fmt: skip


def start(folder, seeds=1, flops=FLOPS, jobs=1):
    """`dbtm referee` in a process of its own, which starts another for every run if there are `jobs`."""
    words = ["referee", "markov", "--out", folder, "--methods", "mdlm", "--flops", flops, "--seeds", seeds,
             "--nfe", "1,2", "--n", "40", "--jobs", jobs, "--device", "cpu"]  # fmt: skip
    for change in SMALL:
        words += ["--set", change]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with default_signals_in_children():
        return subprocess.Popen(
            [sys.executable, "-m", "dbtm", *map(str, words)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip


def finish(process):
    _, complaint = process.communicate()
    assert process.returncode == 0, complaint


def held(folder):
    """Whether a process still works on the run."""
    try:
        RunLock(folder.run(JOB)).refuse_if_held()
    except UsageError:
        return True
    return False


def numbers(folder):
    kept = ("value", "value_low", "value_high", "used", "flops_per_sample", "n")
    return {name: [row[key] for key in kept] for name, row in folder.rows(JOB).items()}


def test_a_killed_comparison_ends_as_the_undisturbed_one(tmp_path):
    undisturbed, killed = RefereeFolder(tmp_path / "whole"), RefereeFolder(tmp_path / "killed")
    referee(request(undisturbed.path))
    process = start(killed.path)
    run = killed.run(JOB) / "run"
    assert wait_until(lambda: checkpoint.latest(run)), "a first checkpoint"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert wait_until(lambda: not held(killed)), "the run's own process ends with its parent"
    assert killed.training(JOB) is None, "it was killed on the way"
    finish(start(killed.path))
    weights = [
        sha256(checkpoint.latest(folder.run(JOB) / "run") / "ema.safetensors") for folder in (undisturbed, killed)
    ]
    assert weights[0] == weights[1]
    assert numbers(killed) == numbers(undisturbed)


def test_two_processes_share_the_runs_of_a_folder(tmp_path):
    folder = RefereeFolder(tmp_path)
    processes = [start(tmp_path, seeds=2, flops=6e7, jobs=0) for _ in range(2)]
    for process in processes:
        finish(process)
    for seed in (0, 1):
        job = Job("mdlm", seed)
        assert folder.done(job, folder.plan)
        assert folder.failure(job) is None
        records = (folder.run(job) / "run" / "metrics.jsonl").read_text().splitlines()
        steps = [json.loads(line)["step"] for line in records]
        assert steps == sorted(set(steps)), "trained once, by one of them"


def test_a_run_of_another_process_waits_for_its_lock(tmp_path):
    folder = RefereeFolder(tmp_path)
    plan = planned(request(tmp_path))
    schedule = Schedule(folder, plan, "cpu", [], elsewhere=[JOB])
    lock = RunLock(folder.run(JOB)).take()
    _look_elsewhere(schedule)
    assert (schedule.elsewhere, schedule.waiting) == ([JOB], [])
    lock.release()
    _look_elsewhere(schedule)
    assert (schedule.elsewhere, schedule.waiting) == ([], [JOB])
