"""Figure `learned`: the trained one-step map against the exact one, over training, by anchor time and by V."""

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.axes import Axes

from dbtm.viz.theory.figure import Drawing
from dbtm.viz.theory.style import INK, LINES, VERTEX_COLOURS, new_figure, panel


class TrainingCurve(NamedTuple):
    """The evaluations during one training run, in order."""

    step: list[int]
    agreement: list[float]  # share of prior draws that the learned and the exact map send to the same vertex
    total_variation: list[float]  # distance of the one-step frequencies from the target p


class LearnedMaps(NamedTuple):
    """The training runs that the figure shows."""

    steps: int  # length of each run
    t_star: float  # commitment time of the first group's vocabulary
    by_anchor: Mapping[float | None, TrainingCurve]  # anchor time -> run; None: no anchor loss
    by_size: Mapping[int, TrainingCurve]  # V -> run with p_j proportional to 1/j and the anchor at t*


def draw_learned(maps: LearnedMaps) -> Drawing:
    """A: agreement with the exact map over training, by anchor time. B: distance of the sampled frequencies from p, the
    same runs. C: both at the end of training against V, for targets p_j proportional to 1/j, with the anchor at t*.
    """
    figure = new_figure(10.0, 3.1)
    A, B, C = figure.subplots(1, 3)
    numbers: dict[str, object] = {"steps": maps.steps, "t_star": maps.t_star}
    for (t_anchor, curve), line, colour in zip(maps.by_anchor.items(), (*LINES, *LINES), VERTEX_COLOURS, strict=False):
        label = "no anchor" if t_anchor is None else f"$t_{{anchor}}={t_anchor:g}$"
        A.plot(curve.step, curve.agreement, linestyle=line, color=colour, label=label)
        B.semilogy(curve.step, curve.total_variation, linestyle=line, color=colour, label=label)
        numbers[label.strip("$")] = curve._asdict()
    numbers["by V"] = _draw_by_size(C, maps.by_size)
    A.set(xlabel="training step", ylabel="agreement with the exact map", ylim=(None, 1.0))
    B.set(xlabel="training step", ylabel="total variation from $p$")
    panel(A, "A", f"one-step map, $t^*={maps.t_star:.2f}$")
    panel(B, "B", "one-step frequencies")
    panel(C, "C", "by vocabulary size, anchor at $t^*$")
    figure.legend(*A.get_legend_handles_labels(), loc="outside lower center", ncols=len(maps.by_anchor))
    return Drawing(figure, numbers)


def _draw_by_size(ax: Axes, by_size: Mapping[int, TrainingCurve]) -> dict[str, list[float]]:
    sizes = list(by_size)
    agreement = [curve.agreement[-1] for curve in by_size.values()]
    total_variation = [curve.total_variation[-1] for curve in by_size.values()]
    ax.plot(sizes, agreement, "o-", color=VERTEX_COLOURS[0], label="agreement with the exact map")
    ax.plot(sizes, total_variation, "s--", color=VERTEX_COLOURS[1], label="total variation from $p$")
    ax.axhline(1.0, color=INK, lw=0.5)
    ax.set(xlabel="$V$", ylim=(0, 1.05), xscale="log")
    ax.set_xticks(sizes, [str(V) for V in sizes])
    ax.set_xticks([], minor=True)
    ax.legend(loc="center right")
    return {"V": [*sizes], "agreement": agreement, "total_variation": total_variation}
