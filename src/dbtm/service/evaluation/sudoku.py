"""Solve rates of a checkpoint on Sudokus, over sampler settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.evals import sudoku
from dbtm.evals.cost import cost_of_run
from dbtm.evals.provenance import made
from dbtm.evals.sudoku import SudokuScore
from dbtm.recipes import recipe
from dbtm.service.evaluation import Meter
from dbtm.service.evaluation.models import describe_model
from dbtm.service.evaluation.together import load_shared
from dbtm.service.progress import Progress
from dbtm.tasks.sudoku import csvfile
from dbtm.tasks.sudoku.clues import clue_range
from dbtm.tasks.sudoku.task import Sudoku


@dataclass(frozen=True, kw_only=True)
class SudokuEvaluationRequest:
    """Puzzles of a file, or `n` new ones per number of clues."""

    checkpoint: str = "sudoku"
    puzzles: Path | None = None
    clues: tuple[int, ...] = ()
    n: int = 2000
    seed: int = 2_000_000  # of new puzzles, and of the sampler
    budgets: tuple[int, ...] | None = None  # None: 1 to 16, or the method's own
    kappas: tuple[float, ...] = ()  # empty: the checkpoint's own
    options: Mapping[str, Any] = field(default_factory=dict)  # further sampler options
    batch: int | None = None  # None: 1024 on a GPU, else 32
    device: str = "auto"


@dataclass(frozen=True)
class PuzzleSet:
    """Puzzles that are evaluated together, and how many are solved."""

    puzzles_BC: np.ndarray
    solutions_BC: np.ndarray
    clues: int | None = None  # None: those of a file
    scores: tuple[SudokuScore, ...] = ()


@dataclass(frozen=True)
class SudokuEvaluation:
    """Solve rates of every set of puzzles at every setting."""

    request: SudokuEvaluationRequest
    sets: tuple[PuzzleSet, ...]
    model: dict[str, Any]
    data: dict[str, Any]
    made: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """The JSON: one evaluation commits everything at any threshold, so its rate is repeated for each."""
        scores = [each for group in self.sets for score in group.scores for each in self._for_every_threshold(score)]
        return {"rows": [score.document() for score in scores], "model": self.model, "data": self.data, **self.made}

    def _for_every_threshold(self, score: SudokuScore) -> list[SudokuScore]:
        return sudoku.for_every_threshold(score, self.request.kappas)


def evaluate_sudoku(request: SudokuEvaluationRequest, progress: Progress = Progress()) -> Iterator[SudokuEvaluation]:
    """Exact-solve rates; a result after every setting of every set."""
    if (request.puzzles is None) == (not request.clues):
        raise UsageError("give either a file of puzzles or numbers of clues")
    sampler = load_shared(request.checkpoint, request.device)
    task = sudoku.sudoku_task(sampler.task)
    sampler.batch = request.batch or (1024 if sampler.device.type == "cuda" else 32)
    settings = sudoku.settings_to_try(sampler, request.budgets, request.kappas, request.options)
    sets, data = _puzzles(request, task, progress)
    # the cost of the paper's model
    model = describe_model(sampler, request.checkpoint, request.options) | {
        "paper": cost_of_run(recipe("sudoku-paper"))
    }
    result = SudokuEvaluation(request, sets, model, data | {"seed": request.seed}, made(sampler.device))
    for i, group in enumerate(result.sets):
        n, meter = len(group.puzzles_BC), Meter(progress)
        of_clues = f" with {group.clues} clues" if group.clues else ""
        progress.stage(f"solving {n} puzzles{of_clues}", len(settings) * n)
        puzzles = group.puzzles_BC, group.solutions_BC
        for score in sudoku.solve_rates(
            sampler, *puzzles, settings, request.seed, group.clues, meter, progress.cancelled
        ):
            meter.before += n
            group = replace(group, scores=(*group.scores, score))
            sets = (*sets[:i], group, *sets[i + 1 :])
            yield replace(result, sets=sets)


def _puzzles(
    request: SudokuEvaluationRequest, task: Sudoku, progress: Progress
) -> tuple[tuple[PuzzleSet, ...], dict[str, Any]]:
    """The sets, and their description in the JSON."""
    if request.puzzles is not None:
        puzzles_BC, solutions_BC = csvfile.read(request.puzzles)
        n, cells = puzzles_BC.shape
        if cells != task.layout.cells:
            raise UsageError(
                f"{request.puzzles} has grids of {cells} cells, but the checkpoint solves {task.layout.cells}"
            )
        about = {"file": request.puzzles.name, "sha256": sha256(request.puzzles), "n": n}
        return (PuzzleSet(puzzles_BC, solutions_BC),), about
    for clues in request.clues:  # errors come before the work
        clue_range(clues, task.box)
        sudoku.refuse_trained(task, clues, request.seed)
    sets = []
    for clues in request.clues:
        progress.stage(f"making {request.n} puzzles with {clues} clues", request.n)
        meter = Meter(progress)
        sets.append(PuzzleSet(*sudoku.held_out(task, clues, request.n, request.seed, meter), clues))
        meter(request.n)
    return tuple(sets), {"clues": list(request.clues), "n": request.n}
