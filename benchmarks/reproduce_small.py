"""What `dbtm reproduce NAME` printed at the small scale, and the CPU time of each command, in one file.

    python benchmarks/reproduce_small.py --out reproduce --times times.jsonl --json results/reproduce-small.json

`times.jsonl` has a line {"name": NAME, "cpu": seconds} per command, in the order in which they ran. A table whose runs
an earlier one had trained is quick.
"""

import argparse
import json
from pathlib import Path

from dbtm.service.reproduction.registry import ENTRIES, find


def collect(out: Path, times: Path) -> dict:
    """The documents of all entries that ran, by label, in the paper's order."""
    lines = [json.loads(line) for line in times.read_text().splitlines()]
    seconds = {find(line["name"]).label: line["cpu"] for line in lines}
    order = list(seconds)
    found = {}
    for label in ENTRIES:
        path = out / f"{label.replace(':', '-')}-small.json"
        if label not in seconds or not path.is_file():
            continue
        document = json.loads(path.read_text())
        kept = {key: document[key] for key in ("differs", "unit", "columns", "rows", "notes", "plan")}
        found[label] = {"cpu_seconds": seconds[label], "ran": order.index(label) + 1, **kept, **document["made"]}
    return {"entries": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("reproduce"))
    parser.add_argument("--times", type=Path, required=True)
    parser.add_argument("--json", type=Path, default=Path("results/reproduce-small.json"))
    given = parser.parse_args()
    given.json.write_text(json.dumps(collect(given.out, given.times), indent=1) + "\n")


if __name__ == "__main__":
    main()
