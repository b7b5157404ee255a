"""A Sudoku's refinement in the terminal: one grid a round, side by side as far as the width allows.

Three kinds of cells: clues (gray), committed (turquoise, bold) and still refining (purple, with a question mark).
Without colour, as in a pipe or under NO_COLOR, committed digits carry a stroke: ` 5 ` is a clue, ` 5'` committed,
` 5?` refining. A clue that the model has copied wrongly is shown as ` 5!`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text


class Round(NamedTuple):
    """The state of the grid after one network evaluation; C cells in reading order."""

    values_C: np.ndarray
    """The digit that the model holds in every cell; 0 for none."""
    committed_C: np.ndarray
    """Whether the cell is committed, i.e. will not change any more."""
    score_C: np.ndarray
    """How sure the scorer is of the digit, in [0, 1]."""


class Look(NamedTuple):
    """How one kind of cell is drawn."""

    style: str
    mark: str
    """Behind the digit."""
    plain_mark: str
    """Behind the digit where there is no colour."""


# The paper's colours, but for the clues: its #4a4a6a cannot be read on a dark terminal.
LOOKS = {
    "clue": Look("#8080a0", " ", " "),
    "committed": Look("bold #0085B8", " ", "'"),
    "refining": Look("#6B67EE", "?", "?"),
    "wrong clue": Look("bold #d03050", "!", "!"),
}


def kinds(puzzle_C: np.ndarray, now: Round) -> list[str]:
    """The kind of every cell, a key of `LOOKS`."""
    return [
        ("clue" if value == clue else "wrong clue") if clue else ("committed" if committed else "refining")
        for clue, value, committed in zip(puzzle_C, now.values_C, now.committed_C)
    ]


# stroke across, stroke down, an empty cell, corners; ASCII for an output that has no others
FRAME, ASCII = "─│·┌┬┐├┼┤└┴┘", "-|.+++++++++"


@dataclass(frozen=True)
class SudokuTrace:
    """What rich prints for a trace: `console.print(SudokuTrace(puzzle, rounds))`."""

    puzzle_C: np.ndarray
    rounds: Sequence[Round]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        colour = console.color_system is not None and not console.no_color
        frame = ASCII if options.ascii_only else FRAME
        grids = [
            Text("\n").join([_title(number, self.puzzle_C, now), *_grid_lines(self.puzzle_C, now, colour, frame)])
            for number, now in enumerate(self.rounds, start=1)
        ]
        yield Columns(grids, padding=(1, 3))
        yield Text()
        yield legend({kind for now in self.rounds for kind in kinds(self.puzzle_C, now)}, colour)


def legend(present: set[str], colour: bool) -> Text:
    """One line that explains the kinds of cells that are there."""
    entries = [
        Text.assemble((f"5{_mark(kind, colour)}".strip(), LOOKS[kind].style), f" {kind}")
        for kind in LOOKS
        if kind in present
    ]
    return Text("   ").join(entries)


def _title(number: int, puzzle_C: np.ndarray, now: Round) -> Text:
    committed = kinds(puzzle_C, now).count("committed")
    return Text.assemble((f"round {number}", "bold"), f"  {committed}/{np.count_nonzero(puzzle_C == 0)} committed")


def _mark(kind: str, colour: bool) -> str:
    return LOOKS[kind].mark if colour else LOOKS[kind].plain_mark


def _grid_lines(puzzle_C: np.ndarray, now: Round, colour: bool, frame: str) -> Iterator[Text]:
    """The grid with its frame, line by line."""
    across, down, empty, corners = frame[0], frame[1], frame[2], frame[3:]
    size = math.isqrt(len(puzzle_C))
    box = math.isqrt(size)
    state = kinds(puzzle_C, now)
    stroke = across * (3 * box)
    for row in range(size):
        if row % box == 0:
            left, middle, right = tuple(corners[:3] if row == 0 else corners[3:6])
            yield Text(left + middle.join([stroke] * box) + right, "dim")
        line = Text()
        for column in range(size):
            if column % box == 0:
                line.append(down, "dim")
            kind = state[row * size + column]
            digit = now.values_C[row * size + column]
            line.append(f" {digit or empty}{_mark(kind, colour)}", LOOKS[kind].style)
        yield line.append(down, "dim")
    yield Text(corners[6] + corners[7].join([stroke] * box) + corners[8], "dim")
