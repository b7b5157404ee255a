"""Speed of this code against another version, in one run on one machine: writes results/side-by-side.json.

    git archive COMMIT src | tar -x -C other         # another version, here or carried to the machine
    python benchmarks/side_by_side.py other [--recipes sudoku-paper lm1b owt] [--turns 2] [-- --batch 64]

Every turn runs `dbtm bench step` (per recipe) and `dbtm bench sampler` with each version in its own process; the
version that goes first alternates. A row has the milliseconds of all turns and the ratio of the medians, this version's
over the other's. Words after -- go to every benchmark. A benchmark that fails in one version has a row that says so.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dbtm.core.atomic import write_bytes

ROOT = Path(__file__).parent.parent
OUT = ROOT / "results" / "side-by-side.json"
THIS, OTHER = "this", "other"
Timings = dict[str, float]  # what was timed -> milliseconds


def timings(document: dict[str, Any]) -> Timings:
    """The milliseconds of a benchmark's JSON."""
    if "rounds" in document:
        return {f"round, {kind}": ms for kind, ms in document["rounds"]["ms_per_round"].items()}
    return {row["step"]: row["ms"] for row in document["rows"]}


def measure(tree: Path, words: Sequence[str]) -> dict[str, Any]:
    """The JSON of one benchmark of one version, or why there is none."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.json"
        command = [sys.executable, "-m", "dbtm", "bench", *words, "--json", str(path)]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1]}
        return json.loads(path.read_text())


def rows(name: str, runs: dict[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """One row per timed thing that both versions have; one for each version that failed."""
    for version, found in runs.items():
        for failed in {run["failed"] for run in found if "failed" in run}:
            yield {"bench": name, "version": version, "failed": failed}
    there = {version: [timings(run) for run in found if "failed" not in run] for version, found in runs.items()}
    if not all(there.values()):
        return
    for timed in there[THIS][0]:
        if timed not in there[OTHER][0]:
            continue
        ms = {version: [run[timed] for run in found] for version, found in there.items()}
        medians = {version: statistics.median(values) for version, values in ms.items()}
        yield {"bench": name, "timed": timed, "ms": ms, "ratio": medians[THIS] / medians[OTHER]}


def compare(other: Path, recipes: Sequence[str], turns: int, words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """After every turn all rows so far, and the machine and commits as the benchmarks recorded them."""
    benches = {f"step, {recipe}": ["step", "--recipe", recipe] for recipe in recipes} | {"sampler": ["sampler"]}
    trees, document = {THIS: ROOT, OTHER: other.resolve()}, dict[str, Any](rows=[])
    before: list[dict[str, Any]] = []
    for name, bench in benches.items():
        runs: dict[str, list[dict[str, Any]]] = {version: [] for version in trees}
        for turn in range(turns):
            for version in sorted(trees, reverse=bool(turn % 2)):
                runs[version].append(measure(trees[version], [*bench, *words]))
                print(f"{name}, {version}, turn {turn + 1} of {turns}", flush=True)
            document["rows"] = [*before, *rows(name, runs)]
            made = next((run for run in runs[THIS] if "hardware" in run), {})
            yield document | {key: made[key] for key in ("hardware", "torch", "commit", "date") if key in made}
        before = document["rows"]


def main(words: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if words is None else words)
    mine, rest = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="folder with src/ of another version")
    parser.add_argument("--other-commit", default="", help="what that version is, for the record")
    parser.add_argument("--recipes", nargs="*", default=["sudoku-paper", "lm1b", "owt"])
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args(mine)
    if not (asked.other / "src" / "dbtm").is_dir():
        parser.error(f"{asked.other} has no src/dbtm: unpack another version there with `git archive COMMIT src`")
    for found in compare(asked.other, asked.recipes, asked.turns, rest):
        document = {"other": asked.other_commit, **found}
        write_bytes(asked.out, (json.dumps(document, indent=1) + "\n").encode())
    for row in document["rows"]:
        print(f"{row['bench']}, {row.get('timed', row.get('version'))}: {row.get('ratio', row.get('failed'))}")


if __name__ == "__main__":
    main()
