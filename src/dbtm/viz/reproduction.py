"""Figures of the paper that are not of the theory: curves over training, a Sudoku in rounds, texts in rounds."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dbtm.viz.frontier import literal
from dbtm.viz.theory.style import INK, LINES, RC, VERTEX_COLOURS, new_figure

GIVEN, COMMITTED, REFINING = "#8080a0", "#0085B8", "#6B67EE"  # the paper's colours
_MARKS = "osD^vP"
_COLUMNS = 96  # characters of a line of text
_FONT = 7.6  # points
_CHARACTER = 0.602 * _FONT / 72  # inches: character width of matplotlib's monospaced font
Curve = tuple[Sequence[float], Sequence[float]]


def draw_curves(panels: Mapping[str, Mapping[str, Curve]], x: str, y: str) -> Figure:
    """One panel each, one line per curve."""
    with mpl.rc_context(RC):
        figure = new_figure(1.0 + 2.8 * max(1, len(panels)), 2.8)
        axes = figure.subplots(1, max(1, len(panels)), squeeze=False)[0]
        for ax, (title, curves) in zip(axes, panels.items()):
            for i, (name, (steps, values)) in enumerate(curves.items()):
                look = _MARKS[i % len(_MARKS)] + LINES[i % len(LINES)]
                colour = VERTEX_COLOURS[i % len(VERTEX_COLOURS)]
                ax.plot(steps, values, look, ms=3.5, color=colour, label=literal(name))
            ax.set_title(title, loc="left")
            ax.set_xlabel(x)
            ax.set_ylabel(y)
            ax.legend()
    return figure


def draw_grids(puzzle: Sequence[int], rounds: Sequence[Mapping[str, Any]]) -> Figure:
    """A Sudoku after every round: clues gray, committed cells turquoise, others purple."""
    side = round(len(puzzle) ** 0.5)
    with mpl.rc_context(RC):
        figure = new_figure(2.6 * len(rounds), 2.9)
        axes = figure.subplots(1, len(rounds), squeeze=False)[0]
        for number, (ax, state) in enumerate(zip(axes, rounds), 1):
            _grid(ax, side)
            committed = state["committed"] or [True] * len(puzzle)
            for cell, (clue, value, final) in enumerate(zip(puzzle, state["values"], committed, strict=True)):
                colour = GIVEN if clue else COMMITTED if final else REFINING
                weight = "bold" if final and not clue else "normal"
                place = (cell % side + 0.5, side - cell // side - 0.5)
                ax.text(*place, str(value or ""), color=colour, weight=weight, ha="center", va="center", fontsize=9)
            free = [i for i, clue in enumerate(puzzle) if not clue]
            ax.set_title(f"round {number}: {sum(committed[i] for i in free)} of {len(free)} cells committed")
    return figure


def _grid(ax: Axes, side: int) -> None:
    box = round(side**0.5)
    for i in range(side + 1):
        width = 1.2 if i % box == 0 else 0.4
        ax.plot([i, i], [0, side], color=INK, lw=width)
        ax.plot([0, side], [i, i], color=INK, lw=width)
    ax.set_aspect("equal")
    ax.set_axis_off()


def draw_texts(panels: Mapping[str, tuple[Sequence[str], Sequence[bool] | None]]) -> Figure:
    """Texts below each other; if commits are known, committed pieces are turquoise, others purple."""
    lines = {title: _lines(*content) for title, content in panels.items()}
    rows = sum(len(each) + 2 for each in lines.values())
    height = 0.14 * rows + 0.2
    with mpl.rc_context(RC):
        figure = Figure(figsize=(_COLUMNS * _CHARACTER / 0.96, height))
        ax = figure.add_axes((0.02, 0.0, 0.96, 1.0))
        ax.set(xlim=(0, _COLUMNS), ylim=(-rows, 0.5))
        ax.set_axis_off()
        y = 0
        for title, each in lines.items():
            ax.text(0, -y, literal(title), weight="bold", va="top", fontsize=8, parse_math=False)
            for line in each:
                y += 1
                for start, piece, colour in line:
                    ax.text(
                        start,
                        -y,
                        piece,
                        color=colour,
                        va="top",
                        fontsize=_FONT,
                        family="DejaVu Sans Mono",
                        parse_math=False,
                    )
            y += 2
    return figure


Piece = tuple[int, str, str]  # start in characters, text, colour


def _lines(pieces: Sequence[str], committed: Sequence[bool] | None) -> list[list[Piece]]:
    """Pieces on lines of bounded length; a newline in one begins a new line."""
    if committed is None:
        text = "".join(pieces).replace("\n", " ")
        return [[(0, line, INK)] for line in wrap(text, _COLUMNS) or [""]]
    lines: list[list[Piece]] = [[]]
    column = 0
    for piece, final in zip(_without_padding(pieces), committed):
        for i, part in enumerate(piece.split("\n")):
            shown = "".join(c if c.isprintable() else "·" for c in part)
            if i or column + len(shown) > _COLUMNS:
                lines.append([])
                column = 0
            if shown:
                lines[-1].append((column, shown, COMMITTED if final else REFINING))
                column += len(shown)
    return lines


def _without_padding(pieces: Sequence[str]) -> Sequence[str]:
    """Keep only one of the equal pieces at the end."""
    end = len(pieces)
    while end > 1 and pieces[end - 1] == pieces[end - 2]:
        end -= 1
    return pieces[:end]
