"""Figure `straightness`: path over chord of both flows against V (the claim behind fig:flow-dynamics E-G, at scale)."""

import numpy as np
from matplotlib.axes import Axes

from dbtm.theory.flow import travel, travel_time_dependent
from dbtm.theory.moments import Array
from dbtm.viz.theory.figure import Drawing, Setting
from dbtm.viz.theory.style import AUTONOMOUS, TIME_DEPENDENT, new_figure, panel

_SIZES = (2, 3, 5, 10, 30, 100)
_STARTS = 600
_STARTS_LARGE = 200  # from V = 30 on, where the spread between starts is small


def draw_straightness(setting: Setting) -> Drawing:
    """Left: mean path over chord minus one. Right: how often the autonomous path is the straighter of the two."""
    figure = new_figure(7.0, 3.0)
    left, right = figure.subplots(1, 2)
    rng = np.random.default_rng(0)
    targets = {"uniform": lambda V: np.full(V, 1.0 / V), "zipf": _zipf}
    numbers = {name: [_compare(rng, p(V), setting.sigma) for V in _SIZES] for name, p in targets.items()}
    for (name, rows), mark in zip(numbers.items(), "os"):
        _draw_means(left, name, rows, mark)
        share = [row["share_autonomous_straighter"] for row in rows]
        colour = "#009E73" if mark == "o" else "#CC79A7"
        right.semilogx(_SIZES, share, f"{mark}-", color=colour, label=f"{name} target")
    left.set(xlabel="vocabulary $V$", ylabel="mean path / chord, minus one")
    left.legend()
    right.axhline(0.5, color="#888888", lw=0.8, ls=":")
    right.set(xlabel="vocabulary $V$", ylabel="share of starts", ylim=(0, 1))
    right.legend()
    panel(left, "A", rf"mean straightness, $\sigma={setting.sigma:g}$")
    panel(right, "B", "autonomous path straighter than its peer")
    return Drawing(figure, {"V": _SIZES, **numbers})


def _zipf(V: int) -> Array:
    p = 1.0 / np.arange(1, V + 1)
    return p / p.sum()


def _compare(rng: np.random.Generator, p: Array, sigma: float) -> dict[str, float]:
    starts = _STARTS if len(p) < 30 else _STARTS_LARGE
    x0 = sigma * rng.standard_normal((starts, len(p)))
    autonomous, time_dependent = travel(x0, p, sigma).ratio, travel_time_dependent(x0, p, sigma).ratio
    gap = time_dependent - autonomous
    return {
        "starts": starts,
        "autonomous_mean": autonomous.mean(),
        "time_dependent_mean": time_dependent.mean(),
        "mean_gap": gap.mean(),
        "mean_gap_standard_error": gap.std() / np.sqrt(starts),
        "share_autonomous_straighter": np.mean(gap > 0),
    }


def _draw_means(ax: Axes, name: str, rows: list[dict[str, float]], mark: str) -> None:
    fill = "full" if mark == "o" else "none"
    for key, colour, line in (("autonomous", AUTONOMOUS, "-"), ("time_dependent", TIME_DEPENDENT, "--")):
        excess = [row[f"{key}_mean"] - 1.0 for row in rows]
        label = f"{key.replace('_', '-')}, {name}"
        ax.loglog(_SIZES, excess, color=colour, ls=line, marker=mark, fillstyle=fill, ms=4, label=label)
