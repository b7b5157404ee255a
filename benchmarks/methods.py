"""Methods on the Markov chain with their default settings: total variation of neighbours at every budget.

    python benchmarks/methods.py mdlm duo --out results/methods-markov.json

A method that needs a teacher is trained from the run of its teacher, which is trained first. Rows of methods that are
not named stay in the file as they are.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import torch

from dbtm.checkpoint.loading import load
from dbtm.core.registry import METHODS
from dbtm.evals.provenance import made
from dbtm.service.training import TrainRequest, train

BUDGETS, SAMPLES = (1, 2, 4, 8, 16, 32), 20_000


def trained(method: str, folder: Path, changes: tuple[str, ...] = ()) -> tuple[Path, float]:
    """A run of the recipe 'markov' by a method, and the seconds that it took, its teacher's left aside."""
    out = folder / method
    teacher = METHODS.get(method).teacher
    init = trained(teacher, folder)[0] if teacher else None
    if (out / "done").exists():
        checkpoint, seconds = json.loads((out / "done").read_text())
        return Path(checkpoint), seconds
    shutil.rmtree(out, ignore_errors=True)
    started = time.monotonic()
    saved = train(TrainRequest("markov", method, changes, out=out, init=init))
    seconds = time.monotonic() - started
    (out / "done").write_text(json.dumps([str(saved), seconds]))
    return saved, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=Path, help="keep the runs here, where teachers are found again")
    words = parser.parse_args()
    rows = {row["method"]: row for row in json.loads(words.out.read_text())["rows"]} if words.out.exists() else {}
    with tempfile.TemporaryDirectory() as scratch:
        for method in words.methods:
            folder, seconds = trained(method, words.runs or Path(scratch))
            sampler = load(folder, device="cpu")
            task, config = sampler.task, sampler.method.config
            budgets = BUDGETS if sampler.has_budget else (None,)
            distance = {}
            for nfe in budgets:
                options = {} if nfe is None else {"nfe": nfe}
                distance[str(nfe or "all")] = task.pair_distance(sampler.sample(SAMPLES, **options).tokens)
            rows[method] = {
                "recipe": "markov",
                "method": method,
                "teacher": METHODS.get(method).teacher,
                "seed": config.train.seed,
                "steps": config.train.steps,
                "batch": config.train.batch,
                "parameters": sum(p.numel() for p in sampler.network.parameters()),
                "seconds": round(seconds),
                "samples": SAMPLES,
                "total_variation": distance,
                "independent": task.independent_bound,
                **made(torch.device("cpu")),
            }
            print(method, {k: round(v, 4) for k, v in distance.items()}, f"{seconds:.0f} s", flush=True)
            document = {"rows": [rows[name] for name in sorted(rows)]}
            words.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
