"""How well `dbtm plan` knows one H200: python benchmarks/plan.py [results/plan.json]

Fits the plan's four constants to results/bench-step-*.json again, prints them beside those in the code, and compares
planned with measured on the twelve steps that they are fitted to: time without the optimizer, and peak memory.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dbtm.bench.step import kinds
from dbtm.evals.provenance import commit
from dbtm.recipes import recipe
from dbtm.service.planning import PlanRequest, memory, plan, timing
from dbtm.service.planning.hardware import GPUS
from dbtm.service.planning.work import Work

RESULTS = Path(__file__).parent.parent / "results"
RECIPES = ("lm1b", "owt", "sudoku-paper")
H200 = GPUS["h200"]


class Measured(NamedTuple):
    """A step that was measured on one H200, without the optimizer."""

    recipe: str
    step: str
    work: Work
    ms: float
    bytes: float


def measured() -> Iterator[Measured]:
    """The rows of results/bench-step-*.json with the runs that they were measured on."""
    for name in RECIPES:
        found = json.loads((RESULTS / f"bench-step-{name}.json").read_text())
        config = recipe(name)
        train = replace(config.train, graph=found["graphed"], batch=found["batch"], micro_batch=0)
        for row, (step, kind) in zip(found["rows"], kinds(replace(config, train=train)).items(), strict=True):
            assert row["step"] == step
            yield Measured(name, step, Work(kind), row["ms"], row["peak_gib"] * 2**30)


def planned_ms(work: Work) -> float:
    return 1e3 * timing.compute_seconds(work, H200, 1, recompute=False)


def planned_bytes(work: Work) -> float:
    """At the peak of a step without the optimizer: weights, gradients, activations, the head's chunks."""
    kind = work.phases[-1][1]
    return 8 * work.parameters + sum(memory.step_memory(work, kind, work.config.train.batch, False).values())


def fit(rows: list[Measured]) -> tuple[float, float, float, float]:
    """EFFICIENCY, TRAFFIC, BLOCK and EDGE by least squares of the relative errors."""
    times, peaks = [], []
    for row in rows:
        units = row.work.phases[-1][1].units
        products = 1e3 * row.work.flops / H200.peak
        times.append([products / row.ms, 1e3 * timing.step_bytes(row.work, units) / H200.bandwidth / row.ms])
        config, kind = row.work.config, row.work.phases[-1][1]
        head = memory.step_memory(row.work, kind, config.train.batch, False)["head"]
        left = row.bytes - 8 * row.work.parameters - head
        width = config.train.batch * kind.alive * config.shape.length * config.model.width
        peaks.append([width * config.model.depth * config.model.loops / left, width / left])
    (slowness, traffic), (block, edge) = (np.linalg.lstsq(np.array(a), np.ones(len(a)))[0] for a in (times, peaks))
    return 1 / slowness, traffic, block, edge


ONE = ("model.width=2048", "model.heads=16", "model.depth=24", "train.batch=512", "train.micro_batch=0")
TEN = ("model.width=4096", "model.heads=32", "model.depth=48", "train.batch=1024", "train.micro_batch=0")
RUNS = {  # of docs/scale.md: recipe, settings, GPUs
    "LM1B, the paper's": ("lm1b", ("train.micro_batch=64",), 8),
    "OpenWebText, the paper's": ("owt", ("train.micro_batch=64",), 8),
    "OpenWebText with refinement in the loop": ("owt-ril", ("train.micro_batch=64",), 8),
    "1B parameters": ("owt", ONE, 64),
    "10B parameters": ("owt", TEN, 512),
}


def runs() -> list[dict[str, object]]:
    """The best layout of every run of docs/scale.md."""
    rows = []
    for name, (recipe_name, changes, gpus) in RUNS.items():
        found = plan(PlanRequest(recipe_name, changes=changes, gpus=gpus))
        best = found.best
        assert best is not None
        row = {"run": name, "recipe": recipe_name, "settings": changes, "gpus": gpus, "gpu": found.gpu.name}
        row |= {"parameters": found.parameters, "steps": found.config.train.steps, "layout": best.layout}
        row |= {"recompute": best.recompute, "micro_batch": best.micro_batch, "gib_per_gpu": best.bytes / 2**30}
        row |= {"step_ms": 1e3 * best.time.total, "tokens_per_second": found.tokens_per_second(best)}
        row |= {"days": found.seconds(best) / 86400, "gpu_hours": found.gpu_hours(best)}
        rows.append({**row, "communication_share": best.time.exposed / best.time.total})
        print({key: rows[-1][key] for key in ("run", "layout", "gib_per_gpu", "step_ms", "days", "gpu_hours")})
    return rows


def main() -> None:
    rows = list(measured())
    names = ("EFFICIENCY", "TRAFFIC", "BLOCK", "EDGE")
    fitted = dict(zip(names, fit(rows), strict=True))
    now = (timing.EFFICIENCY, timing.TRAFFIC, memory.BLOCK, memory.EDGE)
    for name, value in zip(names, now, strict=True):
        print(f"{name:10}  in the code {value:.4g}  fitted {fitted[name]:.4g}")
    steps = []
    for row in rows:
        ms, peak = planned_ms(row.work) / row.ms, planned_bytes(row.work) / row.bytes
        steps.append({"recipe": row.recipe, "step": row.step, "time_ratio": ms, "memory_ratio": peak})
        print(f"{row.recipe:13} {row.step:30} time {ms:.3f}  memory {peak:.3f}")
    worst = max(abs(step["time_ratio"] - 1) for step in steps), max(abs(step["memory_ratio"] - 1) for step in steps)
    print(f"worst: time {worst[0]:.1%}, memory {worst[1]:.1%}")
    document = {"steps": steps, "worst_time": worst[0], "worst_memory": worst[1], "fitted": fitted, "commit": commit()}
    document["runs"] = runs()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
