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
from tests.fuzz.result import add_shares
from tests.fuzz.targets import TARGETS, warm_up

BATCH, BATCH_OF_COMMANDS = 150, 50  # inputs in turn: a command costs more, and says less about files


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--inputs", type=int, default=0, help="so many in all, however long it takes")
    parser.add_argument("--json", type=Path, default=None, help="add the counts to this file, as they grow")
    parser.add_argument("--only", default="", help="targets, with commas between")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--save", type=Path, default=None, help="a folder for inputs that fail")
    asked = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not survive a fork
    torch.set_num_threads(1)
    names = asked.only.split(",") if asked.only else [*TARGETS]
    save = asked.save or Path(tempfile.mkdtemp(prefix="dbtm-fuzz-failures-"))
    warm_up(names)
    reports = {name: Report() for name in names}
    end = time.monotonic() + 60 * asked.minutes

    def over() -> bool:
        done = sum(report.counts.total() for report in reports.values())
        return done >= asked.inputs if asked.inputs else time.monotonic() >= end

    while not over():
        for name in names:
            if not over():
                _go_on(name, asked.first, reports[name], save)
        add_shares(asked.json, {"seconds": SECONDS, "mib": MEMORY >> 20}, _shares(reports, asked.first))
    _table(reports)
    failed = sum(len(report.failures) for report in reports.values())
    print(f"{failed} failures; their inputs are in {save}" if failed else "no failures")
    return 1 if failed else 0


def _go_on(name: str, first: int, whole: Report, save: Path) -> None:
    """The next inputs of a target."""
    start = first + whole.counts.total()
    size = BATCH_OF_COMMANDS if name.startswith("dbtm ") else BATCH
    found = run(TARGETS[name], range(start, start + size), save)
    whole.counts += found.counts
    whole.failures += found.failures
    whole.slowest, whole.largest = max(whole.slowest, found.slowest), max(whole.largest, found.largest)
    for failure in found.failures[:5]:
        print(failure, flush=True)


def _shares(reports: dict[str, Report], first: int) -> list[dict[str, Any]]:
    return [
        {
            "reader": name,
            "first": first,
            "inputs": report.counts.total(),
            "accepted": report.counts["accepted"],
            "refused": report.counts["refused"],
            "failed": report.counts["failed"],
            "slowest_seconds": round(report.slowest, 3),
            "most_mib": report.largest >> 20,
        }
        for name, report in reports.items()
    ]


def _table(reports: dict[str, Report]) -> None:
    print(f"\n{'reader':<20}{'inputs':>8}{'accepted':>10}{'refused':>9}{'failed':>8}{'slowest':>10}{'memory':>10}")
    for name, report in reports.items():
        counts = report.counts
        print(
            f"{name:<20}{counts.total():>8}{counts['accepted']:>10}{counts['refused']:>9}{counts['failed']:>8}"
            f"{report.slowest:>8.2f} s{report.largest >> 20:>6} MiB"
        )
    print(f"{'all':<20}{sum(report.counts.total() for report in reports.values()):>8}")


if __name__ == "__main__":
    sys.exit(main())
