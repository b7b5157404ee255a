"""Reasoning at a small size on a CPU, and how far "stable" can be trusted.

    python benchmarks/reasoning.py train maze colouring sat --steps 1000 --out runs/reasoning
    python benchmarks/reasoning.py measure maze colouring sat --out runs/reasoning --json results/reasoning-small.json
    python benchmarks/reasoning.py text text --n 32 --ways 16+2 --json results/sudoku-stable.json
    python benchmarks/reasoning.py speed sudoku --n 10 --json results/sudoku-stable.json
    python benchmarks/reasoning.py sudoku "hard=clues:30" "theirs=FILE.csv" --n 100 --json results/sudoku-stable.json

`train` runs the recipe TASK-mini with and without the map's own mistakes in its rollouts, for the same number of steps.
`measure` samples held-out problems in several ways: 4 is the paper's rule with 4 network evaluations, 4+12 the same
with a self-check of at most 12, revise-16 the rule that revises, revise-16x4 the same with 4 loops of the blocks.
`sudoku` does the same with a checkpoint of 9 x 9 Sudoku (the packaged one by default) on sets of puzzles, named as in
benchmarks/efforts.py.

Of an answer that is called stable, `precision` is how often it is right; `recall` is the share of right answers that
are called stable. `text` samples checkpoints of text: no answer there is right or wrong, so that it tells the share of
stable ones alone. `speed` times `dbtm solve` with and without the self-check in turn, so that both share whatever else
the machine does. Rows of other tasks or sets that the JSON holds already are kept.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dbtm import fit, load
from dbtm.config import override
from dbtm.core.atomic import write_bytes
from dbtm.core.device import pick_device
from dbtm.evals.provenance import made
from dbtm.recipes import recipe
from dbtm.sampling import Sampler
from dbtm.service import solving
from dbtm.service.puzzles import BUILT_IN
from dbtm.tasks.sudoku import csvfile
from dbtm.tasks.sudoku.generate import generate
from dbtm.tasks.sudoku.puzzle import parse

ARMS = {"own mistakes": (), "without": ("method.ril.own=0",)}
WAYS = ("1", "4", "16", "4+12", "4+60", "revise-8", "revise-16", "revise-64")


def options_of(way: str) -> dict[str, Any]:
    """The sampler's options that a way stands for."""
    way, _, loops = way.partition("x")
    depth = {"loops": int(loops)} if loops else {}
    if way.startswith("revise-"):
        return {"nfe": int(way.removeprefix("revise-")), "rule": "revise", **depth}
    nfe, _, check = way.partition("+")
    return {"nfe": int(nfe), "check": int(check or 0), **depth}


def folder(out: Path, task: str, arm: str) -> Path:
    return out / f"{task}-{arm.replace(' ', '-')}"


def train(out: Path, tasks: list[str], arms: list[str], steps: int) -> None:
    for task in tasks:
        for arm in arms:
            settings = [*ARMS[arm], "train.device=cpu", "train.evaluate_every=0", f"train.steps={steps}"]
            settings += ["optim.warmup=20", "optim.ema=0.98"] if steps < 500 else []  # the recipe's are for long runs
            fit(override(recipe(f"{task}-mini"), settings), folder(out, task, arm))


def judged(right_B: np.ndarray, stable_B: np.ndarray | None, nfe_B: np.ndarray) -> dict[str, Any]:
    """Shares of right answers, and what "stable" says of them."""
    found: dict[str, Any] = {"n": len(right_B), "solved": float(right_B.mean()), "nfe": float(nfe_B.mean())}
    if stable_B is not None:
        both, stable, right = int((stable_B & right_B).sum()), int(stable_B.sum()), int(right_B.sum())
        found |= {"stable": stable, "stable_and_right": both}
        found |= {"precision": both / stable if stable else None, "recall": both / right if right else None}
    return found


def tried(
    sampler: Sampler, ways: list[str], given: dict[str, Any], right: Callable[[np.ndarray], np.ndarray]
) -> list[dict[str, Any]]:
    rows = []
    for way in ways:
        trace = sampler.sample(**given, seed=0, **options_of(way))
        rows.append({"way": way, **judged(right(trace.tokens), trace.stable, trace.nfe)})
        print(rows[-1], flush=True)
    return rows


