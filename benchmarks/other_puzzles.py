"""Puzzles made in other ways, to see whether the packaged model solves more than its own generator's.

    python benchmarks/other_puzzles.py --n 400 --json results/sudoku-others.json

Grids and clues of `dbtm.tasks.sudoku.generate` come from a randomised solver and digging in random order. These do not:
they start from one shuffled textbook grid, or from three boxes filled at random and a solver for the rest, and lose
clues in point-symmetric pairs, in reading order, digit by digit, or until every clue is necessary. Six published ones
join them.
"""

import argparse
import json
from pathlib import Path
from random import Random

import numpy as np
from rich.progress import track

from dbtm import load
from dbtm.core.atomic import write_bytes
from dbtm.evals.provenance import made
from dbtm.evals.sudoku import settings_to_try, solve_rates
from dbtm.tasks.sudoku.puzzle import parse
from dbtm.tasks.sudoku.solver import count_solutions, solve, solve_many

PUBLISHED = {  # name: clues as printed
    "Wikipedia's example": "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79",
    "Project Euler 96, grid 1": "003020600900305001001806400008102900700000008006708200002609500800203009005010300",
    "Norvig's grid2": "4.....8.5.3..........7......2.....6.....8.4......1.......6.3.7.5..2.....1.4......",
    "Inkala 2010": "..53.....8......2..7..1.5..4....53...1..7...6..32...8..6.5....9..4....3......97..",
    "Inkala 2012": "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4..",
    "AI Escargot": "1....7.9..3..2...8..96..5....53..9...1..8...26....4...3......1..4......7..7...3..",
}


def textbook_grid(random: Random) -> np.ndarray:
    """The shifted pattern of tutorials, with rows, columns, bands, stacks and digits shuffled."""

    def lines() -> list[int]:
        return [3 * band + line for band in random.sample(range(3), 3) for line in random.sample(range(3), 3)]

    digits, rows, columns = random.sample(range(1, 10), 9), lines(), lines()
    return np.array([digits[(3 * (r % 3) + r // 3 + c) % 9] for r in rows for c in columns], dtype=np.uint8)


def filled_grid(random: Random) -> np.ndarray:
    """Three random boxes on the diagonal, the rest by the solver in its fixed order."""
    grid = np.zeros((9, 9), dtype=np.uint8)
    for corner in (0, 3, 6):
        grid[corner : corner + 3, corner : corner + 3] = np.array(random.sample(range(1, 10), 9)).reshape(3, 3)
    solution = solve(grid.ravel())
    assert solution is not None
    return solution


def dig(grid: np.ndarray, groups: list[list[int]], fewest: int) -> np.ndarray:
    """Empty the groups of cells in their order, each where the solution stays unique, down to `fewest` clues."""
    puzzle = grid.copy()
    for group in groups:
        without = puzzle.copy()
        without[group] = 0
        if np.count_nonzero(without) >= fewest and count_solutions(without) == 1:
            puzzle = without
    return puzzle


def symmetric(random: Random) -> np.ndarray:
    """Clues symmetric about the centre, as newspapers print them."""
    pairs = [[cell, 80 - cell] if cell != 40 else [40] for cell in range(41)]
    return dig(textbook_grid(random), random.sample(pairs, len(pairs)), random.randint(26, 36))


def minimal(random: Random) -> np.ndarray:
    """Minimal: every clue is necessary."""
    return dig(filled_grid(random), [[cell] for cell in random.sample(range(81), 81)], 17)


def reading_order(random: Random) -> np.ndarray:
    """Clues removed in reading order, so most clues are in the last rows."""
    return dig(filled_grid(random), [[cell] for cell in range(81)], random.randint(28, 34))


def by_digit(random: Random) -> np.ndarray:
    """Clues removed digit by digit, so some digits are rare."""
    grid, cells = textbook_grid(random), random.sample(range(81), 81)
    return dig(grid, [[cell] for cell in sorted(cells, key=grid.__getitem__)], random.randint(26, 32))


def easy(random: Random) -> np.ndarray:
    """Many clues left, at random."""
    return dig(textbook_grid(random), [[cell] for cell in random.sample(range(81), 81)], random.randint(36, 50))


MAKERS = (symmetric, minimal, reading_order, by_digit, easy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=400, help="puzzles of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nfe", default="1,2,4,8,16")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    budgets = [int(word) for word in options.nfe.split(",")]
    kinds = {}
    for make in MAKERS:
        random = Random(f"{options.seed} {make.__name__}")
        puzzles = np.stack([make(random) for _ in track(range(options.n), make.__name__.replace("_", " "))])
        kinds[make.__name__.replace("_", " ")] = (puzzles, (make.__doc__ or "").rstrip("."))
    kinds["published"] = (np.stack([parse(text) for text in PUBLISHED.values()]), ", ".join(PUBLISHED))
    sampler, rows = load("sudoku"), []
    for name, (puzzles, about) in kinds.items():
        solutions, counts = solve_many(puzzles)
        assert (counts == 1).all(), f"{name}: a puzzle with {counts[counts != 1][0]} solutions"
        clues = np.count_nonzero(puzzles, axis=-1)
        given = {"kind": name, "about": about, "fewest_clues": int(clues.min()), "most_clues": int(clues.max())}
        print(f"{name}: {clues.min()} to {clues.max()} clues, {clues.mean():.1f} on average")
        for score in solve_rates(sampler, puzzles, solutions, settings_to_try(sampler, budgets)):
            share = f"{score.solved} of {score.total}, {100 * score.solved / score.total:.1f} %"
            print(f"  {score.settings['nfe']:2d} NFE: {share}", flush=True)
            rows.append(given | {"mean_clues": float(clues.mean())} | score.document())
    if options.json:
        made_by = {"seed": options.seed, "model": "sudoku (packaged)"} | made(sampler.device)
        write_bytes(options.json, (json.dumps({"rows": rows} | made_by, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
