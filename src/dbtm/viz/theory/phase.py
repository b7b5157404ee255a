"""Figure `phase`: argmax recovery around the commitment time (thm:optimal-t), exact, simulated, and as estimated."""

import numpy as np
from matplotlib.axes import Axes

from dbtm.simplex.phase import commitment_time
from dbtm.theory.recovery import paper_error, recovery, signal_to_noise, simulate_recovery, transition_width
from dbtm.viz.theory.figure import Drawing, Setting
from dbtm.viz.theory.style import INK, LINES, VERTEX_COLOURS, new_figure, panel

_SIZES = (12, 1000, 50_257)
_SAMPLES = 4000


def draw_phase(setting: Setting) -> Drawing:
    """A: recovery against t with t*. B: error against theta with V^(-2 delta). C: width of the transition against V."""
    sigma, a = setting.sigma, setting.a
    figure = new_figure(10.0, 3.1)
    A, B, C = figure.subplots(1, 3)
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 0.98, 200)
    dots = t[::8]
    theta = np.linspace(0.5, 2.0, 120)
    numbers: dict[str, object] = {"t": t, "t_simulated": dots, "samples": _SAMPLES}
    for V, line, colour in zip(_SIZES, LINES, VERTEX_COLOURS):
        exact = recovery(signal_to_noise(t, sigma, a), V)
        simulated = simulate_recovery(signal_to_noise(dots, sigma, a), V, _SAMPLES, rng)
        t_star = commitment_time(V, sigma, a)
        A.plot(t, exact, line, color=colour, label=f"$V={V:,}$, $t^*={t_star:.3f}$")
        A.plot(dots, simulated, ".", color=colour, ms=4)
        A.axvline(t_star, color=colour, ls=line, lw=0.7)
        B.semilogy(theta, 1 - recovery(theta * np.sqrt(2 * np.log(V)), V), line, color=colour, label=f"$V={V:,}$")
        B.semilogy(theta, np.minimum(paper_error(theta, V), 1), line, color=colour, lw=0.6)
        numbers[f"V={V}"] = {
            "t_star": t_star,
            "exact": exact,
            "simulated": simulated,
            "recovery_at_t_star": recovery(np.sqrt(2 * np.log(V)), V),
        }
    A.set(xlabel="$t$", ylabel=r"$\Pr(\arg\max I_t = x_1)$")
    B.set(xlabel=r"$\theta=\rho/\sqrt{2\log V}$", ylabel="error probability", ylim=(1e-4, 1.2))
    numbers["width"] = _draw_widths(C)
    panel(A, "A", rf"recovery: exact, {_SAMPLES:,} draws; $\sigma={sigma:g}$, $a={a:g}$")
    panel(B, "B", r"error: exact (bold), $V^{-2\delta}$ (thin)")
    panel(C, "C", "width of the transition")
    A.legend(loc="upper left")
    B.legend()
    return Drawing(figure, numbers)


def _draw_widths(ax: Axes) -> dict[str, object]:
    sizes = np.geomspace(10, 1e12, 23)
    widths = np.array([transition_width(int(V)) for V in sizes])
    own_noise = 2 * 1.2815515655446004 / np.sqrt(2 * np.log(sizes))  # 10 % to 90 % of z_k alone, a standard normal
    ax.loglog(np.log(sizes), widths, "o", ms=3.5, color=VERTEX_COLOURS[0], label="exact, 10 % to 90 %")
    ax.loglog(np.log(sizes), own_noise, "-", color=INK, lw=0.8, label=r"$2.56/\sqrt{2\log V}$")
    ax.loglog(np.log(sizes), widths[0] * np.log(sizes[0]) / np.log(sizes), ":", color=INK, label=r"slope of $1/\log V$")
    ax.set(xlabel=r"$\log V$", ylabel=r"width in $\theta$")
    ax.set_xticks([3, 5, 10, 20], ["3", "5", "10", "20"])
    ax.set_xticks([], minor=True)
    ax.legend()
    return {"V": sizes, "exact": widths, "own_noise": own_noise}
