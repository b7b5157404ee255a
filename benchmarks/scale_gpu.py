"""Layouts on GPUs, to be run where there are some; one GPU is enough for the first two rows:

    torchrun --nproc-per-node 1 benchmarks/scale_gpu.py results/scale-gpu.json
    torchrun --nproc-per-node 8 benchmarks/scale_gpu.py results/scale-gpu-8.json

Measured are the median step and the peak memory of `owt` in every layout, and of a map of 1.45B parameters (width 2048,
24 blocks, V = 50,257, L = 1024) with recomputed activations, sharded; beside them stands what `dbtm plan` says.
`--tiny` does the same with small maps on a CPU, where peak memory is not measured.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dbtm.config import RunConfig, override
from dbtm.evals.provenance import made
from dbtm.recipes import recipe
from dbtm.service.planning import plan_of
from dbtm.service.planning.hardware import GPUS
from dbtm.tasks.base import Batch, Task, register
from dbtm.train.loop import Trainer

STEPS, WARM = 20, 6
NODE = 8  # GPUs: hybrid shards within a node, so on one node it is shard
TINY = [
    *("model.width=16", "model.heads=2", "model.depth=2", "task.vocab=64", "task.length=16", "train.device=cpu"),
    *("train.precision=fp32", "train.compile=false", "train.graph=false"),
]
LARGE = ["model.width=2048", "model.heads=16", "model.depth=24", "train.recompute=true"]


@register
@dataclass(frozen=True)
class RandomText(Task):
    """Random tokens: what they say does not change what a step costs."""

    name = "random-text"
    vocab: int = 50_257
    length: int = 1_024

    def batch(self, index: np.ndarray) -> Batch:
        return Batch(np.random.default_rng(int(index[0])).integers(0, self.vocab, (len(index), self.length)))


def measured(config: RunConfig, out: Path) -> dict[str, Any]:
    """Milliseconds of a step and bytes at its peak, on this process."""
    trainer, gpu = Trainer(config, out), torch.cuda.is_available() and config.train.device != "cpu"
    times = []
    for number, batches in enumerate(islice(trainer.batches(), WARM + STEPS)):
        if number == WARM and gpu:
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        float(trainer._step(batches)["loss"])  # waits for the GPU
        trainer.step += 1
        times.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() if gpu else 0
    return {"layout": trainer.layout.name, "ms": 1e3 * statistics.median(times[WARM:]), "peak_gib": peak / 2**30}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("out", type=Path, help="JSON file to write")
    words.add_argument("--tiny", action="store_true", help="small maps on a CPU")
    words.add_argument("--only", default="", help="runs whose name contains this")
    asked = words.parse_args()
    gpus = int(os.environ.get("WORLD_SIZE", "1"))
    base = replace(recipe("owt"), task=RandomText())
    base = override(base, [f"train.batch={64 * gpus}", "train.micro_batch=0", "method.path.coupling=independent"])
    base = override(base, TINY) if asked.tiny else base
    layouts = ["auto", "shard"] if gpus == 1 else ["replicate", "shard", *(["hybrid"] if gpus > NODE else [])]
    runs = {f"owt, {layout}": (layout, override(base, [f"train.layout={layout}"])) for layout in layouts}
    sizes = ["train.recompute=true"] if asked.tiny else LARGE
    large = override(base, [*sizes, f"train.batch={16 * gpus}", "train.layout=shard"])
    runs["1.45B, shard, recompute"] = "shard", large
    rows = []
    for name, (layout, config) in runs.items():
        if asked.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            row = {"run": name, **measured(config, Path(folder) / "run")}
        planned = plan_of(config, GPUS["h200"], gpus).options
        wanted = "replicate" if gpus == 1 or layout == "auto" else layout
        option = next(o for o in planned if o.layout == wanted and o.recompute == config.train.recompute)
        rows.append({**row, "planned_ms": 1e3 * option.time.total, "planned_gib": option.bytes / 2**30})
        torch.cuda.empty_cache()
        if os.environ.get("RANK", "0") == "0":
            print(rows[-1], flush=True)
            document = {"gpus": gpus, "rows": rows, "seed": 0, **made(torch.device("cpu" if asked.tiny else "cuda"))}
            asked.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
