"""A process that is killed, hangs or is missing: the run restarts by itself, or soon ends with one line."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch

from dbtm.checkpoint import folder as checkpoint
from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.evals.judges.gguf import GGUFJudge
from dbtm.recipes import recipe
from dbtm.service.training import fit
from dbtm.train import loop
from dbtm.train.distributed import LostPeer, World
from dbtm.train.loop import Trainer
from tests.evals.judges import gguf_writer
from tests.evals.test_quick import text_task
from tests.train import workers
from tests.train.test_distributed import run_config

pytest.importorskip("resource", reason="processes are forked")


def with_a_peer_that(out, does):
    """The first process's message about a second one that stops answering during the run; None from the second."""
    config = run_config("replicate", micro_batch=4, peer_timeout=1.5).by("mdlm")
    trainer = Trainer(config, out)
    if trainer.world.rank:
        step = trainer._step

        def fail(batches):
            if trainer.step == 2:
                time.sleep(4) if does == "hang" else os._exit(0)
            return step(batches)

        trainer._step = fail
        try:
            trainer.run()
        except LostPeer:
            os._exit(0)  # it wakes up after the first one has given up
        return None
    start = time.monotonic()
    with pytest.raises(LostPeer) as lost:
        trainer.run()
    return {"said": str(lost.value), "seconds": time.monotonic() - start}


@pytest.mark.parametrize("does", ["hang", "end"])
def test_a_peer_that_does_not_answer_is_one_line(tmp_path, does):
    first = workers.run(2, with_a_peer_that, tmp_path / "run", does, folder=tmp_path, leave=False, results=1)[0]
    assert first["said"].startswith("process 0 of 2 lost another one, in step 3: it has ended, or did not answer")
    assert "train.peer_timeout=1.5" in first["said"]
    assert "\n" not in first["said"]
    assert first["seconds"] < 60, "less than gloo's default of half an hour"


def test_a_peer_that_never_comes_is_one_line(monkeypatch):
    for name, value in workers.environment(0, 2, workers.free_port()).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LostPeer, match=r"lost another one, as not all have joined.*peer_timeout=1 seconds"):
        World.join(cuda=False, seconds=1)


def with_an_evaluation_that_fails(out, where):
    """The error of each process. `where` is 0: in the first process's own work; else: in the second one's share."""

    def evaluate(sampler, seed):
        if where == 0:
            raise RuntimeError("this measure is wrong")
        sampler.sample(8, seed=seed, nfe=1)
        return {"score": 0.0}

    trainer = Trainer(run_config("replicate", steps=3), out, evaluate=evaluate)
    if where and trainer.world.rank:
        trainer.method.sample = None
    with pytest.raises((Exception, SystemExit)) as ended:
        trainer.run()
    trainer.world.leave()
    return f"{ended.type.__name__}: {ended.value}"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (0, "RuntimeError: this measure is wrong"),
        (1, "UsageError: process 1 of 2: TypeError: 'NoneType' object"),
    ],
)
def test_an_evaluation_that_fails_is_told_by_the_first_process_alone(tmp_path, where, said):
    first, second = workers.run(2, with_an_evaluation_that_fails, tmp_path / "run", where, folder=tmp_path)
    assert first.startswith(said)
    assert second == "SystemExit: 1"


def judged_run(task):
    """Two steps of a small network on text, evaluated after each, in float32 on a CPU."""
    changes = ["model.width=16", "model.depth=1", "model.heads=2", "train.steps=2", "train.batch=4"]
    changes += ["train.evaluate_every=1", "train.compile=false", "train.precision=fp32", "train.device=cpu"]
    return override(recipe("text-small").on(task), [*changes, "optim.warmup=1"])


def with_a_judge_in_this_folder(config, out, folders):
    """The events on each process in order, each in a separate folder, and the error that ends it."""
    happened, rank = [], int(os.environ["RANK"])
    os.chdir(folders[rank])

    def noting(function, what):
        return lambda self, *args, **more: (happened.append(what), function(self, *args, **more))[1]

    with (
        mock.patch.object(GGUFJudge, "__init__", noting(GGUFJudge.__init__, "load")),
        mock.patch.object(Trainer, "_step", noting(Trainer._step, "step")),
    ):
        try:
            fit(config, out)
        except (UsageError, SystemExit) as error:
            return happened, f"{type(error).__name__}: {error}"
    return happened, ""


