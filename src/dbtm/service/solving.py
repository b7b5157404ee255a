"""Sudokus, solved by a trained model, with the rounds of each."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dbtm.checkpoint.loading import load
from dbtm.core.errors import UsageError
from dbtm.evals.cost import flops_of
from dbtm.sampling import Round, Sampler
from dbtm.service.exporting import load_onnx
from dbtm.service.progress import Progress
from dbtm.service.request import ModelRequest
from dbtm.tasks.sudoku.layout import Layout
from dbtm.tasks.sudoku.puzzle import parse, violation
from dbtm.tasks.sudoku.task import Sudoku
from dbtm.viz.states import GridState

BUILT_IN = {
    81: "850002400720000009004000000000107002305000900040000000000080070017000000000036040",
    16: "1000003004000002",
}
"""The default puzzle, by the number of cells of the checkpoint's grids.

The 9 x 9 one has 22 clues, cannot be solved by looking for cells or digits with one choice left, and takes the packaged
model more than one round.
"""

BUDGET = 4  # default network evaluations for methods with a budget
_SIZES = {16: "4 x 4", 81: "9 x 9"}
_SOLVERS = {16: "train one with the recipe 'sudoku-mini'", 81: "the packaged one is 'sudoku'"}


@dataclass(frozen=True, kw_only=True)
class SolveRequest(ModelRequest):
    """A puzzle for a checkpoint trained on Sudoku."""

    checkpoint: str = "sudoku"
    puzzle_C: np.ndarray | None = None
    """Cells in reading order, 0 for empty; None: the built-in one of the checkpoint's size."""
    self_check: bool = False
    """Let the model check its answer, if its sampler can and `options` do not set it."""
    warm_up: bool = False
    """Evaluate the network once before timing: the first call also allocates memory and chooses kernels."""


@dataclass(frozen=True)
class SolveResult:
    """The model's answer to a puzzle, and its rounds."""

    puzzle_C: np.ndarray
    rounds: list[GridState]
    nfe: int
    budget: int | None
    """Budget of network evaluations; None if the method has none."""
    milliseconds: float
    """Time of all puzzles that were sampled together."""
    violation: str | None
    """The first clue or rule that the answer breaks; None if it is right."""
    settings: dict[str, Any]
    """Checkpoint, method, options of the sampler, seed and device."""
    stable: bool | None = None
    """Whether the check confirmed the answer; None without a check."""
    flops: float = 0.0
    """Estimated FLOPs: the number of network evaluations times the matrix products of one."""

    @property
    def solution_C(self) -> np.ndarray:
        return self.rounds[-1].values_C

    @property
    def solved(self) -> bool:
        return self.violation is None

    # -- as it is shown ------------------------------------------------------------------------------------------------

    @property
    def evaluations(self) -> str:
        return str(self.nfe) if self.budget is None else f"{self.nfe} of {self.budget}"

    @property
    def duration(self) -> str:
        return f"{self.milliseconds:.0f} ms on the {self.settings['device']}"

    def shown_settings(self, asked: Iterable[str]) -> dict[str, Any]:
        """Threshold, scorer, the options in `asked`, and the seed."""
        names = {"kappa", "scorer", "seed", *asked} - {"nfe"}
        shown = {name: value for name, value in self.settings.items() if name in names and value is not None}
        return {name: f"{value:g}" if isinstance(value, float) else value for name, value in shown.items()}


def load_sudoku(checkpoint: str, device: str = "auto", onnx: Path | None = None) -> Sampler:
    """The sampler of a checkpoint trained on Sudoku; with `onnx`, its rounds run in an exported file."""
    sampler = load(checkpoint, device) if onnx is None else load_onnx(checkpoint, onnx)
    sudoku_task(sampler, checkpoint)
    return sampler


def sudoku_task(sampler: Sampler, checkpoint: str) -> Sudoku:
    if not isinstance(sampler.task, Sudoku):
        name = sampler.task.name if sampler.task else "nothing"
        raise UsageError(f"the checkpoint '{checkpoint}' was trained on '{name}', not on Sudoku")
    return sampler.task


def solve(
    request: SolveRequest,
    sampler: Sampler | None = None,
    progress: Progress = Progress(),
    on_round: Callable[[GridState], None] | None = None,
) -> SolveResult:
    """The model's answer, judged only by the rules and the clues. `on_round` receives each round."""
    sampler = request.sampler(sampler)
    layout = sudoku_task(sampler, request.checkpoint).layout
    puzzle_C = request.puzzle_C if request.puzzle_C is not None else parse(BUILT_IN[layout.cells])
    (result,) = _solved(request, [puzzle_C], sampler, progress, on_round)
    return result


