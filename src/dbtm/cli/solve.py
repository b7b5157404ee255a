"""`dbtm solve`: solve a Sudoku, a maze, a graph colouring or a formula, and show its refinement."""

import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from dbtm.cli import files
from dbtm.cli.common import check_kappa, gflops, in_range, print_solution, trust, write_solution_page
from dbtm.cli.console import say
from dbtm.cli.options import Device, Html, Seed, takes_sampler_options
from dbtm.core.errors import UsageError
from dbtm.core.reading import at_once

if TYPE_CHECKING:
    import numpy as np

    from dbtm.service.solving import SolveResult

STDIN_WAIT = 0.5  # seconds
MOST_CHARACTERS = 1 << 24  # of all puzzles together
KINDS = ("maze", "colouring", "sat")


@takes_sampler_options()
def solve(
    puzzle: Annotated[
        str | None,
        typer.Argument(
            help="A Sudoku: 81 characters with 0 or . for empty, nine lines, a file of one puzzle or of one per line, "
            "or - for stdin. Default: stdin if it has input, else a built-in hard puzzle. Or another kind of "
            "problem: maze, colouring or sat."
        ),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Argument(
            help="After maze, colouring or sat: a file of the problem (lines of # . S G; DIMACS edges; DIMACS clauses) "
            "or - for stdin. Default: a random one from --seed."
        ),
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="A checkpoint folder, a run, or a packaged model.")] = "sudoku",
    seed: Seed = 0,
    tries: Annotated[int, typer.Option(help="Most tries, each from new noise, while the answer is wrong.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer and its rounds as JSON.")] = False,
    html: Html = None,
    onnx: Annotated[Path | None, typer.Option(help="Run with onnxruntime, from a file of `dbtm export`.")] = None,
    device: Device = "auto",
    *,
    options: dict[str, Any],
) -> None:
    """Solve a Sudoku; exit code 1 if the model's answer is wrong, 2 if the input is not a valid puzzle.

    A method with a budget uses 4 network evaluations by default (--nfe), or 16 for other problems than Sudoku. Above 2,
    the model also checks its answer, which takes at least 2 evaluations: --check 0 and --onnx skip the check.
    """
    check_kappa(options.get("kappa"))
    files.check("--html", html)
    in_range("--tries", tries, 1)
    if puzzle in KINDS:
        if html is not None or onnx is not None or tries > 1:
            raise UsageError(f"{puzzle}: --html, --onnx and --tries are for Sudokus: leave them out")
        _solve_problem(puzzle, problem, checkpoint, device, seed, options, as_json)
        return
    if onnx is not None and device != "auto":
        raise UsageError("--onnx runs on the CPU: leave --device out")
    if problem is not None:
        raise UsageError(f"'{puzzle}' is not a kind of problem: give one Sudoku alone, or maze, colouring or sat first")
    text, where = _puzzle_text(puzzle)
    if (several := _one_per_line(text)) is not None:
        if html is not None:
            raise UsageError("--html shows one puzzle: give one, not a file of several")
        _solve_all(several, where, checkpoint, device, onnx, seed, tries, options, as_json)
        return
    puzzle_C = _checked(text, where)
    from dbtm.service import solving

    asked: dict[str, Any] = {"checkpoint": checkpoint, "options": options, "seed": seed, "self_check": onnx is None}
    request = solving.SolveRequest(puzzle_C=puzzle_C, warm_up=True, device=device, **asked)
    sampler = None if onnx is None else solving.load_sudoku(checkpoint, onnx=onnx)
    result, used = solving.solve_with_tries(request, tries, sampler)
    if html is not None:
        write_solution_page(result, html, options)
    if as_json:
        say(to_json(result))
    else:
        print_solution(result, options)
        if tries > 1:
            say(f"{used} of {tries} tries")
        if html is not None:
            say(f"page: {html}")
    if not result.solved:
        raise typer.Exit(1)


# -- other kinds of problems -------------------------------------------------------------------------------------------


def _solve_problem(
    kind: str, source: str | None, checkpoint: str, device: str, seed: int, options: dict[str, Any], as_json: bool
) -> None:
    """The answer, whether the model stands by it, and whether it is valid; exit code 1 if it is not."""
    import json
    from dataclasses import asdict

    text, where = _problem_text(source)
    if checkpoint == "sudoku":
        raise UsageError(
            f"there is no packaged model for '{kind}': train one (dbtm train {kind}-mini) and give it with "
            "--checkpoint RUN"
        )
    from dbtm.service import problems

    request = problems.ProblemRequest(
        kind=kind, checkpoint=checkpoint, text=text, options=options, seed=seed, device=device
    )
    try:
        result = problems.answer(request)
    except UsageError as error:
        raise UsageError(f"{where}{error}") from None
    if as_json:
        say(json.dumps({"kind": kind, "solved": result.solved, **asdict(result)}))
    else:
        for number, committed in enumerate(result.committed, start=1):
            say(f"round {number}" + ("" if committed is None else f"  {committed}/{result.free} committed"))
        say(f"\n{result.answer}\n")
        if result.stable is not None:
            say(f"the model {trust(result.stable)}")
        spent = result.nfe if result.budget is None else f"{result.nfe} of {result.budget}"
        took = f"{result.milliseconds:.0f} ms on the {result.settings['device']}"
        cost = f"{spent} network evaluations, {gflops(result.flops)}, {took}"
        say(f"solved in {cost}" if result.solved else f"wrong after {cost}\n{result.violation}")
    if not result.solved:
        raise typer.Exit(1)


