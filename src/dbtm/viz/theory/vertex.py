"""Figure `vertex`: how fast the autonomous flow arrives (lemma:approach-vertex, prop:continuity at the vertices)."""

import numpy as np

from dbtm.theory.field import arrival_speed, autonomous_field_at_offset
from dbtm.theory.flow import travel
from dbtm.theory.moments import Array
from dbtm.viz.theory.figure import Drawing, Setting
from dbtm.viz.theory.style import INK, LINES, VERTEX_COLOURS, new_figure, panel

_EXPONENTS = (1.0, 2.0, 3.0)
_STARTS = 3000


def draw_vertex(setting: Setting) -> Drawing:
    """A: |b| on the way into e_1, for three schedules, with its limit law. B: the distribution of hitting times."""
    p, sigma, _ = setting
    figure = new_figure(7.0, 3.0)
    left, right = figure.subplots(1, 2)
    omega = _towards_centre(len(p))
    r = np.geomspace(1e-8, 0.5, 80)
    x0 = sigma * np.random.default_rng(0).standard_normal((_STARTS, len(p)))
    numbers: dict[str, object] = {"r": r}
    for a, line, colour in zip(_EXPONENTS, LINES, VERTEX_COLOURS):
        kappa = float(arrival_speed(omega, 0, sigma, a))
        speed = np.linalg.norm(autonomous_field_at_offset(r[:, None] * omega, 0, p, sigma, a), axis=-1)
        left.loglog(r, speed, line, color=colour, label=f"$a={a:g}$")
        left.loglog(r, kappa * r ** (1 - 1 / a), color=INK, lw=0.5)
        tau = travel(x0, p, sigma, a).hitting_time
        label = f"$a={a:g}$: mean {tau.mean():.2f}, max {tau.max():.2f}"
        right.hist(tau, np.linspace(0, 4, 61).tolist(), histtype="step", color=colour, ls=line, label=label)
        numbers[f"a={a:g}"] = {
            "kappa": kappa,
            "speed": speed,
            "hitting_time_mean": tau.mean(),
            "hitting_time_max": tau.max(),
        }
    left.set(xlabel="distance $r$ to $e_1$", ylabel=r"$|b(e_1+r\omega)|$")
    left.legend()
    right.set(xlabel=r"hitting time $\tau(x_0)$", ylabel=f"of {_STARTS:,} starts")
    right.legend()
    panel(left, "A", r"arrival: $\kappa(\omega)\,r^{1-1/a}$ (thin)")
    panel(right, "B", rf"hitting times, $\sigma={sigma:g}$")
    return Drawing(figure, numbers)


def _towards_centre(V: int) -> Array:
    """Unit direction from e_1 to the centre of the simplex."""
    omega = np.full(V, 1.0 / V)
    omega[0] -= 1.0
    return omega / np.linalg.norm(omega)
