"""Figure `simplex`: the autonomous field on the 2-simplex and its transport map (fig:discrete-btm, top)."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from numpy.typing import NDArray

from dbtm.theory.field import autonomous_field
from dbtm.theory.flow import basins, trajectories, transport_map
from dbtm.theory.moments import Array
from dbtm.viz.theory.figure import Drawing, Setting
from dbtm.viz.theory.style import INK, VERTEX_COLOURS, dots, draw_triangle, new_figure, panel, plane_grid, to_plane

_STARTS = 10_000


def draw_simplex(setting: Setting) -> Drawing:
    """Left: b(x) in the plane of the simplex. Right: T(x), its basins, with the prior's pushforward in the title."""
    p, sigma, a = setting
    x0 = sigma * np.random.default_rng(0).standard_normal((_STARTS, 3))
    frequency = np.bincount(transport_map(x0, p, sigma, a), minlength=3)[:3] / _STARTS
    figure = new_figure(7.0, 3.5)
    left, right = figure.subplots(1, 2)
    draw_field(left, lambda x: autonomous_field(x, p, sigma, a))
    draw_triangle(left, p)
    panel(left, "A", rf"autonomous field $b(x)$, $\sigma={sigma:g}$, $a={a:g}$")
    labels = colour_by_basin(right, setting)
    for line in trajectories(_ring(), p, sigma, a):
        right.plot(*to_plane(line).T, color=INK, lw=0.7, alpha=0.8)
        dots(right, to_plane(line[0]), s=5, color=INK, zorder=4)
    draw_triangle(right, p)
    panel(right, "B", "transport map $T(x)$ and trajectories")
    shares = "   ".join(f"$e_{k + 1}$ {f:.3f} ({q:.3g})" for k, (f, q) in enumerate(zip(frequency, p)))
    figure.supxlabel(f"share of {_STARTS:,} prior draws that $T$ sends to each vertex (target):  {shares}", fontsize=8)
    return Drawing(figure, {"starts": _STARTS, "pushforward": frequency, "target": p, "basin_area": _areas(labels)})


def draw_field(ax: Axes, field: Callable[[Array], Array], density: float = 1.1) -> None:
    """Streamlines of a field in the plane sum x = 1 over its speed (darker is faster)."""
    h, v, points = plane_grid(61)
    b = to_plane(field(points))
    speed = np.linalg.norm(b, axis=-1)
    extent = (h[0], h[-1], v[0], v[-1])
    ax.imshow(speed, extent=extent, origin="lower", cmap="Greys", alpha=0.5, interpolation="bilinear")
    ax.streamplot(h, v, b[..., 0], b[..., 1], density=density, color="#0b3c5d", linewidth=0.7, arrowsize=0.7)


def colour_by_basin(ax: Axes, setting: Setting, n: int = 161) -> NDArray[np.intp]:
    """Colour the plane by T(x)."""
    h, v, points = plane_grid(n)
    labels = basins(points, *setting)
    ax.pcolormesh(h, v, labels, cmap=ListedColormap(VERTEX_COLOURS[:3]), vmin=0, vmax=2, alpha=0.45, rasterized=True)
    return labels


def _areas(labels: NDArray[np.intp]) -> Array:
    return np.bincount(labels.ravel()[labels.ravel() >= 0], minlength=3) / labels.size


def _ring() -> Array:
    """Starts on a circle around the simplex, in its plane."""
    angle = 2 * np.pi * np.arange(18) / 18
    centre = np.array([0.0, np.sqrt(3) / 6])
    spot = centre + 0.6 * np.column_stack([np.cos(angle), np.sin(angle)])
    top = spot[:, 1] / (np.sqrt(3) / 2)
    right = spot[:, 0] + 0.5 * (1.0 - top)
    return np.column_stack([top, 1.0 - top - right, right])
