"""Kill random workers of a run under torchrun: python benchmarks/kill_workers.py [KILLS] [results/kill-workers.json]

Two processes train a small model, sharded, under `torchrun --max-restarts`. Again and again, at a random moment after
the run has moved on, one of them is killed. The run must end by itself, with the weights of a run that was left alone,
bit for bit.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from dbtm.checkpoint import folder as checkpoint
from dbtm.evals.provenance import made

STEPS, EVERY = 1200, 5
SETTINGS = [
    "train.batch=16", f"train.steps={STEPS}", f"train.checkpoint_every={EVERY}", "optim.warmup=1", "train.device=cpu",
    "model.width=32", "model.depth=2", "model.heads=2", "train.layout=shard",
]  # fmt: skip


def command(run: Path, restarts: int) -> list[str]:
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    words += ["--rdzv-endpoint", "127.0.0.1:0", "--max-restarts", str(restarts)]
    words += ["-m", "dbtm", "train", "markov", "--out", str(run), "--resume", "auto"]
    return words + [word for setting in SETTINGS for word in ("--set", setting)]


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def step(run: Path) -> int:
    newest = checkpoint.latest(run)
    return checkpoint.step_of(newest) if newest else -1


def disturb(run: Path, kills: int, chance: random.Random) -> tuple[int, list[int]]:
    """Run to the end with so many kills; (exit code, the last checkpoint at every kill)."""
    at: list[int] = []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (
        (run.parent / "log").open("wb") as log,
        subprocess.Popen(command(run, 3 * kills), env=environment, stdout=log, stderr=log) as job,
    ):
        seen, ready = step(run), 0.0
        while job.poll() is None:
            time.sleep(0.02)
            now = step(run)
            if now > seen and not ready:
                ready = time.monotonic() + chance.uniform(0, 1)
            if ready and time.monotonic() >= ready and len(at) < kills and len(found := children(job.pid)) == 2:
                os.kill(chance.choice(found), signal.SIGKILL)
                at.append(now)
                print(f"kill {len(at)}: after the checkpoint of step {now}", flush=True)
                seen, ready = now, 0.0
    return job.returncode, at


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        whole, run = Path(folder) / "whole", Path(folder) / "run"
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(command(whole, 0), env=environment, check=True, capture_output=True)
        started = time.monotonic()
        code, at = disturb(run, kills, random.Random(0))
        seconds = time.monotonic() - started
        same = True
        for part in ("model", "ema", "optim"):
            a, b = (checkpoint.read_tensors(checkpoint.find(each), part) for each in (whole, run))
            same = same and a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
        print(f"{len(at)} kills, exit code {code}, {seconds:.0f} s, weights bit for bit the same: {same}")
        lines = (Path(folder) / "log").read_text().splitlines()
        said = sum("lost another one" in line for line in lines)
    document = {
        "kills": len(at), "last_checkpoint_at_kill": at, "exit_code": code, "same_bits": same, "seconds": seconds,
        "lines_of_survivors": said, "processes": 2, "steps": STEPS, "checkpoint_every": EVERY, "recipe": "markov",
        "settings": SETTINGS, "seed": 0, **made(torch.device("cpu")),
    }  # fmt: skip
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(json.dumps(document, indent=1) + "\n")
    if code or not same or len(at) < kills:
        sys.exit(1)


if __name__ == "__main__":
    main()
