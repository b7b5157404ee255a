"""Figure `dynamics`: the eight panels of fig:flow-dynamics."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes

from dbtm.simplex.phase import commitment_time
from dbtm.theory.attractors import attractors, inverse_temperature
from dbtm.theory.field import autonomous_field, time_dependent_field
from dbtm.theory.flow import Journey, trajectories, travel, travel_time_dependent
from dbtm.theory.moments import Array
from dbtm.viz.theory.figure import Drawing, Setting
from dbtm.viz.theory.simplex import draw_field
from dbtm.viz.theory.style import (
    AUTONOMOUS,
    INK,
    LINES,
    TIME_DEPENDENT,
    VERTEX_COLOURS,
    dots,
    draw_triangle,
    new_figure,
    panel,
    to_plane,
)

_TIMES = (0.3, 0.8)
_EXPONENTS = (1, 2, 3)
_STARTS = 2000


def draw_dynamics(setting: Setting) -> Drawing:
    """A: b. B, C: b_t before and after commitment, with its attractors. D, H: t*. E-G: paths and chords."""
    p, sigma, a = setting
    figure = new_figure(11.0, 5.6)
    (A, B, C, D), (E, F, G, H) = figure.subplots(2, 4)
    draw_field(A, lambda x: autonomous_field(x, p, sigma, a), density=0.8)
    draw_triangle(A, p)
    panel(A, "A", "autonomous $b(x)$")
    attractors_at = {}
    for ax, letter, t in zip((B, C), "BC", _TIMES):
        draw_field(ax, partial(_frozen, t=t, setting=setting), density=0.8)
        attractors_at[str(t)] = _mark_attractors(ax, t, setting)
        draw_triangle(ax, p)
        panel(ax, letter, f"$b_t(x)$ at $t={t}$, attractors starred")
    curves_V, curves_sigma = _commitment_curves(D, H, sigma, len(p))
    x0 = sigma * np.random.default_rng(0).standard_normal((_STARTS, len(p)))
    journeys = travel(x0, p, sigma, a), travel_time_dependent(x0, p, sigma)
    _draw_paths(E, setting, autonomous=True)
    panel(E, "E", "autonomous paths, chords dashed")
    _draw_paths(F, setting, autonomous=False)
    panel(F, "F", "time-dependent paths")
    ratios = _draw_ratios(G, *journeys)
    numbers = {
        "commitment_time": commitment_time(len(p), sigma, a),
        "attractors_at": attractors_at,
        "t_star_against_V": curves_V,
        "t_star_against_sigma": curves_sigma,
        "path_over_chord": ratios,
    }
    return Drawing(figure, numbers)


def _frozen(x: Array, t: float, setting: Setting) -> Array:
    return time_dependent_field(t, x, *setting)


def _mark_attractors(ax: Axes, t: float, setting: Setting) -> list[list[float]]:
    p, sigma, a = setting
    places = [attractor.x for attractor in attractors(float(inverse_temperature(t, sigma, a)), p)]
    dots(ax, to_plane(places), marker="*", s=110, color="#F0E442", edgecolors=INK, linewidths=0.7, zorder=8)
    return [x.tolist() for x in places]


def _commitment_curves(D: Axes, H: Axes, sigma: float, V: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """t* against V at this sigma, and against sigma at this V and at a vocabulary's size."""
    sizes, scales = np.geomspace(2, 1e5, 60), np.linspace(0.1, 3.0, 60)
    by_V: dict[str, Array] = {"V": sizes}
    by_sigma: dict[str, Array] = {"sigma": scales}
    for a, line, colour in zip(_EXPONENTS, LINES, VERTEX_COLOURS):
        by_V[f"a={a}"] = np.array([commitment_time(n, sigma, a) for n in sizes])
        by_sigma[f"a={a}"] = np.array([commitment_time(V, s, a) for s in scales])
        D.semilogx(sizes, by_V[f"a={a}"], line, color=colour, label=f"$a={a}$")
        H.plot(scales, by_sigma[f"a={a}"], line, color=colour, label=f"$a={a}$")
    D.set(xlabel="vocabulary $V$", ylabel="$t^*$", ylim=(0, 1))
    H.set(xlabel=r"prior scale $\sigma$", ylabel="$t^*$", ylim=(0, 1))
    panel(D, "D", rf"commitment time, $\sigma={sigma:g}$")
    panel(H, "H", f"commitment time, $V={V}$")
    D.legend()
    H.legend()
    return by_V, by_sigma


def _draw_paths(ax: Axes, setting: Setting, autonomous: bool) -> None:
    """The same starts in the plane of the simplex for both flows, so that the two panels compare."""
    rng = np.random.default_rng(4)
    x0 = setting.sigma * rng.standard_normal((60, 3))
    x0 += (1.0 - x0.sum(axis=-1, keepdims=True)) / 3.0
    spots = to_plane(x0)
    inside = (np.abs(spots[:, 0]) < 0.8) & (spots[:, 1] > -0.3) & (spots[:, 1] < 1.15)
    x0 = x0[inside][:14]
    for line in trajectories(x0, *setting, autonomous=autonomous):
        colour = VERTEX_COLOURS[int(line[-1].argmax())]
        flat = to_plane(line)
        ax.plot(*flat.T, color=colour, lw=1.1)
        ax.plot(*flat[[0, -1]].T, color=colour, lw=0.6, ls=(0, (3, 3)))
        dots(ax, flat[0], s=6, color=INK, zorder=5)
    draw_triangle(ax, setting.p)


def _draw_ratios(ax: Axes, autonomous: Journey, time_dependent: Journey) -> dict[str, float]:
    """Histograms of path over chord; the numbers also say how often the autonomous path is straighter."""
    bins = np.linspace(1.0, 1.8, 41).tolist()
    pairs = ((autonomous, AUTONOMOUS, "autonomous", "-"), (time_dependent, TIME_DEPENDENT, "time-dependent", "--"))
    for journey, colour, name, line in pairs:
        ratio = journey.ratio
        label = f"{name}: mean {ratio.mean():.3f}"
        ax.hist(np.minimum(ratio, bins[-1]), bins, histtype="step", color=colour, ls=line, label=label)
        ax.axvline(ratio.mean(), color=colour, ls=line, lw=0.8)
    ax.set(xlabel="path / chord (last bin: and above)", ylabel=f"of {len(autonomous.path):,} starts")
    ax.legend()
    panel(ax, "G", "straightness")
    gap = time_dependent.ratio - autonomous.ratio
    return {
        "autonomous_mean": autonomous.ratio.mean(),
        "time_dependent_mean": time_dependent.ratio.mean(),
        "mean_gap": gap.mean(),
        "mean_gap_standard_error": gap.std() / np.sqrt(len(gap)),
        "share_autonomous_straighter": np.mean(gap > 0),
        "same_vertex": np.mean(autonomous.vertex == time_dependent.vertex),
    }