@pytest.fixture
def judged(tmp_path):
    """A run with the judge tiny.gguf, and one folder for each of two processes; only the first contains the judge."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    gguf_writer.model_file(folders[0] / "tiny.gguf")
    task = replace(text_task(tmp_path / "set", 0.2), judge="tiny.gguf", evaluate_nfe=(1,))
    return judged_run(task), folders


def test_a_judge_that_another_process_lacks_is_refused_before_training(tmp_path, judged):
    config, folders = judged
    run = tmp_path / "run"
    ranks = workers.run(2, with_a_judge_in_this_folder, config, run, folders, folder=tmp_path, leave=False)
    assert ranks[0] == (["load"], "UsageError: process 1 of 2: there is no file tiny.gguf to judge with")
    assert ranks[1] == ([], "SystemExit: 1")
    assert not run.exists()


def test_every_process_loads_the_judge_once_before_the_first_step(tmp_path, judged):
    config, folders = judged
    gguf_writer.model_file(folders[1] / "tiny.gguf")
    ranks = workers.run(2, with_a_judge_in_this_folder, config, tmp_path / "run", folders, folder=tmp_path)
    assert ranks == [(["load", "step", "step"], "")] * 2


# -- torchrun restarts a run -------------------------------------------------------------------------------------------

SETTINGS = [
    "train.batch=8", "train.steps=12", "train.checkpoint_every=3", "optim.warmup=1", "train.device=cpu",
    "model.width=16", "model.depth=2", "model.heads=2", "train.layout=shard",
]  # fmt: skip


def undisturbed(out):
    Trainer(override(recipe("markov"), SETTINGS), out).run()


def same_weights(one: Path, other: Path) -> bool:
    """Bit for bit, in every part of the newest checkpoints."""
    newest = [checkpoint.latest(run) for run in (one, other)]
    if None in newest or newest[0].name != newest[1].name:
        return False
    pairs = [[checkpoint.read_tensors(folder, part) for folder in newest] for part in ("model", "ema", "optim")]
    return all(a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a) for a, b in pairs)


def killed(out, attempt):
    """The second process is killed in its eighth step, unless it was restarted. Returns the step it started from."""
    trainer = Trainer(override(recipe("markov"), SETTINGS), out, resume=True)
    step, rank, started = trainer._step, trainer.world.rank, trainer.step

    def kill(batches):
        if trainer.step == 7 and rank and not attempt:
            trainer.shared.wait()  # the checkpoint of step 6 is complete even on slow machines
            os.kill(os.getpid(), signal.SIGKILL)
        return step(batches)

    trainer._step = kill
    trainer.run()
    return started


def test_a_killed_worker_comes_back_from_the_last_checkpoint(tmp_path):
    """Restarted as torchrun does, the run ends with the weights of an uninterrupted run. benchmarks/kill_workers.py
    tests torchrun itself, with twenty kills at random moments.
    """
    for name in ("whole", "first", "second"):
        (tmp_path / f"{name}-results").mkdir()
    workers.run(2, undisturbed, tmp_path / "whole", folder=tmp_path / "whole-results")
    with pytest.raises(AssertionError, match="LostPeer: process 0 of 2 lost another one, in step 8"):
        workers.run(2, killed, tmp_path / "run", 0, folder=tmp_path / "first-results")
    assert workers.run(2, killed, tmp_path / "run", 1, folder=tmp_path / "second-results") == [6, 6]
    assert same_weights(tmp_path / "whole", tmp_path / "run")
    assert not list((tmp_path / "run").glob(".*-step-*"))


@pytest.mark.skipif("KILLS" not in os.environ, reason="takes minutes: set KILLS=20 for so many kills")
def test_torchrun_brings_a_run_back_after_every_kill(tmp_path):
    script = Path(__file__).parents[2] / "benchmarks" / "kill_workers.py"
    out = os.environ.get("KILLS_JSON", str(tmp_path / "kills.json"))
    subprocess.run([sys.executable, str(script), os.environ["KILLS"], out], check=True)


def test_the_comparison_can_fail(tmp_path):
    config = override(recipe("markov"), [*SETTINGS, "train.layout=auto", "train.steps=2"])
    for seed in (0, 1):
        loop.fit(replace(config, train=replace(config.train, seed=seed)), tmp_path / str(seed))
    assert same_weights(tmp_path / "0", tmp_path / "0")
    assert not same_weights(tmp_path / "0", tmp_path / "1")
