"""Figures of the theory by name: their content and settings, and the maps that `learned` trains.

A figure is a module of dbtm.viz.theory, an entry in FIGURES and a line in `_draw`.
"""

import json
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np

from dbtm.core.atomic import write_bytes
from dbtm.core.errors import UsageError, nearest
from dbtm.viz.theory.figure import Drawing, Setting, check_setting, save_drawing
from dbtm.viz.theory.learned import LearnedMaps, TrainingCurve, draw_learned
from dbtm.viz.theory.style import RC

# Called with (finished training runs, all training runs). An exception raised in it cancels the request.
OnProgress = Callable[[int, int], None]

ANCHOR_TIMES = (None, 0.15, 0.3, 0.45, 0.6, 0.8)  # None: no anchor loss
SIZES = (2, 3, 5, 10)
STEPS = 600  # of each training run


class CatalogueEntry(NamedTuple):
    """The catalogue's description of a figure."""

    about: str
    default: Setting
    reads: frozenset[str]  # settings that the figure depends on
    vertices: int | None = None  # the V that it draws; None: any


@dataclass(frozen=True)
class FigureRequest:
    """One figure; None keeps the figure's default."""

    figure: str
    p: tuple[float, ...] | None = None
    sigma: float | None = None
    a: float | None = None
    folder: Path | None = None  # where to write PNG, SVG and JSON; None: write nothing


class FigureResult(NamedTuple):
    """A drawn figure, and its files if a folder was given."""

    figure: str
    setting: Setting
    drawing: Drawing
    paths: list[Path]


_TRIANGLE = Setting((0.5, 0.3, 0.2))
_ALL = frozenset({"p", "sigma", "a"})

FIGURES: dict[str, CatalogueEntry] = {
    "simplex": CatalogueEntry(
        "the autonomous field and its transport map on the 2-simplex", _TRIANGLE, _ALL, vertices=3
    ),
    "dynamics": CatalogueEntry("autonomous and time-dependent flow, panels A-H", _TRIANGLE, _ALL, vertices=3),
    "straightness": CatalogueEntry("path over chord against V, for both flows", _TRIANGLE, frozenset({"sigma"})),
    "implied": CatalogueEntry(
        "the field T(x) - x that the exact map implies, beside b", _TRIANGLE, frozenset({"p", "sigma"}), vertices=3
    ),
    "vertex": CatalogueEntry(
        "speed of arrival at a vertex (a jump for a = 1, continuous for a > 1) and hitting times",
        _TRIANGLE,
        frozenset({"p", "sigma"}),
    ),
    "basins": CatalogueEntry(
        "attractors of b_t on four vertices and their basins", Setting((0.4, 0.38, 0.2, 0.02)), _ALL, vertices=4
    ),
    "births": CatalogueEntry("when the attractors of b_t appear, against the formula", _TRIANGLE, frozenset({"sigma"})),
    "phase": CatalogueEntry("argmax recovery around the commitment time t*", _TRIANGLE, frozenset({"sigma", "a"})),
    "learned": CatalogueEntry(
        "the trained one-step map against the exact one, by anchor time and V (trains for a few minutes)",
        _TRIANGLE,
        frozenset({"p"}),
    ),
}


def find_figure(name: str) -> CatalogueEntry:
    """The entry of that name, or a UsageError with the closest name."""
    if name not in FIGURES:
        raise UsageError(f"there is no theory figure '{name}'{nearest(name, FIGURES)}")
    return FIGURES[name]


def setting_for(request: FigureRequest) -> Setting:
    """The setting of a request, or a UsageError."""
    entry = find_figure(request.figure)
    given: dict[str, Any] = {key: value for key in Setting._fields if (value := getattr(request, key)) is not None}
    for key in sorted(set(given) - entry.reads):
        raise UsageError(f"figure '{request.figure}' does not read {key}; it reads {', '.join(sorted(entry.reads))}")
    setting = check_setting(entry.default._replace(**given))
    if entry.vertices is not None and len(setting.p) != entry.vertices:
        raise UsageError(
            f"figure '{request.figure}' draws {entry.vertices} vertices; p gives {len(setting.p)} probabilities"
        )
    return setting


