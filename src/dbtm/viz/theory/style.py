"""Shared look of the figures: colour-blind safe, legible in print, and the drawing plane of the 2-simplex."""

import warnings
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from dbtm.theory.moments import Array

# Okabe and Ito's palette: distinct for the common colour-vision deficiencies, and in grey by its lightness.
VERTEX_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
AUTONOMOUS, TIME_DEPENDENT = "#0072B2", "#D55E00"
INK = "#222222"
# A second cue besides colour: each schedule exponent, or size, also has its own line style.
LINES = ("-", "--", ":", "-.")

RC: dict[Any, Any] = {
    "font.size": 8.5,
    "axes.titlesize": 9.0,
    "axes.labelsize": 8.5,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "dbtm",
    "svg.fonttype": "none",
    "lines.linewidth": 1.4,
}

_LABEL = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}

# Corners of the drawn triangle: e_1 at the top, e_2 at the left, e_3 at the right.
CORNERS = np.array([[0.0, np.sqrt(3) / 2], [-0.5, 0.0], [0.5, 0.0]])


def drawn(figure: Figure, **options: Any) -> bytes:
    """A figure as file content. Letters that the font lacks, in users' names, become boxes."""
    data = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(data, **options)
    return data.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """A new figure, in inches, with constrained layout and without global pyplot state."""
    return Figure(figsize=(width, height), layout="constrained")


def panel(ax: Axes, letter: str, title: str) -> None:
    """Bold letter and a short title."""
    ax.set_title(rf"$\bf{{{letter}}}$  {title}", loc="left")


def dots(ax: Axes, points: ArrayLike, **look: Any) -> None:
    """Scatter points of shape (..., 2)."""
    x, y = np.reshape(points, (-1, 2)).T
    ax.scatter(x, y, **look)


def to_plane(x: ArrayLike) -> Array:
    """Drawing coordinates of points with coordinates summing to one, shape (..., 3) -> (..., 2)."""
    return np.asarray(x, dtype=np.float64) @ CORNERS


def plane_grid(n: int, margin: float = 0.33) -> tuple[Array, Array, Array]:
    """Horizontal and vertical drawing coordinates of an n x n grid, and its points (n, n, 3) in the plane sum x = 1."""
    h = np.linspace(-0.5 - margin, 0.5 + margin, n)
    v = np.linspace(-margin, np.sqrt(3) / 2 + margin, n)
    H, V = np.meshgrid(h, v)
    top = V / (np.sqrt(3) / 2)
    right = H + 0.5 * (1.0 - top)
    return h, v, np.stack([top, 1.0 - top - right, right], axis=-1)


def draw_triangle(ax: Axes, p: Sequence[float] | Array, size: float = 36.0) -> None:
    """The simplex with its vertices, labelled with their probabilities, on axes of equal scale."""
    ring = np.vstack([CORNERS, CORNERS[:1]])
    ax.plot(*ring.T, color=INK, lw=0.8, zorder=3)
    dots(ax, CORNERS, s=size, c=VERTEX_COLOURS[:3], edgecolors="white", linewidths=0.8, zorder=6)
    shifts = ((0, 0.075, "center"), (-0.03, -0.11, "center"), (0.03, -0.11, "center"))
    for k, (corner, (dx, dy, side)) in enumerate(zip(CORNERS, shifts)):
        ax.text(
            corner[0] + dx,
            corner[1] + dy,
            f"$e_{k + 1}$  {p[k]:.3g}",
            ha=side,
            va="center",
            fontsize=7.5,
            bbox=_LABEL,
            zorder=7,
        )
    ax.set_aspect("equal")
    ax.set(xlim=(-0.83, 0.83), ylim=(-0.33, np.sqrt(3) / 2 + 0.33))
    ax.set_axis_off()
