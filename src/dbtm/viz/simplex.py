"""The learned map beside the exact one on the 2-simplex."""

from pathlib import Path

import numpy as np
import torch

from dbtm.nn import TransportMap
from dbtm.theory.flow import transport_map

# Colour-blind safe (Okabe-Ito) vertex colours
COLOURS = ("#0072B2", "#E69F00", "#009E73")


@torch.no_grad()
def learned_vertex(model: TransportMap, x: np.ndarray) -> np.ndarray:
    """argmax T(x) for points (N, V)."""
    device = model.embedding.device
    return model(torch.tensor(x, dtype=torch.float32, device=device)[:, None])[:, 0].argmax(-1).cpu().numpy()


def draw(model: TransportMap, p: tuple[float, ...], path: Path, cells: int = 160) -> Path:
    """Basins in the plane of the simplex: learned and exact, side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import ListedColormap

    basis = np.array([[1, -1, 0], [-1, -1, 2]]) / np.sqrt([[2], [6]])  # the plane sum x = 1
    reach = np.linspace(-2.2, 2.2, cells)
    plane = np.stack(np.meshgrid(reach, reach), -1).reshape(-1, 2)
    x = np.full(3, 1 / 3) + plane @ basis
    panels = {"learned map, one evaluation": learned_vertex(model, x), "exact autonomous flow": transport_map(x, p)}
    corners = (np.eye(3) - 1 / 3) @ basis.T
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained")
    for axis, (title, vertex) in zip(axes, panels.items(), strict=True):
        extent = (reach[0], reach[-1], reach[0], reach[-1])
        image = np.ma.masked_less(vertex.reshape(cells, cells), 0)  # -1: exactly on a basin boundary
        axis.imshow(image, origin="lower", extent=extent, cmap=ListedColormap(COLOURS), vmin=0, vmax=2, alpha=0.75)
        axis.plot(*corners[[0, 1, 2, 0]].T, color="black", linewidth=1)
        for j, corner in enumerate(corners):
            axis.scatter(*corner, color=COLOURS[j], edgecolor="black", zorder=3, s=60)
            axis.annotate(f"$e_{j + 1}$, p = {p[j]:g}", corner, xytext=(6, 6), textcoords="offset points")
        axis.set(title=title, xticks=[], yticks=[])
    same = np.mean(panels["learned map, one evaluation"] == panels["exact autonomous flow"])
    figure.suptitle(f"Where noise goes on the 2-simplex (plane $\\sum x = 1$; {same:.1%} of the area agrees)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
