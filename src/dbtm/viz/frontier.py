"""Figure of the generative frontiers: perplexity (log scale) against entropy, a panel per budget, a line per sweep."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from dbtm.core.terminal import one_line
from dbtm.evals.sweep.frontier import Point, best_near, frontier, lowest
from dbtm.evals.sweep.outcome import NEAR, Curves
from dbtm.viz.theory.style import INK, LINES, RC, VERTEX_COLOURS, drawn, new_figure

_MARKS = "osD^vP"


def draw_frontiers(sweeps: Sequence[Curves], judge: str) -> Figure:
    """Points of all settings, pale, and the frontier of each sweep; real text as a star and its entropy dotted. Two
    points of a sweep are marked: the paper's best by a circle, the best near real text's entropy by a square.
    """
    budgets = sorted({nfe for each in sweeps for nfe in each.points})
    with mpl.rc_context(RC):
        figure = new_figure(1.0 + 2.3 * max(1, len(budgets)), 3.0)
        panels = figure.subplots(1, max(1, len(budgets)), sharex=True, sharey=True, squeeze=False)[0]
        real = next((each.real for each in sweeps if each.real), None)
        for panel, nfe in zip(panels, budgets):
            for number, each in enumerate(sweeps):
                _curve(panel, each.points.get(nfe, []), number, literal(each.label))
                _bests(panel, each, nfe, named=number == 0)
            if real is not None:
                panel.axvline(real.entropy, color=INK, lw=0.8, ls=":")
                panel.plot(*real[:2], "*", color=INK, ms=9, label="real text")
            panel.set_title(f"{nfe} NFE", loc="left")
            panel.set_xlabel("entropy (nats)")
        _log_axis(panels[0])
        panels[0].set_ylabel(f"perplexity under {literal(judge)}")
        names = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels())}
        panels[-1].legend([*names.values()], [*names], loc="upper left")  # also entries of other panels
    return figure


def literal(name: str) -> str:
    """A folder's or a judge's name as plain text: no formulas, no control characters."""
    return one_line(name).replace("$", r"\$").lstrip("_")  # matplotlib leaves labels with a first _ out


def _curve(panel: Axes, points: Sequence[Point], number: int, label: str) -> None:
    colour, mark = VERTEX_COLOURS[number % len(VERTEX_COLOURS)], _MARKS[number % len(_MARKS)]
    curve = frontier(points)
    panel.plot([p.entropy for p in points], [p.perplexity for p in points], mark, color=colour, ms=3, alpha=0.25)
    line = LINES[number % len(LINES)]
    panel.plot([p.entropy for p in curve], [p.perplexity for p in curve], mark + line, color=colour, ms=4, label=label)


def _bests(panel: Axes, sweep: Curves, nfe: int, named: bool) -> None:
    points = sweep.points.get(nfe, [])
    near = best_near(sweep.real.entropy, points, NEAR) if sweep.real else None
    for point, mark, name in ((lowest(points), "o", "best, paper"), (near, "s", "best, near real")):
        if point is not None:
            label = name if named else "_"
            panel.plot(*point[:2], mark, mfc="none", mec=INK, ms=9, mew=0.8, ls="none", label=label)


def _log_axis(panel: Axes) -> None:
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write STEM.png and STEM.svg atomically, without a date."""
    from dbtm.core.atomic import write_bytes

    paths = []
    with mpl.rc_context(RC):
        for kind in ("png", "svg"):
            data = drawn(figure, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
            paths.append(stem.with_name(f"{stem.name}.{kind}"))
            write_bytes(paths[-1], data)
    return paths
