"""What each ingredient of the recipe `sudoku-hard` is worth: arms that lack one, with two seeds, for the same GPU time.

    python benchmarks/sudoku_hard.py run --minutes 10 --out runs/hard
    python benchmarks/sudoku_hard.py measure "diabolical=FILE.csv" "hardest=FILE.csv" --out runs/hard --json FILE.json

One run after the other, so that each has the whole GPU. Hard puzzles are slow to make, so that they are made before any
run begins, one file per seed that its arms share (`--hard` of them, on all cores). `measure` solves sets of puzzles
(named as in benchmarks/efforts.py) in several ways (named as in benchmarks/reasoning.py) with every run that is there,
and prints the mean over seeds. `--tiny` makes networks, pools and batches small, to try both on a CPU: `--tiny
--minutes 0.2`.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from reasoning import sudoku as solved_sets

from dbtm.core.atomic import write_bytes
from dbtm.core.device import pick_device
from dbtm.evals.provenance import made
from dbtm.tasks.sudoku import csvfile
from dbtm.tasks.sudoku.hard import generate_hard

RECIPE = "sudoku-hard"
ARMS: dict[str, tuple[str, ...]] = {
    "all of it": (),
    "no own mistakes": ("method.ril.own=0",),
    "no un-commit": ("method.ril.uncommit=false",),
    "fixed loops": ("method.loops=[]",),
    "no self-conditioning": ("model.self_condition=false",),
    "no hard data": ("task.puzzle_files=[]",),
    "quality where not held": ('method.ril.quality_on="open"',),
}
SEEDS = (0, 1)
EFFORTS = ((2, 20), (20, 100))  # as in the recipe
WAYS = ("1", "1x4", "4", "4x4", "16x4", "4+12x4", "revise-16x4", "revise-64x4")
TINY = (
    "model.width=32", "model.depth=2", "model.heads=2", "method.quality.width=16", "method.quality.depth=1",
    "method.ril.depths=[3]", "task.pool=12", "task.evaluate_n=4", "train.batch=8", "train.precision=fp32",
    "train.compile=false", "train.graph=false", "train.device=cpu", "train.evaluate_every=0", "optim.warmup=2",
)  # fmt: skip


def folder(out: Path, arm: str, seed: int) -> Path:
    return out / f"{arm.replace(' ', '-')}-{seed}"


def words(out: Path, arm: str, seed: int, minutes: float, tiny: bool) -> list[str]:
    """The command line of a run."""
    files = json.dumps([str(hard_file(out, effort, seed)) for effort in EFFORTS])
    data = ("task.efforts=[]", f"task.puzzle_files={files}", f"task.seed={seed + 1}")
    settings = (*data, f"train.seed={seed}", *(TINY if tiny else ()), *ARMS[arm])
    run = ["train", RECIPE, "--out", str(folder(out, arm, seed)), "--minutes", str(minutes)]
    return run + [word for setting in settings for word in ("--set", setting)]


def hard_file(out: Path, effort: tuple[int, int], seed: int) -> Path:
    return out / f"effort-{effort[0]}-{effort[1]}-{seed}.csv"


def make_hard(out: Path, seed: int, n: int) -> None:
    """Files of hard puzzles; those that are there stay."""
    for effort in EFFORTS:
        if not hard_file(out, effort, seed).is_file():
            puzzles = generate_hard(effort, n, seed, workers=os.cpu_count() or 1)
            csvfile.write(hard_file(out, effort, seed), *puzzles)


def run(out: Path, minutes: float, hard: int, tiny: bool) -> None:
    """Every arm with every seed; a run that is there already is left out, one that fails is named."""
    out.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        make_hard(out, seed, hard)
        for arm in ARMS:
            if folder(out, arm, seed).exists():
                continue
            with open(f"{folder(out, arm, seed)}.log", "w") as log:
                command = [sys.executable, "-m", "dbtm", *words(out, arm, seed, minutes, tiny)]
                code = subprocess.run(command, stdout=log, stderr=log).returncode
            print(f"{arm}, seed {seed}: exit code {code}", flush=True)


def measure(out: Path, sets: list[str], n: int, ways: list[str]) -> list[dict[str, Any]]:
    rows = []
    for arm in ARMS:
        for seed in SEEDS:
            metrics = folder(out, arm, seed) / "metrics.jsonl"
            if not metrics.is_file():
                continue
            steps = json.loads(metrics.read_text().splitlines()[-1])["step"]
            about = {"arm": arm, "seed": seed, "steps": steps}
            rows += [about | row for row in solved_sets(sets, str(folder(out, arm, seed)), n, ways)]
    return rows


def print_means(rows: list[dict[str, Any]]) -> None:
    for name, way in dict.fromkeys((row["set"], row["way"]) for row in rows):
        here = [row for row in rows if (row["set"], row["way"]) == (name, way)]
        arms = dict.fromkeys(row["arm"] for row in here)
        shares = {arm: mean(row["solved"] for row in here if row["arm"] == arm) for arm in arms}
        print(f"{name}, {way}: " + ", ".join(f"{arm} {100 * share:.1f}" for arm, share in shares.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "measure"))
    parser.add_argument("sets", nargs="*", metavar="NAME=SOURCE")
    parser.add_argument("--minutes", type=float, default=10, help="of each run")
    parser.add_argument("--out", type=Path, default=Path("runs/hard"))
    parser.add_argument("--n", type=int, default=500, help="puzzles per set")
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    parser.add_argument("--hard", type=int, default=10_000, help="hard puzzles per range of efforts and seed")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.what == "run":
        run(given.out.absolute(), given.minutes, 2 if given.tiny else given.hard, given.tiny)
        return
    if given.json is None or not given.sets:
        parser.error("give sets of puzzles, NAME=SOURCE, and --json FILE for the numbers")
    rows = measure(given.out, given.sets, given.n, given.ways)
    if not rows:
        parser.error(f"{given.out}: no arm has been run there")
    print_means(rows)
    about = {"recipe": RECIPE, "minutes": given.minutes, "arms": ARMS, **made(pick_device("auto"))}
    write_bytes(given.json, (json.dumps({**about, "rows": rows}, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
