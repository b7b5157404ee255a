"""Kill and resume equals uninterrupted, bit for bit on a CPU: weights, EMA, optimizer, teacher, data order, noise."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from dbtm import config as configuration
from dbtm.checkpoint import folder as checkpoint
from dbtm.config import OptimConfig, RunConfig, TrainConfig
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import (
    Config,
    DistillConfig,
    LossConfig,
    Options,
    PathConfig,
    PosteriorConfig,
    ReflowConfig,
    RilConfig,
)
from dbtm.tasks.base import Batch
from dbtm.tasks.own import Own
from dbtm.tasks.toy import Markov
from dbtm.train.loop import NonFiniteLoss, Trainer, fit
from tests.conftest import QUALITY, tiny_config
from tests.processes import PATIENCE


def tiny_run(**sections) -> RunConfig:
    """A run of a few steps with every term of the objective, dropout and both optimizers. `sections` replace those of
    the run, or of DBTM's settings (path, loss, ril, distill, quality).
    """
    settings = Config(
        loss=LossConfig(semigroup=0.1, semigroup_depths=(2,), boundary_fraction=0.5),
        ril=RilConfig(weight=1.0, depths=(2,)),
        distill=DistillConfig(weight=0.5, depth=2, start=2, refresh=2),
        quality=QUALITY,
    )
    base = RunConfig(
        recipe="test",
        task=Markov(vocab=5, length=6),
        model=tiny_config(dropout=0.2),
        method=settings,
        sample=Options(),
        optim=OptimConfig(name="muon", warmup=2, schedule="wsd", lr=1e-2),
        train=TrainConfig(steps=8, batch=8, micro_batch=4, log_every=2, checkpoint_every=3, keep=2, device="cpu"),
    )
    return changed(base, **sections)


def changed(run: RunConfig, **sections) -> RunConfig:
    """A run with other sections, of the run or of its method."""
    own = {f.name for f in fields(run.method)}
    method = replace(run.method, **{name: value for name, value in sections.items() if name in own})
    return replace(run, **({"method": method} | {k: v for k, v in sections.items() if k not in own}))


class Killed(Exception):
    pass


def kill_at(trainer: Trainer, step: int) -> None:
    """Make the run die in the middle of a step, as by SIGKILL: nothing is saved."""
    original = trainer.method.parts

    def parts(examples):
        if examples.step == step:
            raise Killed
        return original(examples)

    trainer.method.parts = parts  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", ["commit", "hold", "reflow"])
def test_kill_and_resume_is_bit_for_bit(tmp_path, kind):
    config, settings = tiny_run(), tiny_run().method
    ril, distill = (replace(section, commit=kind == "commit") for section in (settings.ril, settings.distill))
    config = changed(config, ril=ril, distill=distill)
    if kind == "reflow":
        reflow = ReflowConfig(weight=0.5, rounds=3, start=2, refresh=2)
        config = changed(config, distill=DistillConfig(), posterior=PosteriorConfig(weight=1.0), reflow=reflow)
    whole = fit(config, tmp_path / "whole")
    trainer = Trainer(config, tmp_path / "killed")
    kill_at(trainer, 7)
    with pytest.raises(Killed):
        trainer.run()
    assert checkpoint.latest(tmp_path / "killed").name == "step-00000006"
    resumed = fit(config, tmp_path / "killed", resume=True)
    assert resumed.name == whole.name == "step-00000008"
    for name in ("model", "ema", "optim", "teacher"):
        a, b = (checkpoint.read_tensors(folder, name) for folder in (whole, resumed))
        assert a.keys() == b.keys()
        assert a
        for key in a:
            assert torch.equal(a[key], b[key]), f"{name}: {key}"
    lines = [(tmp_path / run / "metrics.jsonl").read_text().splitlines() for run in ("whole", "killed")]
    timing = {"steps_per_second", "seconds"}
    last = [{k: v for k, v in json.loads(rows[-1]).items() if k not in timing} for rows in lines]
    assert last[0]["step"] == 8
    assert last[0] == last[1]


def test_config_and_weights_survive_the_checkpoint(tmp_path):
    import dbtm

    config = tiny_run(distill=DistillConfig())
    folder = dbtm.fit(config, tmp_path)
    assert configuration.loads((folder / "config.json").read_text()) == config
    sampler = dbtm.load(tmp_path)
    ema = checkpoint.read_tensors(folder, "ema")
    assert all(torch.equal(v, ema[k]) for k, v in sampler.network.state_dict().items())
    assert sampler.sample(3, nfe=2).tokens.shape == (3, 6)


def test_best_and_last_are_kept(tmp_path):
    scores = iter([0.1, 0.9, 0.5, 0.2])
    config = tiny_run(train=replace(tiny_run().train, steps=8, checkpoint_every=1, evaluate_every=2, keep=2))
    fit(config, tmp_path, evaluate=lambda sampler, seed: {"score": next(scores)})
    assert [p.name for p in checkpoint.all_in(tmp_path)] == ["step-00000004", "step-00000007", "step-00000008"]
    assert checkpoint.best(tmp_path)["checkpoint"] == "step-00000004"
    assert not list(tmp_path.glob(".*-step-*"))


def test_milestones_are_saved_and_kept(tmp_path):
    """The paper's evaluation steps, even if no checkpoint is due there and `keep` would delete them."""
    run = tiny_run()
    fit(replace(run, train=replace(run.train, milestones=(2, 4), keep=1)), tmp_path)
    steady = checkpoint.steady(tmp_path)  # the last one before the loss rose is kept too
    noted = {int(steady["checkpoint"].rpartition("-")[2])} if steady else set()
    assert not noted & {2, 4}
    assert {checkpoint.step_of(folder) for folder in checkpoint.all_in(tmp_path)} == {2, 4, 8} | noted


