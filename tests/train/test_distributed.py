"""Two gloo ranks equal one rank with two accumulation steps: same batches and noise, gradients to float64 round-off."""

import json
import os
import random
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.multiprocessing as mp

from dbtm.checkpoint import folder as checkpoint
from dbtm.methods.dbtm import DistillConfig
from dbtm.tasks.base import Batch, register
from dbtm.tasks.toy import Markov
from dbtm.train.loop import ASK_EVERY, Trainer
from tests.train.test_resume import tiny_run


@register
@dataclass(frozen=True)
class UnequalPrompts(Markov):
    """0 to 4 tokens of a row are given: ranks have different numbers of targets, and must share one denominator."""

    name = "unequal-prompts-for-test"

    def batch(self, index):
        tokens = super().batch(index).tokens
        return Batch(tokens, np.arange(self.length) < (np.asarray(index) % 5)[:, None])


def run_config():
    base = tiny_run(distill=DistillConfig())
    base = replace(base, task=UnequalPrompts(vocab=5, length=6))
    return replace(base, train=replace(base.train, steps=3, micro_batch=4))


def double_trainer(out) -> Trainer:
    """float64 throughout, so that the only difference left is the order of a sum."""
    torch.set_num_threads(1)
    trainer = Trainer(run_config(), out)
    trainer.model.double()
    trainer.ema.model.double()
    return trainer


def record(trainer: Trainer, path) -> None:
    """One step's batches, noise and gradients, then the rest of the run."""
    examples = next(trainer.batches())
    seen = [(e.tokens, e.sample_key, trainer.method.draw_noise(e).dense()) for e in examples]
    gradients = {}

    def keep(model):
        original(model)
        gradients.update({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})

    original = trainer.world.average_gradients
    object.__setattr__(trainer.world, "average_gradients", keep)
    trainer._step(examples)
    object.__setattr__(trainer.world, "average_gradients", original)
    torch.save({"seen": seen, "gradients": gradients}, path)


def rank_main(rank: int, port: int, folder: str) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_default_dtype(torch.float32)
    trainer = double_trainer(Path(folder) / "two")
    record(trainer, Path(folder) / f"rank{rank}.pt")
    trainer.world.leave()


def free_port() -> int:
    """Below the ports that the system hands out by itself, which another connection could be given meanwhile."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as s, suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def test_two_ranks_equal_two_accumulation_steps(tmp_path):
    alone = double_trainer(tmp_path / "one")
    assert alone.micro_batches == 2
    record(alone, tmp_path / "one.pt")
    mp.spawn(rank_main, (free_port(), str(tmp_path)), nprocs=2)
    targets = [int((~e.prompt).sum()) for e in next(alone.batches())]
    assert targets[0] != targets[1]
    one = torch.load(tmp_path / "one.pt", weights_only=True)
    ranks = [torch.load(tmp_path / f"rank{r}.pt", weights_only=True) for r in range(2)]
    for m, rank in enumerate(ranks):
        for mine, theirs in zip(one["seen"][m], rank["seen"][0], strict=True):
            assert torch.equal(mine, theirs), "same batches and noise exactly"
    assert one["gradients"]
    for name, gradient in one["gradients"].items():
        for rank in ranks:
            torch.testing.assert_close(rank["gradients"][name], gradient, rtol=1e-10, atol=1e-13)


def test_torchrun_trains_and_resumes(tmp_path):
    """The documented command, on two CPU processes: it trains, saves once, continues, and stops together."""

    def run(steps: int, *options: str) -> str:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]
        command += [str(free_port()), "-m", "dbtm", "train", "markov", "--out", str(tmp_path), "--resume", "auto"]
        settings = ["train.batch=8", "train.log_every=1", "optim.warmup=1", "train.device=cpu"]
        settings += ["model.width=16", "model.depth=1", "model.heads=2"]  # the last step is followed by an evaluation
        for setting in (f"train.steps={steps}", *settings):
            command += ["--set", setting]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        ended = subprocess.run([*command, *options], capture_output=True, text=True, env=environment)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.count("step-") == 1
        return ended.stderr

    assert "step 3/3" in run(3)
    newest = checkpoint.latest(tmp_path)
    assert newest.name == "step-00000003"
    checkpoint.verify(newest)
    assert f"stopped at step {ASK_EVERY} (the time is up)" in run(500, "--max-seconds", "0.001")
    newest = checkpoint.latest(tmp_path)
    assert newest.name == f"step-{ASK_EVERY:08d}"
    checkpoint.verify(newest)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    taken = [row["step"] for row in rows if "eval/score" not in row]
    assert taken == list(range(1, ASK_EVERY + 1)), "every step once: the second run went on from the first"
