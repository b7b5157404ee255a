"""Figure `learned`: the trained one-step map against the exact one, over training, by anchor time and by V."""

import json
import tempfile
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from dbtm.config import RunConfig
from dbtm.recipes.toy import simplex
from dbtm.simplex.phase import commitment_time
from dbtm.tasks.toy import Categorical
from dbtm.theory.figures import Drawing, Setting
from dbtm.theory.style import INK, LINES, VERTEX_COLOURS, new_figure, panel
from dbtm.train.loop import fit

_ANCHORS = (None, 0.15, 0.3, 0.45, 0.6, 0.8)  # None: no anchor loss
_SIZES = (2, 3, 5, 10)
_STEPS = 600


def learned(setting: Setting) -> Drawing:
    """A: agreement with the exact map over training, by anchor time. B: distance of the sampled frequencies from p, the
    same runs. C: both at the end of training against V, for targets p_j proportional to 1/j, with the anchor at t*.
    """
    figure = new_figure(10.0, 3.1)
    A, B, C = figure.subplots(1, 3)
    t_star = commitment_time(len(setting.p))
    numbers: dict[str, object] = {"steps": _STEPS, "t_star": t_star}
    for t_anchor, line, colour in zip(_ANCHORS, (*LINES, *LINES), VERTEX_COLOURS, strict=False):
        curve = train_curve(setting.p, t_anchor)
        label = "no anchor" if t_anchor is None else f"$t_{{anchor}}={t_anchor:g}$"
        A.plot(curve["step"], curve["agreement"], linestyle=line, color=colour, label=label)
        B.semilogy(curve["step"], curve["total_variation"], linestyle=line, color=colour, label=label)
        numbers[label.strip("$")] = curve
    numbers["by V"] = _by_size(C)
    A.set(xlabel="training step", ylabel="agreement with the exact map", ylim=(None, 1.0))
    B.set(xlabel="training step", ylabel="total variation from $p$")
    panel(A, "A", f"one-step map, $t^*={t_star:.2f}$")
    panel(B, "B", "one-step frequencies")
    panel(C, "C", "by vocabulary size, anchor at $t^*$")
    figure.legend(*A.get_legend_handles_labels(), loc="outside lower center", ncols=len(_ANCHORS))
    return Drawing(figure, numbers)


def train_curve(p: tuple[float, ...], t_anchor: float | None) -> dict[str, list[float]]:
    """Agreement and total variation over training of the recipe `simplex` with this target and anchor time."""
    base = simplex()
    task = Categorical(p=p)
    return _curve(
        replace(
            base,
            task=task,
            model=replace(base.model, vocab=task.vocab, embed_std=task.vocab**-0.5),
            path=replace(base.path, t_anchor=t_anchor),
            loss=replace(base.loss, anchor=0.0 if t_anchor is None else 1.0),
            train=replace(base.train, steps=_STEPS, evaluate_every=_STEPS // 6, device="cpu"),
        )
    )


def _curve(config: RunConfig) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder, redirect_stderr(StringIO()):
        fit(config, folder)
        rows = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "eval/agreement" in row]
    return {
        "step": [row["step"] for row in rows],
        "agreement": [row["eval/agreement"] for row in rows],
        "total_variation": [row["eval/total_variation"] for row in rows],
    }


def _by_size(ax: Axes) -> dict[str, list[float]]:
    ends: dict[str, list[float]] = {"V": [], "agreement": [], "total_variation": []}
    for V in _SIZES:
        p = 1 / np.arange(1, V + 1)
        curve = train_curve(tuple((p / p.sum()).tolist()), commitment_time(V))
        ends["V"].append(V)
        ends["agreement"].append(curve["agreement"][-1])
        ends["total_variation"].append(curve["total_variation"][-1])
    ax.plot(ends["V"], ends["agreement"], "o-", color=VERTEX_COLOURS[0], label="agreement with the exact map")
    ax.plot(ends["V"], ends["total_variation"], "s--", color=VERTEX_COLOURS[1], label="total variation from $p$")
    ax.axhline(1.0, color=INK, lw=0.5)
    ax.set(xlabel="$V$", ylim=(0, 1.05), xscale="log")
    ax.set_xticks(_SIZES, [str(V) for V in _SIZES])
    ax.set_xticks([], minor=True)
    ax.legend(loc="center right")
    return ends
