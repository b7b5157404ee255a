"""Exact-solve rates of a Sudoku model over sampler settings."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.evals.intervals import wilson
from dbtm.evals.settings import described, over_budgets
from dbtm.sampling import Sampler
from dbtm.tasks.base import Task
from dbtm.tasks.sudoku.task import Sudoku


@dataclass(frozen=True)
class SudokuScore:
    """The score of one sampler setting on one set of puzzles."""

    settings: dict[str, Any]
    """The sampler's settings (`settings.described`)."""
    solved: int
    """Puzzles with every cell right."""
    total: int
    mean_nfe: float
    """Network evaluations used on average."""
    seconds: float
    tuned: bool | None = None
    """Whether kappa is the checkpoint's for this budget; None if the sampler has no kappa."""
    clues: int | None = None
    """Number of clues of generated puzzles."""

    def document(self) -> dict[str, Any]:
        """The row for the JSON, with the rate, its 95 % interval and the throughput."""
        low, high = wilson(self.solved, self.total)
        counted = {"solved": self.solved, "total": self.total, "mean_nfe": self.mean_nfe, "seconds": self.seconds}
        derived = {
            "rate": self.solved / self.total,
            "low": low,
            "high": high,
            "puzzles_per_second": self.total / self.seconds,
        }
        optional = {name: getattr(self, name) for name in ("tuned", "clues") if getattr(self, name) is not None}
        return {**self.settings, **counted, **optional, **derived}


def sudoku_task(task: Task | None) -> Sudoku:
    """The task of a checkpoint; an error if it is not Sudoku."""
    if not isinstance(task, Sudoku):
        raise UsageError(f"this checkpoint was trained on '{task.name if task else 'nothing'}', not on sudoku")
    return task


def settings_to_try(
    sampler: Sampler,
    budgets: Sequence[int] | None = None,
    kappas: Sequence[float] = (),
    options: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The distinct options over budgets and thresholds: a budget of 1 commits everything at any threshold."""
    tried = []
    for each in over_budgets(sampler, budgets, options):
        thresholds = kappas[:1] if each.get("nfe") == 1 else kappas
        tried += [{**each, "kappa": kappa} for kappa in thresholds] or [each]
    for each in tried:
        sampler.with_options(**each)
    return tried


def for_every_threshold(score: SudokuScore, kappas: Sequence[float]) -> list[SudokuScore]:
    """The score, or for a budget of 1 a copy per requested threshold."""
    if score.settings.get("nfe") != 1 or not kappas:
        return [score]
    return [replace(score, settings={**score.settings, "kappa": kappa}) for kappa in kappas]


def solve_rates(
    sampler: Sampler,
    puzzles_BC: np.ndarray,
    solutions_BC: np.ndarray,
    settings: Sequence[Mapping[str, Any]],
    seed: int = 0,
    clues: int | None = None,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Iterator[SudokuScore]:
    """One score per setting; `progress` is called with the puzzles done within a setting."""
    task = sudoku_task(sampler.task)
    given = task.given(puzzles_BC)
    # One evaluation before timing: the first includes allocation and kernel selection.
    once: dict[str, Any] = {"nfe": 1} if sampler.has_budget else {}
    few = {name: rows[: sampler.processes] for name, rows in given.items()}
    sampler.sample(**few, cancelled=cancelled, **once)
    for options in settings:
        start = time.perf_counter()
        trace = sampler.sample(**given, seed=seed, progress=progress, cancelled=cancelled, **options)
        seconds = time.perf_counter() - start
        solved = task.solved(trace.tokens, solutions_BC)
        chosen = described(sampler, options)
        yield SudokuScore(
            settings=chosen,
            solved=int(solved.sum()),
            total=len(solved),
            mean_nfe=float(trace.nfe.mean()),
            seconds=seconds,
            tuned="kappa" not in options if "kappa" in chosen else None,
            clues=clues,
        )


def refuse_trained(task: Sudoku, clues: int, seed: int) -> None:
    """Refuse puzzles that the checkpoint was trained on.

    The pool of the i-th range of clues has its own seed, and the generator's stream is keyed by seed and range. So only
    the same seed with the same clues gives the same puzzles, and only this is refused.
    """
    for (fewest, most), trained in task.pools():
        if seed == trained and fewest == most == clues:
            raise UsageError(
                f"seed {seed} with {clues} clues gives puzzles that this checkpoint was trained on: choose another seed"
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
    # There are so few 4 x 4 puzzles that another seed repeats some of the pool: they are left out.
    puzzles_BC, solutions_BC = generate(clues, 2 * n, seed, box=task.box, workers=workers)
    pool = {puzzle_C.tobytes() for puzzle_C in task.puzzles[0]}
    new_B = np.array([puzzle_C.tobytes() not in pool for puzzle_C in puzzles_BC])
    if new_B.sum() < n:
        raise UsageError(f"only {new_B.sum()} puzzles with {clues} clues are not in the training pool, fewer than {n}")
    return puzzles_BC[new_B][:n], solutions_BC[new_B][:n]
