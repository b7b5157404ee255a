"""The two examples of docs/own.md: python benchmarks/own.py [sorted|brackets ...] writes results/own.json.

Each is what a user does: a file of rows, `dbtm train own --data FILE` at its defaults, `dbtm eval own` with a metric in
a file (this one). A run has as many steps as one quiet core makes in 5 and in 10 minutes, because a busy machine makes
fewer in a minute; `--steps N` asks for another number, `--run FOLDER` measures a run that is there. The result has
seconds of CPU time and of the clock.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
OUT = ROOT / "results" / "own.json"
WHOLE = {"top_p": 1.0}  # unlikely symbols too, beside the recipe's own way to sample
PAIRS = {"(": ")", "[": "]"}


# -- rows and metrics: what a user brings ------------------------------------------------------------------------------


def sorted_rows(n: int, seed: int = 0) -> np.ndarray:
    """16 numbers below 32 in rising order."""
    return np.sort(np.random.default_rng(seed).integers(0, 32, (n, 16)), axis=1)


def is_sorted(rows: Sequence[Sequence[int]]) -> list[bool]:
    return [all(a <= b for a, b in pairwise(row)) for row in rows]


def brackets(n: int, seed: int = 0, pairs: int = 12) -> list[str]:
    """Balanced strings of two kinds of brackets, every shape equally likely.

    Cycle lemma: of the rotations of 12 ups and 13 downs just one stays above 0 until its last step.
    """
    rng, rows = np.random.default_rng(seed), []
    for _ in range(n):
        walk = rng.permutation([1] * pairs + [-1] * (pairs + 1))
        low = int(np.argmin(np.cumsum(walk)))
        row, open_ = "", list[str]()
        for step in [*walk[low + 1 :], *walk[: low + 1]][:-1]:
            if step > 0:
                open_.append("(["[rng.integers(2)])
                row += open_[-1]
            else:
                row += PAIRS[open_.pop()]
        rows.append(row)
    return rows


def is_balanced(rows: Sequence[str]) -> list[bool]:
    return [_balanced(row) for row in rows]


def _balanced(row: str) -> bool:
    open_: list[str] = []
    for character in row:
        if character in PAIRS:
            open_.append(PAIRS[character])
        elif not open_ or open_.pop() != character:
            return False
    return not open_


# -- the two examples --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """A file of rows, how long to train, and the metric."""

    file: str
    steps: int
    metric: str

    def write(self, folder: Path, n: int) -> Path:
        path = folder / self.file
        if path.suffix == ".npy":
            np.save(path, sorted_rows(n))
        else:
            path.write_text("".join(row + "\n" for row in brackets(n)))
        return path


EXAMPLES = {
    "sorted": Example("sorted.npy", 2_400, "is_sorted"),
    "brackets": Example("brackets.txt", 3_800, "is_balanced"),
}


def measure(
    name: str, folder: Path, n: int = 20_000, changes: tuple[str, ...] = (), run: Path | None = None
) -> dict[str, Any]:
    """Train as `dbtm train own` does, unless there is a `run`, and evaluate as `dbtm eval own` does."""
    from dbtm.checkpoint.loading import find
    from dbtm.service.evaluation.own_rows import OwnEvaluationRequest, evaluate_own
    from dbtm.service.training import TrainRequest, train

    example = EXAMPLES[name]
    data = example.write(folder, n)
    wall, cpu, took = time.monotonic(), time.process_time(), {}
    if run is None:
        by_steps = (f"train.steps={example.steps}", *changes)
        run = train(TrainRequest("own", data=data, out=folder / name, changes=by_steps))
        took = {"seconds": round(time.monotonic() - wall), "cpu_seconds": round(time.process_time() - cpu)}
    run = find(run)
    metric = f"{Path(__file__).resolve()}:{example.metric}"
    count = 2000 if n >= 20_000 else 50
    request = OwnEvaluationRequest(checkpoint=str(run), metric=metric, n=count, data=data)
    *_, result = evaluate_own(request)
    document = result.document()
    *_, whole = evaluate_own(replace(request, options=WHOLE))
    document["whole"] = {"options": WHOLE, "rows": whole.document()["rows"]}
    document["data"]["metric"] = f"benchmarks/own.py:{example.metric}"
    document["model"].pop("checkpoint", None)
    config = json.loads((run / "config.json").read_text())
    about = {"example": name, "recipe": "own", "rows_of_data": n, "steps": int(run.name[5:]), **took}
    sizes = {key: config["model"][key] for key in ("width", "depth", "heads")}
    return {**about, "seed": config["train"]["seed"], "batch": config["train"]["batch"], **sizes, **document}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("names", nargs="*", choices=[[], *EXAMPLES], help="examples (default: both)")
    words.add_argument("--steps", type=int, help="another number of steps")
    words.add_argument("--run", type=Path, help="a run of the example that is there already")
    asked = words.parse_args()
    found = json.loads(OUT.read_text())["examples"] if OUT.is_file() else {}
    changes = () if asked.steps is None else (f"train.steps={asked.steps}",)
    for name in asked.names or EXAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = measure(name, Path(folder), changes=changes, run=asked.run)
        OUT.write_text(json.dumps({"examples": found}, indent=1) + "\n")
        print(json.dumps(found[name], indent=1), flush=True)


if __name__ == "__main__":
    main()
