"""How hard sets of puzzles are, by the guesses that a solver needs.

    python benchmarks/efforts.py "30 clues=clues:30" "hard=effort:10-100" "theirs=FILE.csv" --json FILE.json

A set is NAME=clues:N (generated, N clues), NAME=effort:A-B (generated, hard) or NAME=FILE, a CSV file as
`dbtm eval sudoku` reads it.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from dbtm.core.atomic import write_bytes
from dbtm.evals.provenance import made
from dbtm.tasks.sudoku import csvfile
from dbtm.tasks.sudoku.effort import SEARCHES, efforts
from dbtm.tasks.sudoku.generate import generate
from dbtm.tasks.sudoku.hard import generate_hard

SHARES = (5, 50, 95)


def puzzles_of(source: str, n: int) -> np.ndarray:
    kind, _, value = source.partition(":")
    if kind == "clues":
        return generate(int(value), n, seed=1)[0]
    if kind == "effort":
        low, high = map(int, value.split("-"))
        return generate_hard((low, high), n, seed=1)[0]
    return csvfile.read(source)[0][:n]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="NAME=SOURCE")
    parser.add_argument("--n", type=int, default=300, help="puzzles per set")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    rows = []
    for name, _, source in (word.partition("=") for word in arguments.sets):
        puzzles_BC = puzzles_of(source, arguments.n)
        clues_B = np.count_nonzero(puzzles_BC, axis=1)
        rows.append(
            {
                "name": name,
                "source": Path(source).name,
                "n": len(puzzles_BC),
                "clues": [int(clues_B.min()), int(clues_B.max())],
                "singles": np.percentile(efforts(puzzles_BC), SHARES).round(1).tolist(),
                "logic": np.percentile(efforts(puzzles_BC, logic=True), SHARES).round(1).tolist(),
            }
        )
        print(rows[-1], flush=True)
    about = {"shares": SHARES, "searches": SEARCHES, "rows": rows}
    write_bytes(arguments.json, (json.dumps({**about, **made(torch.device("cpu"))}, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
