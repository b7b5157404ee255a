"""Reasoning at a small size on a CPU, and how far "stable" can be trusted.

    python benchmarks/reasoning.py train maze colouring sat --minutes 6 --out runs/reasoning
    python benchmarks/reasoning.py measure maze colouring sat --out runs/reasoning --json results/reasoning-small.json
    python benchmarks/reasoning.py sudoku "hard=clues:30" "theirs=FILE.csv" --n 200 --json results/sudoku-stable.json

`train` runs the recipe TASK-mini with and without the map's own mistakes in its rollouts, for the same time. `measure`
samples held-out problems by the paper's rule, with the self-check, and by revising. `sudoku` does the same with a
checkpoint of 9 x 9 Sudoku (the packaged one by default) on sets of puzzles, named as in benchmarks/efforts.py.

Of an answer that is called stable, `precision` is how often it is right; `recall` is the share of right answers that
are called stable.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dbtm import fit, load
from dbtm.config import override
from dbtm.core.atomic import write_bytes
from dbtm.evals.provenance import made
from dbtm.recipes import recipe
from dbtm.sampling import Sampler
from dbtm.tasks.sudoku import csvfile
from dbtm.tasks.sudoku.generate import generate

ARMS = {"own mistakes": (), "without": ("method.ril.own=0",)}
WAYS: dict[str, dict[str, Any]] = {
    "1": {"nfe": 1},
    "4": {"nfe": 4},
    "16": {"nfe": 16},
    "4, checked within 16": {"nfe": 4, "check": 12},
    "4, checked within 64": {"nfe": 4, "check": 60},
    "revise 8": {"nfe": 8, "rule": "revise"},
    "revise 16": {"nfe": 16, "rule": "revise"},
    "revise 64": {"nfe": 64, "rule": "revise"},
}


def folder(out: Path, task: str, arm: str) -> Path:
    return out / f"{task}-{arm.replace(' ', '-')}"


def train(out: Path, tasks: list[str], minutes: float) -> None:
    for task in tasks:
        for arm, changes in ARMS.items():
            settings = [*changes, "train.device=cpu", "train.evaluate_every=0"]
            fit(override(recipe(f"{task}-mini"), settings), folder(out, task, arm), minutes=minutes)


def judged(right_B: np.ndarray, stable_B: np.ndarray | None, nfe_B: np.ndarray) -> dict[str, Any]:
    """Shares of right answers, and what "stable" says of them."""
    found: dict[str, Any] = {"n": len(right_B), "solved": float(right_B.mean()), "nfe": float(nfe_B.mean())}
    if stable_B is not None:
        both, stable, right = int((stable_B & right_B).sum()), int(stable_B.sum()), int(right_B.sum())
        found |= {"stable": stable, "stable_and_right": both}
        found |= {"precision": both / stable if stable else None, "recall": both / right if right else None}
    return found


def ways(sampler: Sampler, given: dict[str, Any], right: Callable[[np.ndarray], np.ndarray]) -> list[dict[str, Any]]:
    rows = []
    for way, options in WAYS.items():
        trace = sampler.sample(**given, seed=0, **options)
        rows.append({"way": way, **judged(right(trace.tokens), trace.stable, trace.nfe)})
        print(rows[-1], flush=True)
    return rows


def measure(out: Path, tasks: list[str], n: int) -> list[dict[str, Any]]:
    rows = []
    for task in tasks:
        for arm in ARMS:
            sampler = load(folder(out, task, arm), "cpu")
            problem: Any = sampler.task
            truth = problem.held_out_examples(n)
            steps = json.loads((folder(out, task, arm) / "metrics.jsonl").read_text().splitlines()[-1])["step"]
            about = {"task": task, "arm": arm, "steps": steps}
            found = ways(sampler, {"tokens": truth.tokens, "clean": truth.prompt}, problem.solved)
            rows += [about | row for row in found]
    return rows


def sudoku(sets: list[str], checkpoint: str, n: int) -> list[dict[str, Any]]:
    rows, sampler = [], load(checkpoint)
    task: Any = sampler.task
    for name, _, source in (word.partition("=") for word in sets):
        kind, _, value = source.partition(":")
        puzzles, solutions = generate(int(value), n, seed=7_000_000) if kind == "clues" else csvfile.read(source)
        puzzles, solutions = puzzles[:n], solutions[:n]
        print(name, flush=True)
        found = ways(sampler, task.given(puzzles), lambda tokens, s=solutions: task.solved(tokens, s))  # type: ignore
        rows += [{"set": name, **row} for row in found]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "measure", "sudoku"))
    parser.add_argument("names", nargs="+", metavar="TASK or NAME=SOURCE")
    parser.add_argument("--minutes", type=float, default=6, help="of each run")
    parser.add_argument("--out", type=Path, default=Path("runs/reasoning"))
    parser.add_argument("--checkpoint", default="sudoku")
    parser.add_argument("--n", type=int, default=300, help="problems per set")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "train":
        train(arguments.out, arguments.names, arguments.minutes)
        return
    if arguments.json is None:
        parser.error("give --json FILE for the numbers")
    if arguments.what == "measure":
        rows = measure(arguments.out, arguments.names, arguments.n)
    else:
        rows = sudoku(arguments.names, arguments.checkpoint, arguments.n)
    about = {"minutes": arguments.minutes} if arguments.what == "measure" else {"checkpoint": arguments.checkpoint}
    found = {**made(torch.device("cpu")), **about, "rows": rows}
    write_bytes(arguments.json, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