def _solved(
    request: SolveRequest,
    puzzles: Sequence[np.ndarray],
    sampler: Sampler,
    progress: Progress = Progress(),
    on_round: Callable[[GridState], None] | None = None,
) -> list[SolveResult]:
    """The answers to puzzles that are sampled together; puzzle i has the noise of sample i. `on_round` receives the
    rounds of the first.
    """
    task = sudoku_task(sampler, request.checkpoint)
    layout = task.layout
    for puzzle_C in puzzles:
        if len(puzzle_C) != layout.cells:
            raise UsageError(
                f"the puzzle is {_SIZES[len(puzzle_C)]}, but the checkpoint '{request.checkpoint}' solves "
                f"{_SIZES[layout.cells]} grids: use another checkpoint ({_SOLVERS[len(puzzle_C)]})"
            )
    options = {"nfe": BUDGET, **request.options} if sampler.has_budget else dict(request.options)
    options = request.checked(sampler, options) if request.self_check else options
    settings = request.settings(sampler, options)
    given = task.given(np.stack(puzzles))
    if request.warm_up and sampler.has_budget:
        sampler.sample(**given, nfe=1, seed=request.seed, cancelled=progress.cancelled)
    show = None if on_round is None else lambda state: on_round(grid_state(layout, state))
    start = time.perf_counter()
    trace = sampler.sample(
        **given, seed=request.seed, trace=True, cancelled=progress.cancelled, on_round=show, **options
    )
    milliseconds = 1000 * (time.perf_counter() - start)
    budget = options["nfe"] + options.get("check", 0) if sampler.has_budget else None
    flops = flops_of(sampler, options)
    results = []
    for b, puzzle_C in enumerate(puzzles):
        nfe = int(trace.nfe[b])
        own = trace.rounds[: max(1, nfe)] if len(puzzles) > 1 else trace.rounds  # others may take more rounds
        rounds = [grid_state(layout, state, b) for state in own]
        wrong = violation(rounds[-1].values_C, puzzle_C)
        stable = None if trace.stable is None else bool(trace.stable[b])
        done = SolveResult(puzzle_C, rounds, nfe, budget, milliseconds, wrong, settings, stable, nfe * flops)
        results.append(done)
    return results


def solve_with_tries(request: SolveRequest, tries: int, sampler: Sampler | None = None) -> tuple[SolveResult, int]:
    """The first right answer within `tries`, each from the next seed, or else the last wrong one; and the number of
    tries used.
    """
    _check_tries(tries)
    sampler = request.sampler(sampler)
    for number in range(1, tries + 1):
        result = solve(_again(request, number), sampler)
        if result.solved:
            break
    return result, number


def solve_many(
    request: SolveRequest, puzzles: Sequence[np.ndarray], tries: int = 1, sampler: Sampler | None = None
) -> list[tuple[SolveResult, int]]:
    """`solve_with_tries` for puzzles that are sampled together; a further try has only the unsolved ones."""
    _check_tries(tries)
    sampler = request.sampler(sampler)
    answers: dict[int, tuple[SolveResult, int]] = {}
    left = list(range(len(puzzles)))
    for number in range(1, tries + 1):
        if not left:
            break
        results = _solved(_again(request, number), [puzzles[i] for i in left], sampler)
        answers |= {i: (result, number) for i, result in zip(left, results)}
        left = [i for i, result in zip(left, results) if not result.solved]
    return [answers[i] for i in range(len(puzzles))]


def _check_tries(tries: int) -> None:
    if tries < 1:
        raise UsageError(f"{tries} tries: the number must be at least 1")


def _again(request: SolveRequest, number: int) -> SolveRequest:
    """The request of a try, numbered from 1."""
    return replace(request, seed=request.seed + number - 1, warm_up=request.warm_up and number == 1)


def grid_state(layout: Layout, state: Round, b: int = 0) -> GridState:
    """The cells of the answer of sample b; 0 for cells without a digit."""
    cells, tokens = layout.solution_positions, state.tokens[b : b + 1]
    values_C = layout.decode(np.where(tokens < 0, 0, tokens))[0]
    committed_C, score_C = (None if x is None else x[b, cells] for x in (state.committed, state.score))
    return GridState(values_C, committed_C, score_C, state.time)
