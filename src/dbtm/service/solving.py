"""One Sudoku, solved by a trained model, with the rounds in which it came about."""

import time
from collections.abc import Callable, Iterable
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
"""The puzzle that is solved where none is given, by the cells of the checkpoint's grids.

The 9 x 9 one has 22 clues, cannot be solved by looking for cells or digits with one choice left, and takes the packaged
model more than one round.
"""

BUDGET = 4  # network evaluations, where the method has a budget and none is asked for
_SIZES = {16: "4 x 4", 81: "9 x 9"}
_SOLVERS = {16: "the recipe 'sudoku-mini' trains one", 81: "'sudoku' is the one in the package"}


@dataclass(frozen=True, kw_only=True)
class SolveRequest(ModelRequest):
    """A puzzle for a checkpoint that was trained on Sudoku."""

    checkpoint: str = "sudoku"
    puzzle_C: np.ndarray | None = None
    """Cells in reading order, 0 for empty; None: the built-in one of the checkpoint's size."""
    self_check: bool = False
    """Let the model check its answer, where its sampler can and `options` say nothing of it."""
    warm_up: bool = False
    """Evaluate the network once before the clock runs: the first time also allocates memory and chooses kernels."""


@dataclass(frozen=True)
class SolveResult:
    """What the model made of a puzzle, and how."""

    puzzle_C: np.ndarray
    rounds: list[GridState]
    nfe: int
    budget: int | None
    """Network evaluations that it had; None where the method has no budget."""
    milliseconds: float
    violation: str | None
    """The first clue or rule that the answer breaks; None where it is right."""
    settings: dict[str, Any]
    """Checkpoint, method, options of the sampler, seed and device."""
    stable: bool | None = None
    """Whether the answer confirmed itself; None where the sampler was not asked to check it."""
    flops: float = 0.0
    """About what the network evaluations took: their number times the products of one."""

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
        """Threshold, scorer, the options that were asked for, and the seed."""
        names = {"kappa", "scorer", "seed", *asked} - {"nfe"}
        shown = {name: value for name, value in self.settings.items() if name in names and value is not None}
        return {name: f"{value:g}" if isinstance(value, float) else value for name, value in shown.items()}


def load_sudoku(checkpoint: str, device: str = "auto", onnx: Path | None = None) -> Sampler:
    """The sampler of a checkpoint that was trained on Sudoku; with `onnx`, an exported file computes its rounds."""
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
    """The model's answer; it is judged by the rules and the clues alone. `on_round` sees every round as it is made."""
    sampler = request.sampler(sampler)
    task = sudoku_task(sampler, request.checkpoint)
    layout = task.layout
    puzzle_C = request.puzzle_C if request.puzzle_C is not None else parse(BUILT_IN[layout.cells])
    if len(puzzle_C) != layout.cells:
        raise UsageError(
            f"the puzzle is {_SIZES[len(puzzle_C)]}, but the checkpoint '{request.checkpoint}' solves "
            f"{_SIZES[layout.cells]} grids: take another checkpoint ({_SOLVERS[len(puzzle_C)]})"
        )
    options = {"nfe": BUDGET, **request.options} if sampler.has_budget else dict(request.options)
    options = request.checked(sampler, options) if request.self_check else options
    settings = request.settings(sampler, options)
    given = task.given(puzzle_C[None])
    if request.warm_up and sampler.has_budget:
        sampler.sample(**given, nfe=1, seed=request.seed, cancelled=progress.cancelled)
    show = None if on_round is None else lambda state: on_round(grid_state(layout, state))
    start = time.perf_counter()
    trace = sampler.sample(
        **given, seed=request.seed, trace=True, cancelled=progress.cancelled, on_round=show, **options
    )
    milliseconds = 1000 * (time.perf_counter() - start)
    rounds = [grid_state(layout, state) for state in trace.rounds]
    wrong = violation(rounds[-1].values_C, puzzle_C)
    budget = options["nfe"] + options.get("check", 0) if sampler.has_budget else None
    stable = None if trace.stable is None else bool(trace.stable[0])
    nfe = int(trace.nfe[0])
    flops = nfe * flops_of(sampler, options)
    return SolveResult(puzzle_C, rounds, nfe, budget, milliseconds, wrong, settings, stable, flops)


def solve_with_tries(request: SolveRequest, tries: int, sampler: Sampler | None = None) -> tuple[SolveResult, int]:
    """The first right answer of so many tries, each from the noise of the next seed, or the last wrong one; and the
    number of tries.
    """
    if tries < 1:
        raise UsageError(f"{tries} tries: at least 1 must be asked for")
    sampler = request.sampler(sampler)
    for number in range(1, tries + 1):
        again = replace(request, seed=request.seed + number - 1, warm_up=request.warm_up and number == 1)
        result = solve(again, sampler)
        if result.solved:
            break
    return result, number


def grid_state(layout: Layout, state: Round) -> GridState:
    """The cells of the answer, of the first sample; what is no digit, or not there yet, is 0."""
    cells = layout.solution_positions
    values_C = layout.decode(np.where(state.tokens[:1] < 0, 0, state.tokens[:1]))[0]
    committed_C, score_C = (None if x is None else x[0, cells] for x in (state.committed, state.score))
    return GridState(values_C, committed_C, score_C, state.time)
