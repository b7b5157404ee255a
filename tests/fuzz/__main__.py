"""`python -m tests.fuzz --minutes 10`: all readers and commands in turn, with new inputs, until the time is up."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from tests.fuzz.harness import MEMORY, SECONDS, Report, run
from tests.fuzz.result import add
from tests.fuzz.targets import TARGETS, warm_up

BATCH = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--inputs", type=int, default=0, help="so many in all, however long it takes")
    parser.add_argument("--json", type=Path, default=None, help="write the counts to this file")
    parser.add_argument("--only", default="", help="targets, with commas between")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--save", type=Path, default=None, help="a folder for inputs that fail")
    asked = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not survive a fork
    torch.set_num_threads(1)
    names = asked.only.split(",") if asked.only else [*TARGETS]
    save = asked.save or Path(tempfile.mkdtemp(prefix="dbtm-fuzz-failures-"))
    warm_up()
    reports = {name: Report() for name in names}
    end, first = time.monotonic() + 60 * asked.minutes, asked.first
    done = 0
    while done < asked.inputs if asked.inputs else time.monotonic() < end:
        for name in names:
            found = run(TARGETS[name], range(first, first + BATCH), save)
            whole = reports[name]
            whole.counts += found.counts
            whole.failures += found.failures
            whole.slowest, whole.largest = max(whole.slowest, found.slowest), max(whole.largest, found.largest)
            for failure in found.failures[:5]:
                print(failure, flush=True)
            done += BATCH
            if not asked.inputs and time.monotonic() >= end:
                break
        first += BATCH
    _table(reports)
    add(asked.json, "fuzz", _document(reports))
    failed = sum(len(report.failures) for report in reports.values())
    print(f"{failed} failures; their inputs are in {save}" if failed else "no failures")
    return 1 if failed else 0


def _document(reports: dict[str, Report]) -> dict[str, Any]:
    rows = [
        {
            "reader": name,
            "inputs": report.counts.total(),
            "accepted": report.counts["accepted"],
            "refused": report.counts["refused"],
            "failed": report.counts["failed"],
            "slowest_seconds": round(report.slowest, 3),
            "most_mib": report.largest >> 20,
        }
        for name, report in reports.items()
    ]
    limits = {"seconds": SECONDS, "mib": MEMORY >> 20}
    return {"inputs": sum(row["inputs"] for row in rows), "limits": limits, "rows": rows}


def _table(reports: dict[str, Report]) -> None:
    print(f"\n{'reader':<16}{'inputs':>8}{'accepted':>10}{'refused':>9}{'failed':>8}{'slowest':>10}{'memory':>10}")
    for name, report in reports.items():
        counts = report.counts
        print(
            f"{name:<16}{counts.total():>8}{counts['accepted']:>10}{counts['refused']:>9}{counts['failed']:>8}"
            f"{report.slowest:>8.2f} s{report.largest >> 20:>6} MiB"
        )
    print(f"{'all':<16}{sum(report.counts.total() for report in reports.values()):>8}")


if __name__ == "__main__":
    sys.exit(main())
