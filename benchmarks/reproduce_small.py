"""Run `dbtm reproduce NAME` at the small scale for every table and figure, and put what they printed, with the CPU time
of each command, into one file.

    python benchmarks/reproduce_small.py --out reproduce --json results/reproduce-small.json

Each command is a process of its own. When it has ended, a line {"name": NAME, "cpu": seconds} is added to times.jsonl
in --out; stopped at any time, the same command goes on, and what has a line is not run again. The CPU time is of all
cores, of the command alone: what a stopped one had done before is not in it, and a table whose runs an earlier one had
trained is quick.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

from dbtm.evals.sweep.journal import append_record, read_records
from dbtm.service.reproduction.registry import ENTRIES, find
from dbtm.service.reproduction.running import finished, stem

TIMES = "times.jsonl"


def run_all(labels: list[str], out: Path, words: list[str]) -> None:
    """Run what has no time yet, or has another plan by now, in the order given."""
    for label in labels:
        if label not in cpu_seconds(out) or not finished(ENTRIES[label], "small", out):
            append_record(out / TIMES, {"name": label, "cpu": seconds(label, out, words)})


def cpu_seconds(out: Path) -> dict[str, float]:
    """The CPU time of the commands by label, in the order in which they ended."""
    found: dict[str, float] = {}
    if (out / TIMES).is_file():
        for _, line in read_records(out / TIMES, cut_short=True):
            found.pop(line["name"], None)
            found[line["name"]] = line["cpu"]
    return found


def seconds(label: str, out: Path, words: list[str]) -> float:
    """The CPU time of one command, all its processes and threads together."""
    command = [sys.executable, "-m", "dbtm", "reproduce", label, "--scale", "small", "--out", str(out), *words]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, 1)


def collect(out: Path) -> dict:
    """The documents of all entries that ran, by label, in the paper's order."""
    cpu = cpu_seconds(out)
    order = list(cpu)
    found = {}
    for label in ENTRIES:
        path = out / f"{stem(label, 'small')}.json"
        if label not in cpu or not path.is_file():
            continue
        document = json.loads(path.read_text())
        kept = {key: document[key] for key in ("differs", "unit", "columns", "rows", "notes", "plan")}
        found[label] = {"cpu_seconds": cpu[label], "ran": order.index(label) + 1, **kept, **document["made"]}
    return {"entries": found}


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="tables and figures by their labels; all of them if none is named")
    parser.add_argument("--out", type=Path, default=Path("reproduce"))
    parser.add_argument("--json", type=Path, default=Path("results/reproduce-small.json"))
    parser.add_argument("--judge", help="as of dbtm reproduce")
    parser.add_argument("--device", default="cpu", help="as of dbtm reproduce")
    given = parser.parse_args(words)
    labels = [find(name).label for name in given.names] or list(ENTRIES)
    given.out.mkdir(parents=True, exist_ok=True)
    more = ["--judge", given.judge] if given.judge else []
    run_all(labels, given.out, ["--device", given.device, *more])
    given.json.write_text(json.dumps(collect(given.out), indent=1) + "\n")


if __name__ == "__main__":
    main()
