"""Names of folders are drawn as they are, whatever they look like."""

from dbtm.evals.sweep.frontier import Point
from dbtm.evals.sweep.outcome import Curves
from dbtm.viz.frontier import draw_frontiers


def test_a_name_that_looks_like_a_broken_formula_is_drawn(tmp_path):
    points = {1: [Point(4.0, 100.0, 0), Point(4.2, 120.0, 1)]}
    curves = [Curves(name, points, [{}, {}], Point(4.3, 40.0)) for name in ("$x^{$", "\x1b[2J", "_hidden")]
    draw_frontiers(curves, "$\\frac{$").savefig(tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 1000
