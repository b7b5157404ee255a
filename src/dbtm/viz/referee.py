"""Figures of a comparison: quality against network evaluations, and against FLOPs per sample.

Each method has its own colour, mark and line style, and its name at the end of its line. Bars are intervals.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from dbtm.evals.referee.tables import floor_of
from dbtm.viz.theory.style import INK, RC, new_figure

# Okabe and Ito's hues, readable on white and on black; with marks and lines, all entries differ.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#3FA0DC", "#7A6BD0", "#8A8A8A")
MARKS = "osD^vPX*"
STROKES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)))


class Line(NamedTuple):
    """One entry's points, by rising cost."""

    label: str
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]


def lines_of(document: Mapping[str, Any], cost: str) -> list[Line]:
    """Lines against `used` (evaluations) or `flops_per_sample`; entries without numbers have none."""
    out = []
    for entry in document["entries"]:
        points = [found for found in entry["budgets"].values() if found["value"] is not None]
        if not points:
            continue
        asked = {id(found): name for name, found in entry["budgets"].items()}

        def place(found: Mapping[str, Any], names: Mapping[int, str] = asked) -> float:
            name = names[id(found)]
            return float(name) if cost == "used" and name.isdigit() else found[cost]

        points.sort(key=place)
        y = [found["value"] for found in points]
        low = [found["value"] if found["low"] is None else found["low"] for found in points]
        high = [found["value"] if found["high"] is None else found["high"] for found in points]
        out.append(Line(entry["label"], [place(found) for found in points], y, low, high))
    return out


def draw_quality(document: Mapping[str, Any], cost: str) -> Figure:
    """One of the two figures; `cost` is `used` or `flops_per_sample`."""
    metric, lines = document["metric"], lines_of(document, cost)
    with mpl.rc_context(RC):
        figure = new_figure(7.2, 4.4)
        axes = figure.subplots()
        axes.set_xscale("log", base=2 if cost == "used" else 10)
        for number, line in enumerate(lines):
            _line(axes, line, number, metric, 2 ** (0.16 * (number + 0.5) / len(lines) - 0.08))
        if metric["name"] == "perplexity":
            axes.set_yscale("log")
        if metric["share"]:
            axes.set_ylim(-0.02, 1.02)
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.0%}"))
        elif metric["name"] == "total_variation":
            axes.set_ylim(bottom=0)
            _floor(axes, document)
        if cost == "used":
            ticks = document["settings"]["nfe"]
            axes.xaxis.set_major_locator(FixedLocator(ticks))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.set_xlabel("network evaluations (NFE)" if cost == "used" else "FLOPs per sample")
        better = "lower" if metric["lower_is_better"] else "higher"
        axes.set_ylabel(f"{metric['title']} ({better} is better)")
        axes.grid(axis="y", color=INK, alpha=0.12, lw=0.6)
        _names(figure, axes, lines)
    return figure


def _line(axes: Axes, line: Line, number: int, metric: Mapping[str, Any], aside: float) -> None:
    """Shift a little, so that bars at the same cost do not overlap."""
    colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
    below = [max(0.0, y - low) for y, low in zip(line.y, line.low)]
    above = [max(0.0, high - y) for y, high in zip(line.y, line.high)]
    stroke = STROKES[(number // len(COLOURS) + number) % len(STROKES)]
    axes.errorbar(
        [x * aside for x in line.x],
        line.y,
        yerr=[below, above],
        color=colour,
        marker=mark,
        ms=4,
        ls=stroke,
        lw=1.3,
        capsize=2,
        elinewidth=0.7,
        clip_on=not metric["share"],
    )


def _floor(axes: Axes, document: Mapping[str, Any]) -> None:
    floor = floor_of(document)
    if floor is not None:
        axes.axhline(floor, color=INK, lw=0.8, ls=":")
        axes.text(0.01, floor, "samples of the truth", transform=axes.get_yaxis_transform(), va="bottom", fontsize=7)


def _names(figure: Figure, axes: Axes, lines: Sequence[Line]) -> None:
    """Names at the right, each at the height of its line's end, or as near as they fit."""
    if not lines:
        axes.annotate("no numbers yet", (0.5, 0.5), xycoords="axes fraction", ha="center", color=INK)
        return
    figure.canvas.draw()  # sets the axis limits
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = [(to_axes.transform((line.x[-1], line.y[-1]))[1], number) for number, line in enumerate(lines)]
    heights = spread([height for height, _ in ends], 0.052)
    for (_, number), height in zip(ends, heights):
        line, colour = lines[number], COLOURS[number % len(COLOURS)]
        axes.annotate(
            line.label,
            xy=(line.x[-1], line.y[-1]),
            xytext=(1.03, height),
            textcoords="axes fraction",
            color=colour,
            va="center",
            fontsize=8,
            fontweight="bold" if line.label.startswith("dbtm") else "normal",
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5, "alpha": 0.6, "shrinkA": 0, "shrinkB": 3},
            annotation_clip=False,
        )


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Heights at least `gap` apart, in the same order, moved little, by one pass up and down."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = [min(max(heights[i], 0.0), 1.0) for i in order]
    for i in range(1, len(placed)):
        placed[i] = max(placed[i], placed[i - 1] + gap)
    over = placed[-1] - max(1.0, (len(placed) - 1) * gap) if placed else 0.0
    if over > 0:
        placed[-1] -= over
        for i in range(len(placed) - 2, -1, -1):
            placed[i] = min(placed[i], placed[i + 1] - gap)
    out = [0.0] * len(heights)
    for rank, i in enumerate(order):
        out[i] = placed[rank]
    return out