def measure(out: Path, tasks: list[str], n: int, ways: list[str]) -> list[dict[str, Any]]:
    rows = []
    for task in tasks:
        for arm in ARMS:
            sampler = load(folder(out, task, arm), "cpu")
            problem: Any = sampler.task
            truth = problem.held_out_examples(n)
            steps = json.loads((folder(out, task, arm) / "metrics.jsonl").read_text().splitlines()[-1])["step"]
            about = {"task": task, "arm": arm, "steps": steps}
            others = np.where(truth.prompt, truth.tokens, np.roll(truth.tokens, 1, axis=0))
            about["by_chance"] = float(problem.solved(others).mean())  # with the answer to another problem
            found = tried(sampler, ways, {"tokens": truth.tokens, "clean": truth.prompt}, problem.solved)
            rows += [about | row for row in found]
    return rows


def sudoku(sets: list[str], checkpoint: str, n: int, ways: list[str]) -> list[dict[str, Any]]:
    rows, sampler = [], load(checkpoint)
    if sampler.device.type == "cuda":
        sampler.compile()
    task: Any = sampler.task
    for name, _, source in (word.partition("=") for word in sets):
        kind, _, value = source.partition(":")
        puzzles, solutions = generate(int(value), n, seed=7_000_000) if kind == "clues" else csvfile.read(source)
        puzzles, solutions = puzzles[:n], solutions[:n]
        print(name, flush=True)
        found = tried(sampler, ways, task.given(puzzles), lambda tokens, s=solutions: task.solved(tokens, s))  # type: ignore
        rows += [{"set": name, **row} for row in found]
    return rows


def text(checkpoints: list[str], n: int, ways: list[str]) -> list[dict[str, Any]]:
    rows = []
    for checkpoint in checkpoints:
        for way in ways:
            trace = load(checkpoint).sample(n, seed=0, **options_of(way))
            assert trace.stable is not None, f"{way} does not check: give a way such as 16+2"
            found = {"n": n, "nfe": float(trace.nfe.mean()), "stable": int(trace.stable.sum())}
            rows.append({"set": f"text: {checkpoint}", "way": way, **found})
            print(rows[-1], flush=True)
    return rows


def speed(checkpoints: list[str], n: int) -> list[dict[str, Any]]:
    """Median milliseconds of n solves of each built-in 9 x 9 puzzle, 4 evaluations, unchecked and checked in turn."""
    rows = []
    for checkpoint in checkpoints:
        sampler = solving.load_sudoku(checkpoint, "cpu")
        for puzzle in (puzzle for puzzle in BUILT_IN if len(puzzle.digits) == 81):
            ask = solving.SolveRequest(checkpoint=checkpoint, puzzle_C=parse(puzzle.digits))
            solving.solve(replace(ask, warm_up=True), sampler)
            pairs = [[solving.solve(replace(ask, self_check=on), sampler) for on in (False, True)] for _ in range(n)]
            plain, checked = ([result.milliseconds for result in results] for results in zip(*pairs, strict=True))
            nfe = [result.nfe for result in pairs[0]]
            about = {"set": f"speed: {puzzle.name}", "n": n, "nfe": nfe[0], "nfe_checked": nfe[1]}
            times = {"milliseconds": median(plain), "milliseconds_checked": median(checked)}
            rows.append({**about, **times, "ratio": median(b / a for a, b in zip(plain, checked, strict=True))})
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "measure", "sudoku", "text", "speed"))
    parser.add_argument("names", nargs="+", metavar="TASK, NAME=SOURCE or CHECKPOINT")
    parser.add_argument("--steps", type=int, default=1000, help="of each run")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--out", type=Path, default=Path("runs/reasoning"))
    parser.add_argument("--checkpoint", default="sudoku")
    parser.add_argument("--n", type=int, default=300, help="problems per set")
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "train":
        train(arguments.out, arguments.names, arguments.arms, arguments.steps)
        return
    if arguments.json is None:
        parser.error("give --json FILE for the numbers")
    if arguments.what == "measure":
        rows = measure(arguments.out, arguments.names, arguments.n, arguments.ways)
    elif arguments.what == "speed":
        rows = speed(arguments.names, arguments.n)
    elif arguments.what == "text":
        rows = text(arguments.names, arguments.n, arguments.ways)
    else:
        rows = sudoku(arguments.names, arguments.checkpoint, arguments.n, arguments.ways)
    key = "task" if arguments.what == "measure" else "set"
    old = json.loads(arguments.json.read_text())["rows"] if arguments.json.is_file() else []
    now = {row[key] for row in rows}
    found = {**made(pick_device("auto")), "rows": [row for row in old if row[key] not in now] + rows}
    write_bytes(arguments.json, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
