"""The learned map beside the exact one on the 2-simplex."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from dbtm.core.atomic import write_bytes
from dbtm.theory.flow import transport_map

# Colour-blind safe (Okabe-Ito) vertex colours
COLOURS = ("#0072B2", "#E69F00", "#009E73")


# argmax T(x), shape (N,), for points x of shape (N, 3)
VertexOf = Callable[[np.ndarray], np.ndarray]


def draw_learned_beside_exact(learned_vertex: VertexOf, p: tuple[float, ...], cells: int = 160) -> Figure:
    """Basins of the learned and the exact map in the plane of the simplex, side by side."""
    basis = np.array([[1, -1, 0], [-1, -1, 2]]) / np.sqrt([[2], [6]])  # the plane sum x = 1
    reach = np.linspace(-2.2, 2.2, cells)
    plane = np.stack(np.meshgrid(reach, reach), -1).reshape(-1, 2)
    x = np.full(3, 1 / 3) + plane @ basis
    learned, exact = learned_vertex(x), transport_map(x, p)
    corners = (np.eye(3) - 1 / 3) @ basis.T
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axis, title, vertex in (
        (left, "learned map, one evaluation", learned),
        (right, "exact autonomous flow", exact),
    ):
        extent = (reach[0], reach[-1], reach[0], reach[-1])
        image = np.ma.masked_less(vertex.reshape(cells, cells), 0)  # -1: exactly on a basin boundary
        axis.imshow(image, origin="lower", extent=extent, cmap=ListedColormap(COLOURS), vmin=0, vmax=2, alpha=0.75)
        axis.plot(*corners[[0, 1, 2, 0]].T, color="black", linewidth=1)
        for j, corner in enumerate(corners):
            axis.scatter(*corner, color=COLOURS[j], edgecolor="black", zorder=3, s=60)
            axis.annotate(f"$e_{j + 1}$, p = {p[j]:g}", corner, xytext=(6, 6), textcoords="offset points")
        axis.set(title=title, xticks=[], yticks=[])
    same = np.mean(learned == exact)
    figure.suptitle(f"Where noise goes on the 2-simplex (plane $\\sum x = 1$; {same:.1%} of the area agrees)")
    return figure


def save_learned_beside_exact(learned_vertex: VertexOf, p: tuple[float, ...], path: Path, cells: int = 160) -> Path:
    """Write the drawing as a PNG, complete or not at all."""
    data = BytesIO()
    draw_learned_beside_exact(learned_vertex, p, cells).savefig(data, format="png", dpi=150)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, data.getvalue())
    return path
