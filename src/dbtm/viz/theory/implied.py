"""Figure `implied`: the field T(x) - x that a transport map implies is not b (remark:autonomous-flow)."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from dbtm.theory.flow import trajectories, transport_map
from dbtm.theory.implied import alignment, implied_flow
from dbtm.theory.moments import Array
from dbtm.viz.theory.figure import Drawing, Setting
from dbtm.viz.theory.style import AUTONOMOUS, TIME_DEPENDENT, VERTEX_COLOURS, draw_triangle, new_figure, panel, to_plane

_SIZES = (2, 3, 5, 10, 30)
_STARTS = 4000
_STARTS_LARGE = 1000  # from V = 10 on
_FOLLOWED, _STEPS, _HORIZONS = 300, 64, (1.0, 4.0)  # the steps and two horizons of tab:autonomous-field-horizon
_DRAWN = 12


def draw_implied(setting: Setting) -> Drawing:
    """A: paths of b, and the straight lines of T(x) - x. B: the angle between the two. C: the same against V."""
    p, sigma, _ = setting
    figure = new_figure(9.6, 3.1)
    A, B, C = figure.subplots(1, 3)
    rng = np.random.default_rng(0)
    x0 = sigma * rng.standard_normal((_STARTS, len(p)))
    cos = alignment(x0, p, sigma)
    _draw_paths(A, x0, setting)
    B.hist(cos, np.linspace(0, 1, 51).tolist(), color=AUTONOMOUS, alpha=0.8)
    B.axvline(cos.mean(), color=TIME_DEPENDENT, lw=1.2, ls="--", label=f"mean {cos.mean():.2f}, least {cos.min():.2f}")
    B.set(xlabel=r"$\cos(T(x_0)-x_0,\ b(x_0))$", ylabel=f"of {_STARTS:,} starts")
    B.legend(loc="upper left")
    panel(B, "B", rf"angle to $b$, $\sigma={sigma:g}$")
    by_size = {str(V): _summary(_uniform(rng, V, sigma)) for V in _SIZES}
    for key, line, colour in zip(("mean", "first_percentile", "least"), ("o-", "s--", "^:"), VERTEX_COLOURS):
        values = [row[key] for row in by_size.values()]
        C.semilogx(_SIZES, values, line, color=colour, ms=4, label=key.replace("_", " "))
    C.set_xticks(_SIZES, [str(V) for V in _SIZES])
    C.xaxis.set_minor_formatter(NullFormatter())
    C.set(xlabel="vocabulary $V$, uniform target", ylabel="cosine", ylim=(0, 1.02))
    C.legend(loc="lower right")
    panel(C, "C", "the same against $V$")
    return Drawing(
        figure, {"starts": _STARTS, **_summary(cos), "uniform_by_V": by_size, "horizons": _followed(x0, setting)}
    )


def _uniform(rng: np.random.Generator, V: int, sigma: float) -> Array:
    starts = _STARTS if V < 10 else _STARTS_LARGE
    return alignment(sigma * rng.standard_normal((starts, V)), np.full(V, 1 / V), sigma)


def _summary(cos: Array) -> dict[str, float]:
    cos = cos[np.isfinite(cos)]
    return {"points": len(cos), "mean": cos.mean(), "first_percentile": np.quantile(cos, 0.01), "least": cos.min()}


def _followed(x0: Array, setting: Setting) -> dict[str, dict[str, float]]:
    """The ends of 64 Euler steps along T(x) - x: distance from their vertex, and argmax."""
    p, sigma, _ = setting
    some = x0[:_FOLLOWED]
    vertex = transport_map(some, p, sigma)
    out = {}
    for horizon in _HORIZONS:
        end = implied_flow(some, p, horizon, _STEPS, sigma)
        out[f"{horizon:g}"] = {
            "starts": len(some),
            "argmax_is_T": np.mean(end.argmax(-1) == vertex),
            "mean_distance_to_T": np.linalg.norm(end - np.eye(len(p))[vertex], axis=-1).mean(),
        }
    return out


def _draw_paths(ax: Axes, x0: Array, setting: Setting) -> None:
    """Starts in the plane of the triangle, so that the drawing is exact."""
    p, sigma, a = setting
    plane = x0[:_DRAWN] - x0[:_DRAWN].mean(-1, keepdims=True) + 1 / len(p)
    vertices = transport_map(plane, p, sigma)
    for start, line, j in zip(plane, trajectories(plane, p, sigma, a), vertices):
        ax.plot(*to_plane(line).T, color=AUTONOMOUS, lw=1.1)
        ax.plot(*to_plane([start, np.eye(len(p))[j]]).T, color=TIME_DEPENDENT, lw=0.9, ls="--")
    draw_triangle(ax, p)
    drawn = to_plane(plane)
    low, high = np.minimum(drawn.min(0), [-0.6, -0.2]) - 0.1, np.maximum(drawn.max(0), [0.6, 1.0]) + 0.1
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    panel(ax, "A", r"paths of $b$, lines of $T(x)-x$ dashed")
