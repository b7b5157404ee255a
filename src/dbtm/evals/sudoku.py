"""Exact-solve rates of a Sudoku model over budgets of network evaluations and commit thresholds."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.evals.intervals import wilson
from dbtm.sampling.sampler import Sampler
from dbtm.tasks.sudoku.task import Sudoku


@dataclass(frozen=True)
class Row:
    """One setting on one set of puzzles."""

    nfe: int
    """The budget of network evaluations."""
    kappa: float | None
    """The commit threshold; None where commits are spread. At a budget of 1 everything is committed at once."""
    tuned: bool
    """Whether kappa is the one that the checkpoint keeps for this budget."""
    scorer: str
    solved: int
    """Puzzles whose every cell is that of the solution."""
    total: int
    mean_nfe: float
    """Network evaluations used on average: a puzzle stops when all its cells are committed."""
    seconds: float
    clues: int | None = None
    """Clues of the puzzles, where they were generated with so many."""

    def document(self) -> dict[str, Any]:
        """The row as it stands in the JSON: with the rate, its 95 % interval and the throughput."""
        low, high = wilson(self.solved, self.total)
        derived = {
            "rate": self.solved / self.total,
            "low": low,
            "high": high,
            "puzzles_per_second": self.total / self.seconds,
        }
        values = {name: value for name, value in asdict(self).items() if (name, value) != ("clues", None)}
        return {**values, **derived}


def settings(nfes: Sequence[int], kappas: Sequence[float | None]) -> list[tuple[int, float | None]]:
    """The (budget, threshold) pairs that differ: a budget of 1 is asked once. None stands for the tuned threshold."""
    return [(nfe, kappa) for nfe in nfes for kappa in (kappas if nfe > 1 else kappas[:1])]


def of_thresholds(row: Row, kappas: Sequence[float | None]) -> list[Row]:
    """The row, or with a budget of 1 one for every threshold that was asked for: the number is the same."""
    asked = [kappa for kappa in kappas if kappa is not None]
    return [replace(row, kappa=kappa) for kappa in asked] if row.nfe == 1 and asked else [row]


def sweep(
    sampler: Sampler,
    puzzles_BC: np.ndarray,
    solutions_BC: np.ndarray,
    pairs: Sequence[tuple[int, float | None]],
    scorer: str | None = None,
    seed: int = 0,
    clues: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Row]:
    """One row for every (budget, threshold); `progress` is called with the puzzles done within the row."""
    task = sampler.task
    assert isinstance(task, Sudoku)
    given = task.given(puzzles_BC)
    # The first evaluation pays for allocations and kernel choices: it is made before the clock runs.
    sampler.sample(tokens=given["tokens"][:1], clean=given["clean"][:1], nfe=1)
    for nfe, kappa in pairs:
        changes: dict[str, Any] = {"nfe": nfe}
        changes |= {} if kappa is None else {"kappa": kappa}
        changes |= {} if scorer is None else {"scorer": scorer}
        options = sampler.with_options(**changes)
        start = time.perf_counter()
        trace = sampler.sample(**given, seed=seed, progress=progress, **changes)
        seconds = time.perf_counter() - start
        solved = (task.layout.decode(trace.tokens) == solutions_BC).all(-1)
        yield Row(
            nfe=nfe,
            kappa=options.threshold,
            tuned=kappa is None,
            scorer=options.scorer,
            solved=int(solved.sum()),
            total=len(solved),
            mean_nfe=float(trace.nfe.mean()),
            seconds=seconds,
            clues=clues,
        )


def refuse_trained(task: Sudoku, clues: int, seed: int) -> None:
    """Refuse puzzles that the checkpoint was trained on: a solve rate on them would say nothing.

    The pool of the i-th range of clues comes from a seed of its own, and the generator's stream is keyed by seed and
    range together; so only the same seed with the same clues makes the same puzzles, and nothing else is refused.
    """
    for (fewest, most), trained in task.pools():
        if seed == trained and fewest == most == clues:
            raise UsageError(
                f"--seed {seed} with {clues} clues gives puzzles that this checkpoint was trained on: choose another"
            )


def held_out(
    task: Sudoku, clues: int, n: int, seed: int, progress: Callable[[int], None] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """n puzzles with their solutions that the checkpoint was not trained on."""
    from dbtm.tasks.sudoku.generate import generate

    refuse_trained(task, clues, seed)
    workers = os.cpu_count() or 1
    if task.box > 2:
        return generate(clues, n, seed, box=task.box, workers=workers, progress=progress)
    # There are so few 4 x 4 puzzles that another seed meets those of the pool again: they are left out.
    puzzles_BC, solutions_BC = generate(clues, 2 * n, seed, box=task.box, workers=workers)
    pool = {puzzle_C.tobytes() for puzzle_C in task.puzzles[0]}
    new_B = np.array([puzzle_C.tobytes() not in pool for puzzle_C in puzzles_BC])
    if new_B.sum() < n:
        raise UsageError(f"--n {n}: only {new_B.sum()} puzzles with {clues} clues are not in the training pool")
    return puzzles_BC[new_B][:n], solutions_BC[new_B][:n]
