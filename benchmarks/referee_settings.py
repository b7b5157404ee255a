"""Which settings suit DBTM in the referee's short runs: one row per trial, with the referee's own command.

    python benchmarks/referee_settings.py run markov --out runs/settings
    python benchmarks/referee_settings.py collect --out runs/settings

One seed each; the settings that the comparison then uses (src/dbtm/service/refereeing/entries.py) were chosen from
these, so that seed 0 of `dbtm` is one that it was chosen by. `collect` writes results/referee-settings.json.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from dbtm.core.atomic import write_bytes

JSON = Path(__file__).parent.parent / "results" / "referee-settings.json"
NFE = (1, 2, 4, 8, 16)
POSTERIOR = ("method.posterior.weight=1", "sample.mean_from=2")
SPREAD = (*POSTERIOR, "sample.scorer=spread")
QUARTER, HALF = "method.loss.interpolant_fraction=0.25", "method.loss.interpolant_fraction=0.5"
CONTEXTS = (*SPREAD, "method.posterior.spread=1")
CROSS_ENTROPY = (
    *("method.loss.transport=0", "method.ril.weight=0"),
    *("method.path.t_anchor=0", "method.loss.interpolant_fraction=1"),
)
OURS = "dbtm"
TRIALS: dict[str, dict[str, tuple[str, ...]]] = {
    "markov": {
        "the recipe": (),
        "posterior": POSTERIOR,
        "posterior, threshold 1": (*POSTERIOR, "sample.kappa=1"),
        "posterior, spread order": SPREAD,
        "posterior, spread order, half": (*SPREAD, HALF),
        "posterior, spread contexts, half": (*CONTEXTS, HALF),
        "posterior, spread contexts, quarter": (*CONTEXTS, QUARTER),
        "the same, anchor from .3": (*CONTEXTS, QUARTER, "method.path.t_anchor=0.3"),
        "the same, c = .01": (*CONTEXTS, QUARTER, "method.loss.c=0.01"),
        "posterior of weight 3, spread contexts, quarter": (*CONTEXTS, QUARTER, "method.posterior.weight=3"),
        "posterior of weight 10, spread contexts, quarter": (*CONTEXTS, QUARTER, "method.posterior.weight=10"),
    },
    "sudoku-mini": {
        "the recipe": (),
        "no transport": ("method.loss.transport=0",),
        "cross-entropy at all times": CROSS_ENTROPY,
    },
}
RECIPE = {  # what the referee's own settings of an entry change back to
    "markov": (
        *("method.posterior.weight=0", "method.posterior.spread=0", "method.loss.interpolant_fraction=1"),
        *("sample.mean_from=0", "sample.scorer=confidence"),
    ),
    "sudoku-mini": (
        *("method.loss.transport=1", "method.ril.weight=1"),
        *("method.path.t_anchor=0.69", "method.loss.interpolant_fraction=0.25"),
    ),
}


def folder(out: Path, task: str, trial: str) -> Path:
    return out / f"{task}-{list(TRIALS[task]).index(trial)}"


def words(out: Path, task: str, trial: str) -> list[str]:
    """The command line of a trial: the recipe's settings, then those that are tried."""
    changes = (*RECIPE[task], *TRIALS[task][trial])
    run = ["referee", task, "--methods", OURS, "--seeds", "1", "--nfe", ",".join(map(str, NFE)), "--jobs", "1"]
    run += ["--device", "cpu", "--out", str(folder(out, task, trial))]
    return run + [word for change in changes for word in ("--set", f"{OURS}:{change}")]


def run(out: Path, tasks: list[str]) -> None:
    for task in tasks:
        for trial in TRIALS[task]:
            code = subprocess.run([sys.executable, "-m", "dbtm", *words(out, task, trial)]).returncode
            print(f"{task}, {trial}: exit code {code}", flush=True)


def collect(out: Path) -> None:
    """Write the rows of all trials that are there; those of other tasks stay."""
    old = json.loads(JSON.read_text())["rows"] if JSON.is_file() else []
    rows = []
    for task, trials in TRIALS.items():
        for trial, changes in trials.items():
            path = folder(out, task, trial) / "referee.json"
            if path.is_file():
                rows.append({"task": task, "trial": trial, "settings": list(changes), **measured(path)})
    now = {(row["task"], row["trial"]) for row in rows}
    kept = [row for row in old if (row["task"], row["trial"]) not in now]
    write_bytes(JSON, (json.dumps({"rows": kept + rows}, indent=1) + "\n").encode())


def measured(path: Path) -> dict:
    document = json.loads(path.read_text())
    (entry,) = document["entries"]
    (run,) = entry["runs"]
    values = {name: found["value"] for name, found in entry["budgets"].items()}
    about = {name: run[name] for name in ("seed", "steps", "flops", "hardware", "commit")}
    return {**about, "n": document["settings"]["n"], "values": values}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "collect"))
    parser.add_argument("tasks", nargs="*", choices=[[], *TRIALS], help="default: all")
    parser.add_argument("--out", type=Path, default=Path("runs/settings"))
    given = parser.parse_args()
    if given.what == "run":
        run(given.out, given.tasks or list(TRIALS))
    else:
        collect(given.out)


if __name__ == "__main__":
    main()