def test_a_run_is_not_overwritten_and_foreign_checkpoints_are_refused(tmp_path):
    config = tiny_run(distill=DistillConfig(), train=replace(tiny_run().train, steps=2))
    fit(config, tmp_path)
    with pytest.raises(UsageError, match="already holds a run: resume it"):
        fit(config, tmp_path)
    for other, name in (
        (replace(config, model=replace(config.model, depth=1)), "model.depth"),
        (replace(config, optim=replace(config.optim, name="adamw")), "optim.name"),
        (changed(config, path=PathConfig(sigma=3.0)), "method.path.sigma"),
        (replace(config, train=replace(config.train, seed=5)), "train.seed"),
    ):
        with pytest.raises(UsageError, match=f"another {name}"):
            fit(other, tmp_path, resume=True)
    shorter = replace(config, train=replace(config.train, steps=1), optim=replace(config.optim, warmup=1))
    with pytest.raises(UsageError, match="already past"):
        fit(shorter, tmp_path, resume=True)


def test_how_a_run_is_judged_may_change(tmp_path, monkeypatch):
    """Evaluation settings are checked at the start. They may change in a resumed run: training ignores them."""
    config = tiny_run(distill=DistillConfig(), train=replace(tiny_run().train, steps=2))
    other = replace(config, task=replace(config.task, seed=5))

    def refuse(task):
        if task.seed == 0:
            raise UsageError("no such problems")

    with monkeypatch.context() as patch:
        patch.setattr(Markov, "prepare_evaluation", refuse)
        with pytest.raises(UsageError, match="no such problems"):
            Trainer(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    Trainer(config, tmp_path / "run")._save()
    with pytest.raises(UsageError, match=r"another task\.seed"):
        Trainer(other, tmp_path / "run", resume=True)
    monkeypatch.setattr(Markov, "evaluation_settings", ("seed",))
    assert Trainer(other, tmp_path / "run", resume=True).config.task.seed == 5


def test_the_best_is_the_best_by_one_measure(tmp_path, monkeypatch):
    """Only scores measured with the same settings are compared."""
    scores = iter([0.9, 0.5, 0.4, 0.6])
    monkeypatch.setattr(Markov, "evaluation_settings", ("seed",))
    config = tiny_run(distill=DistillConfig(), train=replace(tiny_run().train, steps=2))
    seen = []
    for seed, steps in [(0, 2), (0, 3), (5, 4), (5, 5)]:
        longer = replace(config, task=replace(config.task, seed=seed), train=replace(config.train, steps=steps))
        fit(longer, tmp_path, resume=steps > 2, evaluate=lambda *_: {"score": next(scores)})
        seen.append(checkpoint.best(tmp_path)["score"])
    assert seen == [0.9, 0.9, 0.4, 0.6]


def test_data_may_move_but_not_change(tmp_path):
    """The content counts; older checkpoints, which do not record it, are compared by path."""
    tokens = np.arange(60).reshape(10, 6) % 5
    np.save(tmp_path / "a.npy", tokens)
    np.save(tmp_path / "b.npy", tokens)
    task = Own(data=str(tmp_path / "a.npy"), vocab=5, length=6)
    config = tiny_run(task=task, distill=DistillConfig(), train=replace(tiny_run().train, steps=2))
    folder = Trainer(config, tmp_path / "run")._save()
    moved = replace(config, task=replace(task, data=str(tmp_path / "b.npy")))
    assert Trainer(moved, tmp_path / "run", resume=True).config.task == moved.task
    np.save(tmp_path / "a.npy", tokens[::-1])
    with pytest.raises(UsageError, match="was trained on other data"):
        Trainer(config, tmp_path / "run", resume=True)
    state = json.loads((folder / "state.json").read_text())
    del state["data"]
    (folder / "state.json").write_text(json.dumps(state))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["state.json"] = sha256(folder / "state.json")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=r"another task\.data"):
        Trainer(moved, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda tokens: tokens + 5, "outside 0..4"),
        (lambda tokens: tokens[:, :2], "must give integers"),
        (lambda tokens: tokens / 2, "must give integers"),
    ],
)
def test_a_task_that_breaks_its_promise_is_refused_before_anything_is_written(tmp_path, spoil, message):
    class Broken(Markov):
        name = "broken-for-test"

        def batch(self, index):
            return Batch(spoil(super().batch(index).tokens))

    run = replace(tiny_run(distill=DistillConfig()), task=Broken(vocab=5, length=6))
    with pytest.raises(UsageError, match=message):
        fit(run, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_starts_from_the_averaged_weights_of_another(tmp_path):
    base = fit(tiny_run(distill=DistillConfig()), tmp_path / "base")
    distill = DistillConfig(weight=0.5, start=0, refresh=99)
    config = tiny_run(distill=distill, train=replace(tiny_run().train, init=str(base)))
    with pytest.raises(UsageError, match="a teacher that is trained"):
        Trainer(replace(config, train=replace(config.train, init="")), tmp_path / "tuned")
    trainer = Trainer(config, tmp_path / "tuned")
    ema = checkpoint.read_tensors(base, "ema")
    for module in (trainer.model, trainer.ema.model, trainer.method.frozen["teacher"]):
        assert all(torch.equal(value, ema[key]) for key, value in module.state_dict().items())
    tuned = trainer.run()
    assert any(not torch.equal(value, ema[key]) for key, value in checkpoint.read_tensors(tuned, "model").items())
    assert all(torch.equal(value, ema[key]) for key, value in checkpoint.read_tensors(tuned, "teacher").items())


def test_a_slot_for_the_round_before_begins_empty(tmp_path):
    """A run may add self-conditioning to its initial weights, but not remove it."""
    plain = tiny_run(distill=DistillConfig())
    base = fit(plain, tmp_path / "base")
    recalling = replace(plain, model=replace(plain.model, self_condition=True))
    trainer = Trainer(replace(recalling, train=replace(plain.train, init=str(base))), tmp_path / "tuned")
    ema = checkpoint.read_tensors(base, "ema")
    state = trainer.model.state_dict()
    assert not state.pop("recall").any()
    assert all(torch.equal(value, ema[key]) for key, value in state.items())
    tuned = trainer.run()
    assert trainer.model.recall.any(), "it learns"
    again = Trainer(replace(recalling, train=replace(plain.train, init=str(tuned))), tmp_path / "again")
    assert torch.equal(again.model.recall, checkpoint.read_tensors(tuned, "ema")["recall"])
    with pytest.raises(UsageError, match=r"has another model.self_condition than this run"):
        Trainer(replace(plain, train=replace(plain.train, init=str(tuned))), tmp_path / "less")


def test_a_resumed_run_keeps_the_weights_it_started_from(tmp_path):
    base = fit(tiny_run(distill=DistillConfig()), tmp_path / "base")
    config = tiny_run(distill=DistillConfig(), train=replace(tiny_run().train, init=str(base)))
    whole = fit(config, tmp_path / "whole")
    trainer = Trainer(config, tmp_path / "killed")
    kill_at(trainer, 4)
    with pytest.raises(Killed):
        trainer.run()
    shutil.rmtree(base)
    for init in ("", str(base)):
        resumed = fit(replace(config, train=replace(config.train, init=init)), tmp_path / "killed", resume=True)
        assert configuration.loads((resumed / "config.json").read_text()).train.init == str(base)
    a, b = (checkpoint.read_tensors(folder, "model") for folder in (whole, resumed))
    assert all(torch.equal(a[key], b[key]) for key in a)


def test_weights_that_do_not_fit_a_run_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(Markov, "files", lambda self: {"words.txt": "a b c d e"})
    plain = tiny_run(distill=DistillConfig(), train=replace(tiny_run().train, steps=2))
    base = fit(plain, tmp_path / "base")
    config = replace(plain, train=replace(plain.train, init=str(base)))
    with pytest.raises(UsageError, match=r"has another model.depth than this run: they must be the same"):
        fit(replace(config, model=replace(config.model, depth=1)), tmp_path / "run")
    with pytest.raises(UsageError, match=r"a network of 'dbtm' on 'markov', whose weights do not fit this run's"):
        fit(config.by("mdlm"), tmp_path / "run")
    monkeypatch.setattr(Markov, "files", lambda self: {"words.txt": "e d c b a"})
    with pytest.raises(UsageError, match=r"trained with another words.txt"):
        fit(config, tmp_path / "run")
    (base / "ema.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match="is damaged"):
        fit(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_sampler_draws_from_the_prior_of_training(tmp_path):
    import dbtm

    config = tiny_run(distill=DistillConfig(), train=replace(tiny_run().train, steps=2))
    folder = fit(changed(config, path=PathConfig(sigma=2.5)), tmp_path)
    assert dbtm.load(folder).options.sigma == 2.5


def test_max_seconds_stops_cleanly(tmp_path):
    config = tiny_run(train=replace(tiny_run().train, steps=100_000))
    folder = fit(config, tmp_path, max_seconds=0.5)
    checkpoint.verify(folder)
    assert 0 < checkpoint.read_state(folder)["step"] < 100_000


def test_a_non_finite_loss_leaves_the_last_good_checkpoint(tmp_path):
    config = tiny_run(distill=DistillConfig())
    trainer = Trainer(config, tmp_path)
    original = trainer.method.parts

    def parts(examples):
        for part in original(examples):
            yield part._replace(loss=part.loss * (math.nan if examples.step >= 4 else 1.0))

    trainer.method.parts = parts  # type: ignore[method-assign]
    with pytest.raises(NonFiniteLoss, match=r"step-00000003"):
        trainer.run()
    newest = checkpoint.latest(tmp_path)
    assert newest.name == "step-00000003"
    assert all(v.isfinite().all() for v in checkpoint.read_tensors(newest, "model").values() if v.is_floating_point())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_saves_and_exits(tmp_path, number):
    command = [sys.executable, "-m", "dbtm", "train", "markov", "--out", str(tmp_path)]
    for setting in ("train.device=cpu", "train.log_every=1", "train.batch=8", "train.steps=1000000"):
        command += ["--set", setting]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stderr is not None
        steps = (line for line in process.stderr if line.startswith(b"step "))
        for _ in range(2):
            next(steps)  # a step is finished, and the next one runs
        process.send_signal(number)
        rest = process.stderr.read().decode()
        assert process.wait(PATIENCE) == 0
    assert f"{number.name}: saving after this step; repeat it to quit at once" in rest
    assert f"({number.name}); it can be resumed" in rest
    checkpoint.verify(checkpoint.latest(tmp_path))