def _problem_text(source: str | None) -> tuple[str | None, str]:
    """A problem as text, and its source as a prefix for error messages."""
    if source is None:
        return None, ""
    if source != "-" and not _exists(source):
        raise UsageError(f"there is no file '{source}': give a file of the problem, or - for stdin")
    return _puzzle_text(source)


# -- the puzzle --------------------------------------------------------------------------------------------------------


def read_puzzle(argument: str | None) -> "np.ndarray | None":
    """The given puzzle, checked to have exactly one solution; None if none is given."""
    return _checked(*_puzzle_text(argument))


def _checked(text: str | None, where: str) -> "np.ndarray | None":
    """The puzzle of a text, checked to have exactly one solution; None if none is given."""
    if text is None:
        return None
    from dbtm.tasks.sudoku.puzzle import check, parse

    try:
        puzzle_C = parse(text)
        check(puzzle_C)
    except UsageError as error:
        raise UsageError(f"{where}{error}") from None
    return puzzle_C


def _one_per_line(text: str | None) -> list[str] | None:
    """The lines of a text with one puzzle per line, without a heading."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if lines and not any(character in "0123456789." for character in lines[0]):
        lines = lines[1:]
    whole = [len(line.split(",")[0].strip()) in (16, 81) for line in lines]
    return [line.split(",")[0].strip() for line in lines] if len(lines) > 1 and all(whole) else None


def _solve_all(
    puzzles: list[str],
    where: str,
    checkpoint: str,
    device: str,
    onnx: Path | None,
    seed: int,
    tries: int,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    """A line per puzzle: the answer, and whether it is right; exit code 1 if one is wrong."""
    import json

    grids = [_checked(text, f"{where}puzzle {number}: ") for number, text in enumerate(puzzles, 1)]
    from dbtm.service import solving

    sampler, solved = solving.load_sudoku(checkpoint, device, onnx), 0
    asked: dict[str, Any] = {"checkpoint": checkpoint, "options": options, "seed": seed, "self_check": onnx is None}
    for grid_C in grids:
        request = solving.SolveRequest(puzzle_C=grid_C, **asked)
        result, used = solving.solve_with_tries(request, tries, sampler)
        solved += result.solved
        answer = {"solution": _digits(result.solution_C), "solved": result.solved, "nfe": result.nfe, "tries": used}
        if as_json:
            say(json.dumps({"puzzle": _digits(result.puzzle_C), **answer, "violation": result.violation}))
        else:
            say(f"{answer['solution']}  {'solved' if result.solved else f'wrong: {result.violation}'}")
    say(f"{solved} of {len(grids)} solved", error=True)
    if solved < len(grids):
        raise typer.Exit(1)


def _puzzle_text(argument: str | None) -> tuple[str | None, str]:
    """The puzzle as text, and its source as a prefix for error messages."""
    if argument is None:
        return (_bounded(sys.stdin, "stdin") if _stdin_waits() else "").strip() or None, "stdin: "
    if argument == "-":
        return _bounded(sys.stdin, "stdin") if sys.stdin else "", "stdin: "
    if _exists(argument):
        try:
            with open(argument, encoding="utf-8", opener=at_once) as file:
                return _bounded(file, argument), f"{argument}: "
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {argument}: {getattr(error, 'strerror', None) or error}") from None
    if 2 * sum(character in "0123456789." for character in argument) < len(argument):
        raise UsageError(
            f"'{argument}' is not a puzzle, and there is no such file: give 81 characters, 0 or . for empty"
        )
    return argument, ""


def _bounded(stream: TextIO, name: str) -> str:
    """Read a stream that may be endless (a device, a pipe)."""
    text = stream.read(MOST_CHARACTERS + 1)
    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"{name} has more than {MOST_CHARACTERS} characters: give fewer puzzles at a time")
    return text


def _exists(name: str) -> bool:
    """Whether there is a file, pipe or folder of this name."""
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it
        return False


def _stdin_waits() -> bool:
    """Whether stdin is a file or pipe with something to read.

    Some CI systems leave open a pipe that nobody writes to. It counts as empty after a moment, so that the command
    does not hang. (`-` waits without limit.)
    """
    try:
        return not sys.stdin.isatty() and bool(select.select([sys.stdin], [], [], STDIN_WAIT)[0])
    except (AttributeError, OSError, ValueError):  # stdin is missing or closed, or select does not support it
        return False


# -- the answer for programs -------------------------------------------------------------------------------------------


def to_json(result: "SolveResult") -> str:
    """Grids as strings of digits in reading order; null for what the method does not have."""
    import json

    from dbtm.viz.states import scores

    rounds = [
        {
            "values": _digits(state.values_C),
            "committed": None if state.committed_C is None else state.committed_C.astype(int).tolist(),
            "score": scores(state.score_C),
            "time": state.time,
        }
        for state in result.rounds
    ]
    settings = {name: value for name, value in result.settings.items() if name != "nfe"}
    return json.dumps(
        {
            "puzzle": _digits(result.puzzle_C),
            "solution": _digits(result.solution_C),
            "solved": result.solved,
            "violation": result.violation,
            "stable": result.stable,
            "nfe": result.nfe,
            "budget": result.budget,
            "flops": result.flops,
            "milliseconds": round(result.milliseconds, 1),
            **settings,
            "rounds": rounds,
        }
    )


def _digits(grid_C: "np.ndarray") -> str:
    return "".join(str(digit) for digit in grid_C)
