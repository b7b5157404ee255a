"""Figure `births`: when the attractors of b_t appear, against the formula (fig:empirical), and the dominant one."""

import numpy as np
from matplotlib.axes import Axes

from dbtm.theory.attractors import birth, birth_times, comparable, death, formula_beta, time_at
from dbtm.theory.moments import Array
from dbtm.viz.theory.figure import Drawing, Setting
from dbtm.viz.theory.style import INK, VERTEX_COLOURS, new_figure, panel

_MARKS = "osD^"


def draw_births(setting: Setting) -> Drawing:
    """A: formula against exact. B: the earliest non-dominant birth. C: order by probability. D: the dominant vertex.

    D is not in the paper: it shows where prop:largest attractor fails (docs/theory.md).
    """
    sigma = setting.sigma
    figure = new_figure(12.0, 3.2)
    A, B, C, D = figure.subplots(1, 4)
    rng = np.random.default_rng(0)
    numbers = {
        "formula": _draw_formula(A, rng, sigma),
        "earliest": _draw_earliest(B, rng, sigma),
        "order": _draw_order(C, rng, sigma),
        "dominant": _draw_dominant(D, sigma),
    }
    return Drawing(figure, numbers)


def _draw_formula(ax: Axes, rng: np.random.Generator, sigma: float) -> dict[str, object]:
    """Formula with the count m as its proof uses it (filled) and as its statement reads (hollow)."""
    numbers: dict[str, object] = {}
    for V, mark, colour in zip((3, 10, 30, 100), _MARKS, VERTEX_COLOURS):
        exact, proof, stated = _formula_points(rng, V, sigma)
        ax.plot(exact, proof, mark, ms=3, color=colour, label=f"$V={V}$")
        ax.plot(exact, stated, mark, ms=3, color=colour, fillstyle="none", mew=0.4, alpha=0.6)
        numbers[f"V={V}"] = {
            "exact": exact,
            "formula_m_of_the_proof": proof,
            "formula_m_of_the_statement": stated,
            "max_error_m_of_the_proof": np.abs(proof - exact).max(),
            "max_error_m_of_the_statement": np.abs(stated - exact).max(),
        }
    ends = np.array(ax.get_xlim())
    ax.plot(ends, ends, color=INK, lw=0.6)
    ax.set(xlabel="exact $t_j$", ylabel="formula $t_j$")
    ax.legend()
    panel(ax, "A", "filled: $m$ as proved; hollow: as stated")
    return numbers


def _formula_points(rng: np.random.Generator, V: int, sigma: float) -> tuple[Array, Array, Array]:
    """Exact and estimated t_j of up to twelve vertices in each of six random targets."""
    exact, proof, stated = [], [], []
    for _ in range(6):
        p = rng.dirichlet(np.ones(V))
        order = np.argsort(-p)[1:]
        for j in order[:: max(1, len(order) // 12)]:
            m = comparable(p, j)
            exact.append(birth(p, j).beta)
            proof.append(formula_beta(p, j, m))
            stated.append(formula_beta(p, j, m - 1))
    return time_at(exact, sigma), time_at(proof, sigma), time_at(stated, sigma)


def _draw_earliest(ax: Axes, rng: np.random.Generator, sigma: float) -> dict[str, object]:
    """Birth of the second most probable vertex, the earliest of the non-dominant ones, for peaked to flat targets."""
    sizes = (2, 5, 20, 100, 1000, 5000)
    concentrations = (0.1, 1.0, 10.0)
    bound = float(time_at(2.0, sigma))
    numbers: dict[str, object] = {"V": sizes, "bound": bound}
    for c, mark, colour in zip(concentrations, _MARKS, VERTEX_COLOURS):
        rows = [[_second_birth(rng, V, c, sigma) for _ in range(4)] for V in sizes]
        for shift, column in zip((0.9, 0.97, 1.04, 1.1), np.transpose(rows)):
            ax.semilogx(shift * np.array(sizes), column, mark, ms=3, color=colour)
        ax.plot([], [], mark, ms=3, color=colour, label=f"Dirichlet({c:g})")
        numbers[f"dirichlet={c:g}"] = rows
    ax.axhline(bound, color=INK, lw=0.8, ls="--")
    ax.set(xlabel="vocabulary $V$", ylabel="earliest non-dominant $t_j$", ylim=(bound - 0.15, 1.0))
    ax.legend()
    panel(ax, "B", rf"none before $\beta=2$ ($t={bound:.3g}$)")
    return numbers


def _second_birth(rng: np.random.Generator, V: int, concentration: float, sigma: float) -> float:
    # A floor keeps the logarithm finite where a sparse draw underflows to zero.
    p = np.maximum(rng.dirichlet(np.full(V, concentration)), 1e-12)
    return float(birth_times(p / p.sum(), np.argsort(-p)[1], sigma)[0])


def _draw_order(ax: Axes, rng: np.random.Generator, sigma: float) -> dict[str, object]:
    numbers: dict[str, object] = {}
    for V, mark, colour in zip((10, 30, 100), _MARKS, VERTEX_COLOURS):
        p = rng.dirichlet(np.ones(V))
        later = np.argsort(-p)[1:]
        times = birth_times(p, later, sigma)
        ax.semilogx(p[later], times, f"{mark}-", ms=2.5, lw=0.6, color=colour, label=f"$V={V}$")
        numbers[f"V={V}"] = {"p": p[later], "t": times}
    ax.set(xlabel="$p_j$", ylabel="$t_j$")
    ax.legend()
    panel(ax, "C", "larger $p_j$, earlier birth")
    return numbers


def _draw_dominant(ax: Axes, sigma: float) -> dict[str, object]:
    """Birth of the dominant vertex's attractor, and end of the one that starts at p, for p_i = i^-s."""
    sizes = (3, 10, 30, 100, 300, 1000, 3000, 10_000)
    numbers: dict[str, object] = {"V": sizes}
    for power, line, mark in ((0.5, "-", "o"), (1.0, "--", "s")):
        born, gone = np.transpose([_coexistence(V, power, sigma) for V in sizes])
        ax.semilogx(
            sizes, gone, line, marker=mark, ms=3.5, color=VERTEX_COLOURS[1], label=f"old one ends, $s={power:g}$"
        )
        ax.semilogx(
            sizes, born, line, marker=mark, ms=3.5, color=VERTEX_COLOURS[0], label=f"new one born, $s={power:g}$"
        )
        numbers[f"s={power:g}"] = {
            "vertex_attractor_born": _none_for_nan(born),
            "attractor_from_p_ends": _none_for_nan(gone),
        }
    ax.set(xlabel="vocabulary $V$", ylabel="$t$", xlim=(2, 2e4))
    ax.legend()
    panel(ax, "D", "dominant vertex, $p_i \\propto i^{-s}$")
    return numbers


def _coexistence(V: int, power: float, sigma: float) -> tuple[float, float]:
    """Birth of the vertex attractor and end of the old one; NaN if the old one moves to the vertex."""
    p = np.arange(1.0, V + 1) ** -power
    p /= p.sum()
    end = death(p)
    if end is None:
        return np.nan, np.nan
    return float(time_at(birth(p, 0).beta, sigma)), float(time_at(end.beta, sigma))


def _none_for_nan(values: Array) -> list[float | None]:
    """None if there is no such time: JSON has no NaN."""
    return [None if np.isnan(v) else float(v) for v in values]
