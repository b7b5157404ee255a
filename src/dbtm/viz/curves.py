"""Figures of metrics during training: perplexity and entropy (fig:onpolicy-gate-lm1b), puzzles solved
(fig:sudoku-solve-acc) and every other number of the quick evaluations, over the steps of training.

They are read from `metrics.jsonl`, where an evaluation's numbers are called `eval/NAME`. The last part of a name is the
budget (`perplexity_4`), or `data` for held-out data, which is drawn as a dotted line.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dbtm.core.errors import UsageError, nearest
from dbtm.core.numbers import is_number, is_whole
from dbtm.viz.frontier import literal
from dbtm.viz.theory.style import INK, LINES, RC, VERTEX_COLOURS, new_figure, panel

PREFIX = "eval/"
METRICS = "metrics.jsonl"
HEADLINES = ("perplexity", "entropy", "solved", "correct", "pair_tv", "total_variation", "agreement")
COLUMNS = 4  # panels side by side


class Series(NamedTuple):
    """A number over the steps of a run."""

    steps: list[int]
    values: list[float]


class Run(NamedTuple):
    """A run with its label and the series of all its metrics, by name."""

    label: str
    series: Mapping[str, Series]

    def evaluations(self) -> dict[str, Series]:
        """The series of the quick evaluations, without the prefix."""
        return {
            name.removeprefix(PREFIX): each
            for name, each in self.series.items()
            if name.startswith(PREFIX) and name != f"{PREFIX}score"
        }


def read_run(folder: Path, label: str | None = None) -> Run:
    """A run's metrics, without lines cut off by a kill and values that are not finite."""
    path = folder / METRICS
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UsageError(f"{folder} is not a run: cannot read {METRICS} ({error.strerror or error})") from None
    series: dict[str, Series] = {}
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(record, dict) or not is_whole(step := record.pop("step", None), 0, 10**15):
            continue
        for name, value in record.items():
            if is_number(value) and abs(value) < 1e100:  # larger values break the axis ticks
                each = series.setdefault(name, Series([], []))
                each.steps.append(step)
                each.values.append(float(value))
    return Run(label or folder.name, series)


def split(name: str) -> tuple[str, str]:
    """A metric and its budget: perplexity_4 is perplexity at 4, solved_4_clues35 is solved_clues35 at 4."""
    parts = name.split("_")
    for at in reversed(range(1, len(parts))):
        if parts[at].isdigit() or parts[at] in ("all", "data"):
            return "_".join(parts[:at] + parts[at + 1 :]), parts[at]
    return name, ""


def headlines(runs: Iterable[Run]) -> list[str]:
    """The names of the default panels: the metrics in `HEADLINES` if there are any, else all."""
    names = list(dict.fromkeys(name for run in runs for name in run.evaluations()))
    drawn = [name for name in names if split(name)[1] != "data"]
    chosen = [
        name
        for head in HEADLINES
        for name in drawn
        if split(name)[0] == head or split(name)[0].startswith(f"{head}_clues")
    ]
    return chosen or drawn


def draw_training(runs: Sequence[Run], names: Sequence[str] = ()) -> Figure:
    """Losses and evaluations: `names`, or by default the training loss, the validation loss and the headlines. A term
    of the loss has its own name.
    """
    told = [Run(run.label, {**_as_evaluations(run), **run.series}) for run in runs]
    known = {name for run in told for name in run.evaluations()}
    if not known:
        raise UsageError("the runs have no numbers yet: nothing to draw")
    main = [name for name in ("loss", "validation") if name in known]
    measured = [run for run in runs if run.evaluations()]
    more = [name for name in headlines(measured) if name not in main] if measured else []
    return draw_evaluations(told, list(names) or [*main, *more])


def _as_evaluations(run: Run) -> dict[str, Series]:
    return {f"{PREFIX}{name}": series for name, series in run.series.items() if not name.startswith(PREFIX)}


def draw_evaluations(runs: Sequence[Run], names: Sequence[str] = ()) -> Figure:
    """A panel per number, a line per run; `names` are those of the quick evaluations, such as perplexity_1."""
    known = list(dict.fromkeys(name for run in runs for name in run.evaluations()))
    if not known:
        raise UsageError("the runs have no evaluations: set train.evaluate_every (and task.judge for perplexities)")
    for name in names:
        if name not in known:
            raise UsageError(f"no run has measured '{name}'{nearest(name, known)}")
    wanted = list(names) or headlines(runs)
    columns = min(COLUMNS, len(wanted))
    rows = -(-len(wanted) // columns)
    with mpl.rc_context(RC):
        figure = new_figure(1.0 + 2.4 * columns, 0.4 + 2.2 * rows)
        panels = figure.subplots(rows, columns, squeeze=False).flatten()
        for at, (ax, name) in enumerate(zip(panels, wanted)):
            _draw(ax, runs, name)
            panel(ax, chr(ord("A") + at % 26), title(name))
            ax.set_xlabel("step")
        for ax in panels[len(wanted) :]:
            ax.set_axis_off()
        if len(runs) > 1 or any(line.get_linestyle() == ":" for line in panels[0].get_lines()):
            panels[0].legend()
    return figure


def title(name: str) -> str:
    """A title: solved_4_clues35 is `solved, 35 clues, 4 NFE`."""
    measure, budget = split(name)
    measure, _, clues = measure.partition("_clues")
    words = [literal(measure.replace("_", " ")), f"{clues} clues" if clues else "", f"{budget} NFE" if budget else ""]
    return ", ".join(word for word in words if word)


def _draw(ax: Axes, runs: Sequence[Run], name: str) -> None:
    measure, _ = split(name)
    for number, run in enumerate(runs):
        if (series := run.evaluations().get(name)) is not None:
            colour = VERTEX_COLOURS[number % len(VERTEX_COLOURS)]
            line = "o" + LINES[number // len(VERTEX_COLOURS) % len(LINES)]
            ax.plot(*series, line, color=colour, ms=2.5, label=literal(run.label))
    of_data = next((s for run in runs if (s := run.evaluations().get(f"{measure}_data"))), None)
    if of_data is not None:
        ax.axhline(of_data.values[-1], color=INK, lw=0.8, ls=":", label="held-out data")
    if measure == "perplexity":
        ax.set_yscale("log")
