"""Why DBTM stops improving on the Markov chain: its sampler's options, its length of training, and its conditionals.

    python benchmarks/markov_study.py --out results/markov-study.json --runs DIR

Every run is measured three ways. `total_variation`: neighbours, at budgets and options of the sampler. `conditional`:
one token is generated from many noises with all others given, and the law of what comes out is held against the exact
one: no order of commits and no second round has a part in it. `first_pair`: the same with everything but two neighbours
given, at one evaluation.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dbtm.checkpoint.loading import load
from dbtm.evals.provenance import made
from dbtm.sampling import Sampler
from dbtm.service.training import TrainRequest, train

RUNS = {
    "280 steps": ("train.steps=280",),
    "800 steps": (),
    "3000 steps": ("train.steps=3000", "train.checkpoint_every=3000"),
    "3000 steps, anchor from t*": ("train.steps=3000", "train.checkpoint_every=3000", "method.path.t_anchor=null"),
    "3000 steps, OT coupling": ("train.steps=3000", "train.checkpoint_every=3000", "method.path.coupling=ot"),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "the recipe's": {},
    "temperature 1": {"temperature": 1.0},
    "threshold 1": {"kappa": 1.0},
    "spread order": {"scorer": "spread"},
}
BUDGETS, SAMPLES = (1, 2, 4, 8), 10_000
CONTEXTS, NOISES = 64, 512


def conditional(sampler: Sampler, free: tuple[int, ...]) -> float:
    """Mean total variation between the law of what is generated at the free places and the exact one."""
    task = sampler.task
    rows = task.held_out_examples(CONTEXTS).tokens
    tokens = np.repeat(rows, NOISES, axis=0)
    clean = np.ones_like(tokens, dtype=bool)
    clean[:, list(free)] = False
    drawn = sampler.sample(tokens=tokens, clean=clean, nfe=1, seed=1).tokens[:, list(free)]
    codes = np.ravel_multi_index(tuple(drawn.T), (task.vocab,) * len(free)).reshape(CONTEXTS, NOISES)
    distances = []
    for row, code in zip(rows, codes, strict=True):
        exact = exact_law(task, row, free)
        share = np.bincount(code, minlength=exact.size) / NOISES
        distances.append(0.5 * np.abs(share - exact.ravel()).sum())
    return float(np.mean(distances))


def exact_law(task: Any, row: np.ndarray, free: tuple[int, ...]) -> np.ndarray:
    """p(the free tokens | the others) of the chain, by enumeration."""
    law = np.zeros((task.vocab,) * len(free))
    for values in np.ndindex(law.shape):
        whole = row.copy()
        whole[list(free)] = values
        law[values] = task.stationary[whole[0]] * np.prod(task.transition[whole[:-1], whole[1:]])
    return law / law.sum()


def noise_floor(task: Any, free: tuple[int, ...]) -> float:
    """What samples of the exact law have by their number alone."""
    generator, rows = np.random.default_rng(0), task.held_out_examples(CONTEXTS).tokens
    distances = []
    for row in rows:
        exact = exact_law(task, row, free).ravel()
        distances.append(0.5 * np.abs(generator.multinomial(NOISES, exact) / NOISES - exact).sum())
    return float(np.mean(distances))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--method", default="dbtm")
    words = parser.parse_args()
    rows = []
    for name, changes in RUNS.items():
        out = words.runs / name.replace(" ", "-").replace(",", "").replace("*", "")
        done = sorted(out.glob("step-*"))
        folder = done[-1] if done else train(TrainRequest("markov", words.method, changes, out=out))
        sampler = load(folder, device="cpu")
        task, inner = sampler.task, sampler.task.length // 2
        table = {
            label: {
                str(nfe): task.pair_distance(sampler.sample(SAMPLES, seed=3, nfe=nfe, **options).tokens)
                for nfe in BUDGETS
            }
            for label, options in OPTIONS.items()
        }
        rows.append(
            {
                "run": name,
                "recipe": "markov",
                "settings": list(changes),
                "seed": sampler.method.config.train.seed,
                "total_variation": table,
                "conditional": conditional(sampler, (inner,)),
                "conditional_floor": noise_floor(task, (inner,)),
                "first_pair": conditional(sampler, (inner, inner + 1)),
                "first_pair_floor": noise_floor(task, (inner, inner + 1)),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
        document = {"samples": SAMPLES, "contexts": CONTEXTS, "noises": NOISES, "rows": rows}
        words.out.write_text(json.dumps(document | made(torch.device("cpu")), indent=1) + "\n")


if __name__ == "__main__":
    main()
