"""Where the time of a training step or of a sampler's round goes, kernel by kernel: a table, and JSON with --json.

    python benchmarks/profiling.py step text-base --json results/bench-profile-text.json
    python benchmarks/profiling.py round sudoku --batch 64 --json results/bench-profile-round.json

A step is a whole one of the trainer, optimizer and average included, on random tokens of the recipe's sizes. A round is
that of `dbtm bench sampler`: compiled, scored by the quality head if there is one, none left out. `busy` is the sum of
the kernels' times on the GPU, `wall` what the clock says without the profiler; the difference is launches and waiting.
On a CPU, operators take the place of kernels.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from dbtm.bench.sampler import untrained
from dbtm.config import RunConfig, override
from dbtm.core.atomic import write_bytes
from dbtm.core.device import pick_device
from dbtm.evals.provenance import made
from dbtm.recipes import recipe

sys.path.insert(0, str(Path(__file__).parent))
from scale_gpu import RandomText

WARM, CALLS, SHOWN, NFE = 6, 3, 40, 4


def step(config: RunConfig, folder: Path) -> tuple[Callable[[], Any], int]:
    """A call that makes one step, and how many steps it makes."""
    from dbtm.train.loop import Trainer

    shape, changes = config.shape, ["train.checkpoint_every=1000000", "train.evaluate_every=0"]
    config = override(replace(config, task=RandomText(vocab=shape.vocab, length=shape.length)), changes)
    trainer = Trainer(config, folder / "run")
    waiting = list(islice(trainer.batches(), 1))

    def call() -> None:
        float(trainer._step(waiting[0])["loss"])  # waits for the GPU
        trainer.step += 1

    return call, 1


def rounds(config: RunConfig, device: torch.device, batch: int) -> tuple[Callable[[], Any], int]:
    """A call that draws a batch in four rounds, and their number."""
    sampler, options = untrained(config, batch, device)
    if device.type == "cuda":
        sampler.compile()
    return lambda: sampler.sample(batch, nfe=NFE, **options), NFE


def measured(call: Callable[[], Any], units: int, device: torch.device) -> dict[str, Any]:
    """Milliseconds per unit (a step, a round) by the clock and on the GPU, and by kernel."""
    gpu = device.type == "cuda"
    wait = torch.cuda.synchronize if gpu else lambda: None
    times = []
    for _ in range(WARM + CALLS):
        wait()
        start = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - start)
    with profile(activities=[ProfilerActivity.CUDA if gpu else ProfilerActivity.CPU]) as profiler:
        for _ in range(CALLS):
            call()
        wait()
    rows = [
        {
            "kernel": event.key[:120],
            "ms": (event.self_device_time_total if gpu else event.self_cpu_time_total) / 1e3 / CALLS / units,
            "launches": event.count / CALLS / units,
        }
        for event in profiler.key_averages()
    ]
    rows.sort(key=lambda row: -row["ms"])
    busy = sum(row["ms"] for row in rows)
    wall = 1e3 * statistics.median(times[WARM:]) / units
    return {"wall_ms": wall, "busy_ms": busy, "launches": sum(r["launches"] for r in rows), "kernels": rows[:SHOWN]}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("what", choices=["step", "round"])
    words.add_argument("recipe")
    words.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    words.add_argument("--batch", type=int, default=64, help="samples of a round")
    words.add_argument("--device", default="auto")
    words.add_argument("--json", type=Path)
    asked = words.parse_args()
    device = pick_device(asked.device)
    changes = [*asked.set, *([] if asked.device == "auto" else [f"train.device={asked.device}"])]
    config = override(recipe(asked.recipe), changes)
    with tempfile.TemporaryDirectory() as folder:
        what = step(config, Path(folder)) if asked.what == "step" else rounds(config, device, asked.batch)
        found = measured(*what, device)
    print(f"{asked.what} of {asked.recipe}: wall {found['wall_ms']:.2f} ms, busy {found['busy_ms']:.2f} ms")
    for row in found["kernels"]:
        print(f"{row['ms']:9.3f} ms {row['launches']:7.1f} x  {row['kernel'][:90]}")
    if asked.json:
        about = {"what": asked.what, "recipe": asked.recipe, "settings": changes, **found, **made(device)}
        write_bytes(asked.json, (json.dumps(about, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
