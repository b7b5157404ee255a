"""The learned map beside the exact one on the 2-simplex."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from dbtm.core.atomic import write_bytes
from dbtm.theory.flow import transport_map
from dbtm.viz.theory.style import VERTEX_COLOURS, draw_triangle, new_figure, plane_grid

REACH = 1.2  # margin around the triangle, in sides: most of the noise starts there
# argmax T(x), shape (N,), for points x of shape (N, 3)
VertexOf = Callable[[np.ndarray], np.ndarray]


def draw_learned_beside_exact(learned_vertex: VertexOf, p: tuple[float, ...], cells: int = 160) -> Figure:
    """Basins of the learned and the exact map in the plane of the simplex, side by side."""
    h, v, grid = plane_grid(cells, REACH)
    points = grid.reshape(-1, 3)
    learned, exact = learned_vertex(points), transport_map(points, p)
    colours = ListedColormap(VERTEX_COLOURS[:3])
    figure = new_figure(9, 4.9)
    for axis, title, vertex in zip(
        figure.subplots(1, 2), ("learned map, one evaluation", "exact autonomous flow"), (learned, exact), strict=True
    ):
        draw_triangle(axis, p)
        image = np.ma.masked_less(vertex.reshape(cells, cells), 0)  # -1: exactly on a basin boundary
        extent = (h[0], h[-1], v[0], v[-1])
        axis.imshow(image, origin="lower", extent=extent, cmap=colours, vmin=0, vmax=2, alpha=0.75)
        axis.set(title=title, xlim=extent[:2], ylim=extent[2:])
    same = np.mean(learned == exact)
    figure.suptitle(f"Destination of noise on the 2-simplex (plane $\\sum x = 1$; {same:.1%} of the area agrees)")
    return figure


def save_learned_beside_exact(learned_vertex: VertexOf, p: tuple[float, ...], path: Path, cells: int = 160) -> Path:
    """Write the drawing as a PNG, atomically."""
    data = BytesIO()
    draw_learned_beside_exact(learned_vertex, p, cells).savefig(data, format="png", dpi=150)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, data.getvalue())
    return path
