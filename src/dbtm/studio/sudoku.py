"""The room of Sudokus: puzzles, and solves that stream their rounds."""

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dbtm.core.errors import UsageError
from dbtm.studio.answers import Json
from dbtm.studio.bodies import ModelBody, read_body
from dbtm.studio.events import answer_with
from dbtm.studio.jobs import Job
from dbtm.studio.state import Studio, studio_of
from dbtm.studio.threads import in_thread

if TYPE_CHECKING:
    from dbtm.viz.states import GridState

_compiling = threading.Lock()  # the generator compiles at first use


@dataclass(frozen=True, kw_only=True)
class SolveBody(ModelBody):
    puzzle: str


@dataclass(frozen=True)
class NewPuzzleBody:
    """A number of clues (default 30), or the fewest guesses needed to solve it."""

    clues: int | None = None
    guesses: int | None = None
    seed: int = 0
    box: int = 3

    def __post_init__(self):
        if self.guesses is not None and (self.clues is not None or self.box != 3):
            raise UsageError("give clues or guesses, not both; guesses are for 9 x 9 puzzles (box 3)")


def make_puzzle(body: NewPuzzleBody) -> str:
    from dbtm.service.puzzles import new_hard_puzzle, new_puzzle

    with _compiling:
        if body.guesses is not None:
            return new_hard_puzzle(body.guesses, body.seed)
        return new_puzzle(30 if body.clues is None else body.clues, body.seed, body.box)


async def puzzles(request: Request) -> Response:
    """Built-in puzzles, and limits on clues and guesses of new ones."""

    def listed() -> dict[str, Any]:
        from dbtm.service.puzzles import BUILT_IN, FEWEST, MOST, MOST_GUESSES

        built_in = [{"name": puzzle.name, "puzzle": puzzle.digits} for puzzle in BUILT_IN]
        clues = {str(box): [FEWEST[box], MOST[box]] for box in FEWEST}
        return {"built_in": built_in, "clues": clues, "guesses": [1, MOST_GUESSES]}

    return Json(await in_thread(listed))


async def new_puzzle(request: Request) -> Response:
    body = await read_body(request, NewPuzzleBody)
    return Json({"puzzle": await in_thread(make_puzzle, body)})


async def solve(request: Request) -> Response:
    """A solve: `start`, a `round` per network evaluation, `done`."""
    studio, body = studio_of(request), await read_body(request, SolveBody)

    def checked() -> tuple[Any, str]:
        from dbtm.service.puzzles import read_puzzle

        return read_puzzle(body.puzzle), studio.shelf.pick(body.model, "sudoku")

    puzzle_C, model = await in_thread(checked)
    return answer_with(studio.jobs, request, lambda job: run_solve(studio, job, body, puzzle_C, model))


def run_solve(studio: Studio, job: Job, body: SolveBody, puzzle_C: Any, model: str) -> dict[str, Any]:
    from dbtm.service.pages import solution_page
    from dbtm.service.solving import SolveRequest
    from dbtm.service.solving import solve as solve_puzzle
    from dbtm.viz.sudoku_page import grid_document

    sampler = studio.shelf.load(model)
    request = SolveRequest(checkpoint=model, puzzle_C=puzzle_C, options=body.options(), seed=body.seed)
    request.sampler(sampler)  # refuse wrong options before anything is sent
    if len(puzzle_C) == studio.shelf.card(model).size:
        job.send("start", {"puzzle": puzzle_C.tolist()})

    def on_round(state: "GridState") -> None:
        job.send("round", grid_document(state))

    result = solve_puzzle(request, sampler, studio.progress(job), on_round)
    return {
        "last": grid_document(result.rounds[-1].settled()),
        "solved": result.solved,
        "violation": result.violation,
        "nfe": result.nfe,
        "budget": result.budget,
        "milliseconds": round(result.milliseconds, 1),
        "settings": result.settings,
        "result": studio.results.keep(lambda: solution_page(result, body.options())),
    }


ROUTES = [
    Route("/api/sudoku/puzzles", puzzles),
    Route("/api/sudoku/puzzle", new_puzzle, methods=["POST"]),
    Route("/api/sudoku/solve", solve, methods=["POST"]),
]