def draw_figure(request: FigureRequest, progress: OnProgress | None = None) -> FigureResult:
    """Draw one figure and save it; a wrong setting or folder is refused before any work starts."""
    setting = setting_for(request)
    if request.folder is not None:
        _make_folder(request.folder)
    drawing = _draw(request.figure, setting, progress)
    paths = [] if request.folder is None else save_drawing(request.figure, drawing, setting, request.folder)
    return FigureResult(request.figure, setting, drawing, paths)


def write_page(folder: Path) -> Path:
    """Write the interactive page for three vertices, simplex.html, atomically."""
    from dbtm.viz.theory.page import render_page

    _make_folder(folder)
    path = folder / "simplex.html"
    write_bytes(path, render_page().encode())
    return path


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot use {folder} as the folder for the files: {error.strerror}") from None


def _draw(name: str, setting: Setting, progress: OnProgress | None) -> Drawing:
    # Imported here, so that the catalogue is listed without waiting for SciPy and PyTorch.
    from dbtm.viz.theory.basins import draw_basins
    from dbtm.viz.theory.births import draw_births
    from dbtm.viz.theory.dynamics import draw_dynamics
    from dbtm.viz.theory.implied import draw_implied
    from dbtm.viz.theory.phase import draw_phase
    from dbtm.viz.theory.simplex import draw_simplex
    from dbtm.viz.theory.straightness import draw_straightness
    from dbtm.viz.theory.vertex import draw_vertex

    functions: dict[str, Callable[[Setting], Drawing]] = {
        "simplex": draw_simplex,
        "dynamics": draw_dynamics,
        "straightness": draw_straightness,
        "implied": draw_implied,
        "vertex": draw_vertex,
        "basins": draw_basins,
        "births": draw_births,
        "phase": draw_phase,
        "learned": lambda setting: draw_learned(train_maps(setting.p, progress)),
    }
    with mpl.rc_context(RC):
        return functions[name](setting)


def train_maps(p: tuple[float, ...], progress: OnProgress | None = None) -> LearnedMaps:
    """Train the maps of figure `learned`: one per anchor time with target p, then one per vocabulary size."""
    from dbtm.simplex.phase import commitment_time

    runs = [(p, t_anchor) for t_anchor in ANCHOR_TIMES]
    runs += [(_harmonic(V), commitment_time(V)) for V in SIZES]
    curves: list[TrainingCurve] = []
    for target, t_anchor in runs:
        if progress is not None:
            progress(len(curves), len(runs))
        curves.append(train_curve(target, t_anchor))
    if progress is not None:
        progress(len(runs), len(runs))
    first = len(ANCHOR_TIMES)
    by_anchor = dict(zip(ANCHOR_TIMES, curves[:first], strict=True))
    return LearnedMaps(STEPS, commitment_time(len(p)), by_anchor, dict(zip(SIZES, curves[first:], strict=True)))


def _harmonic(V: int) -> tuple[float, ...]:
    """p_j proportional to 1/j."""
    p = 1 / np.arange(1, V + 1)
    return tuple((p / p.sum()).tolist())


def train_curve(
    p: tuple[float, ...], t_anchor: float | None, steps: int = STEPS, evaluations: int = 6
) -> TrainingCurve:
    """Train the recipe `simplex` with this target and anchor time (None: no anchor loss); compare during training."""
    from dbtm.evals.quick import evaluate
    from dbtm.methods.dbtm import Config
    from dbtm.recipes.toy import simplex
    from dbtm.tasks.toy import Categorical
    from dbtm.train.loop import fit

    base, task = simplex(), Categorical(p=p)
    method = base.method
    assert isinstance(method, Config)
    config = replace(
        base,
        task=task,
        model=replace(base.model, embed_std=task.vocab**-0.5),
        method=replace(
            method,
            path=replace(method.path, t_anchor=t_anchor),
            loss=replace(method.loss, anchor=0.0 if t_anchor is None else 1.0),
        ),
        train=replace(base.train, steps=steps, evaluate_every=steps // evaluations, device="cpu"),
    )
    with tempfile.TemporaryDirectory() as folder, redirect_stderr(StringIO()):  # the loop reports to stderr
        fit(config, folder, evaluate=evaluate)
        records = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    if records[-1]["step"] < steps:
        raise KeyboardInterrupt  # the loop ends early only on a signal
    rows = [record for record in records if "eval/agreement" in record]
    return TrainingCurve(
        [row["step"] for row in rows],
        [row["eval/agreement"] for row in rows],
        [row["eval/total_variation"] for row in rows],
    )
