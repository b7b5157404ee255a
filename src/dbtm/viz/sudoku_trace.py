"""A Sudoku's trace in the terminal: one grid per round, side by side as far as the width allows.

Three kinds of cells: clues (gray), committed (turquoise, bold) and still refining (purple, with a question mark).
Without colour, as in a pipe or under NO_COLOR, committed digits have an apostrophe: ` 5 ` is a clue, ` 5'` committed,
` 5?` refining. A clue that the model copied wrongly is ` 5!`. A digit that was committed in the previous round and no
longer is, as when the model does not confirm its answer, is ` 5~`. Of a trace of many rounds, such as one token per
round, a dozen are shown.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from dbtm.viz.states import GridState, left_out, progress_of, spaced


class Look(NamedTuple):
    """The style of one kind of cell."""

    style: str
    mark: str
    """After the digit."""
    plain_mark: str
    """After the digit, without colour."""


# The paper's colours, except for clues: its #4a4a6a is unreadable on a dark terminal.
LOOKS = {
    "clue": Look("#8080a0", " ", " "),
    "committed": Look("bold #0085B8", " ", "'"),
    "refining": Look("#6B67EE", "?", "?"),
    "taken back": Look("bold #d08030", "~", "~"),
    "wrong clue": Look("bold #d03050", "!", "!"),
    "empty": Look("dim", " ", " "),
}


def kinds(puzzle_C: np.ndarray, state: GridState, before: GridState | None = None) -> list[str]:
    """The kind of each cell, a key of `LOOKS`, given the previous round. A clue stays in its cell until the model
    writes there.
    """
    committed_C, before_C = (
        np.zeros(len(puzzle_C), bool) if round_ is None or round_.committed_C is None else round_.committed_C
        for round_ in (state, before)
    )
    unscored = state.score_C is None
    return [_kind(*cell, unscored) for cell in zip(puzzle_C, state.values_C, committed_C, before_C, strict=True)]


def _kind(clue: int, value: int, committed: bool, was_committed: bool, unscored: bool) -> str:
    if clue:
        return "clue" if value == clue or not (value or committed) else "wrong clue"
    if committed:
        return "committed"
    if was_committed:
        return "taken back"
    return "refining" if value or not unscored else "empty"


# horizontal, vertical, empty cell, corners; ASCII if the output has no box characters
FRAME, ASCII = "─│·┌┬┐├┼┤└┴┘", "-|.+++++++++"


@dataclass(frozen=True)
class SudokuTrace:
    """A trace as a rich renderable: `console.print(SudokuTrace(puzzle, states))`."""

    puzzle_C: np.ndarray
    states: Sequence[GridState]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        colour = console.color_system is not None and not console.no_color
        frame = ASCII if options.ascii_only else FRAME
        states = [*self.states[:-1], self.states[-1].settled()]
        shown = {number: states[number - 1] for number in spaced(len(states))}
        kinds_of = {
            number: kinds(self.puzzle_C, state, states[number - 2] if number > 1 else None)
            for number, state in shown.items()
        }
        grids = [
            Text("\n").join(
                [
                    _title(number, kinds_of[number], state),
                    *_grid_lines(self.puzzle_C, state, kinds_of[number], colour, frame),
                ]
            )
            for number, state in shown.items()
        ]
        yield Columns(grids, padding=(1, 3))
        yield Text()
        if len(shown) < len(states):
            yield Text(left_out(len(states)), "dim")
        yield legend({kind for kind_C in kinds_of.values() for kind in kind_C}, colour)


def legend(present: set[str], colour: bool) -> Text:
    """The legend of the kinds of cells present, in one line."""
    entries = [
        Text.assemble((f"5{_mark(kind, colour)}".strip(), LOOKS[kind].style), f" {kind}")
        for kind in LOOKS
        if kind in present and kind != "empty"
    ]
    return Text("   ").join(entries)


def _title(number: int, kind_C: list[str], state: GridState) -> Text:
    committed = None if state.committed_C is None else kind_C.count("committed")
    empty = sum(not kind.endswith("clue") for kind in kind_C)
    return Text.assemble((f"round {number}", "bold"), progress_of(committed, empty, state.time))


def _mark(kind: str, colour: bool) -> str:
    return LOOKS[kind].mark if colour else LOOKS[kind].plain_mark


def _grid_lines(puzzle_C: np.ndarray, state: GridState, kind_C: list[str], colour: bool, frame: str) -> Iterator[Text]:
    """The grid with its frame, line by line."""
    across, down, empty, corners = frame[0], frame[1], frame[2], frame[3:]
    size = math.isqrt(len(puzzle_C))
    box = math.isqrt(size)
    stroke = across * (3 * box)
    for row in range(size):
        if row % box == 0:
            left, middle, right = tuple(corners[:3] if row == 0 else corners[3:6])
            yield Text(left + middle.join([stroke] * box) + right, "dim")
        line = Text()
        for column in range(size):
            if column % box == 0:
                line.append(down, "dim")
            cell = row * size + column
            kind = kind_C[cell]
            digit = puzzle_C[cell] if kind == "clue" else state.values_C[cell]
            line.append(f" {digit or empty}{_mark(kind, colour)}", LOOKS[kind].style)
        yield line.append(down, "dim")
    yield Text(corners[6] + corners[7].join([stroke] * box) + corners[8], "dim")
