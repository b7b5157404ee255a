"""Figure `basins`: attractors of b_t on four vertices as they appear, and the basins of the autonomous flow."""

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from dbtm.theory.attractors import attractors, birth_times, inverse_temperature
from dbtm.theory.flow import basins
from dbtm.theory.frozen import frozen_basins
from dbtm.theory.moments import Array
from dbtm.viz.theory.figure import Drawing, Setting
from dbtm.viz.theory.style import INK, VERTEX_COLOURS, dots, new_figure

# A regular tetrahedron, e_1 on top, turned so that no edge hides another; the last column is depth.
_CORNERS = np.array([[0.0, 1.0, 0.0], [-0.9, -0.25, -0.5], [0.9, -0.25, -0.5], [0.12, -0.75, 1.0]])
_POINTS = 2500


def draw_basins(setting: Setting) -> Drawing:
    """b_t before the first birth and after each one (fig:basins), then the autonomous flow at all times."""
    p, sigma, a = setting
    births = birth_times(p, range(4), sigma, a)
    dominant = int(np.argmax(p))
    later = np.sort(np.delete(births, dominant))
    times = [0.9 * later[0], *(0.5 * (later[:-1] + later[1:])), 0.5 * (1.0 + later[-1])]
    x0 = np.random.default_rng(0).dirichlet(np.ones(4), _POINTS)
    figure = new_figure(12.0, 2.7)
    panels = figure.subplots(1, 5)
    shares = {}
    for ax, t in zip(panels, times):
        beta = float(inverse_temperature(t, sigma, a))
        at_t = attractors(beta, p)
        vertex = np.array([dominant if attractor.vertex is None else attractor.vertex for attractor in at_t])
        labels = vertex[frozen_basins(x0, beta, p, at_t)]
        places = np.array([attractor.x for attractor in at_t])
        _draw_tetrahedron(ax, x0, labels, p, places)
        ax.set_title(f"$b_t$ at $t={t:.3f}$: {len(at_t)} attractor{'s' * (len(at_t) > 1)}")
        shares[f"{t:.4f}"] = {
            "attractors": places,
            "share": np.bincount(labels, minlength=4) / _POINTS,
        }
    labels = basins(x0, p, sigma, a)
    _draw_tetrahedron(panels[-1], x0, labels, p, np.eye(4))
    panels[-1].set_title("autonomous $b$, at all times")
    share = np.bincount(labels[labels >= 0], minlength=4) / _POINTS
    return Drawing(figure, {"birth_times": births, "panels": shares, "autonomous_share": share})


def _draw_tetrahedron(
    ax: Axes, points: Array, labels: NDArray[np.intp], p: tuple[float, ...], attractors: Array
) -> None:
    """Points coloured by the vertex of their basin, and the attractors as stars."""
    places = points @ _CORNERS
    back_to_front = places[:, 2].argsort()
    colours = np.array(VERTEX_COLOURS)[labels]
    dots(ax, places[back_to_front, :2], s=5, c=colours[back_to_front], alpha=0.6, linewidths=0, rasterized=True)
    for i in range(4):
        for k in range(i):
            ax.plot(*_CORNERS[[i, k], :2].T, color=INK, lw=0.7, zorder=1)
        x, y = 1.2 * _CORNERS[i, :2]
        ax.text(x, y, f"{p[i]:.3g}", ha="center", va="center", fontsize=8, color=VERTEX_COLOURS[i])
    dots(
        ax, (attractors @ _CORNERS)[:, :2], marker="*", s=130, color="#F0E442", edgecolors=INK, linewidths=0.8, zorder=5
    )
    ax.set(xlim=(-1.2, 1.2), ylim=(-1.0, 1.3), aspect="equal")
    ax.set_axis_off()
