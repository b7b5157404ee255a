"""The outcome of a sweep: curves, perplexity at matched entropies, the figure."""

import json

import pytest

from dbtm.evals.sweep import outcome
from dbtm.evals.sweep.folder import Plan, Planned
from dbtm.evals.sweep.frontier import Point
from tests.evals.sweep.cells import ORIGIN, row, rows_of, settings

ROWS = rows_of(
    row({}, 30.0, 4.4, "real"),
    row({"seed": 0}, 900.0, 4.4, "shuffled"),
    row(settings(1), 500.0, 4.1),
    row(settings(4, kappa=0.5), 100.0, 4.0),
    row(settings(4, kappa=0.9), 200.0, 4.5),
    row(settings(4, kappa=0.7), 300.0, 4.3),
    row(settings(4, kappa=0.1), None, 0.0),
)


PLAN = Plan(
    ORIGIN, 8, tuple(Planned("frontier", "", "", r["settings"]) for r in ROWS.values() if r["kind"] == "sample")
)


def test_curves_pool_all_knobs_by_budget():
    own = outcome.curves("x", PLAN, ROWS)
    assert own.real[:2] == (4.4, 30.0)
    assert {nfe: sorted(p[:2] for p in points) for nfe, points in own.points.items()} == {
        1: [(4.1, 500.0)],
        4: [(4.0, 100.0), (4.3, 300.0), (4.5, 200.0)],
    }


def test_a_method_without_a_budget_stands_at_the_evaluations_it_used():
    one = {"temperature": 1.0, "top_p": 1.0}
    rows = rows_of(row(one, 50.0, 4.2) | {"nfe": 127.0})
    own = outcome.curves("ar", Plan(ORIGIN, 8, (Planned("frontier", "", "", one),)), rows)
    assert {nfe: [p[:2] for p in points] for nfe, points in own.points.items()} == {127: [(4.2, 50.0)]}
    (record,) = outcome.matched([own], [4.2])
    assert (record["nfe"], record["frontier"][0]["settings"]) == (127, one)


def test_only_the_frontiers_own_grid_is_pooled():
    """Not what other studies drew, and not the settings of an older grid that a new one has replaced."""
    studied = settings(4, kappa=0.9, commit=False)
    old, new = settings(4, kappa=0.1), settings(4, kappa=0.5)
    rows = rows_of(row({}, 30.0, 4.4, "real"), *(row(s, 10.0 + i, 4.0) for i, s in enumerate((studied, old, new))))
    plan = Plan(ORIGIN, 8).extended([Planned("frontier", "4", "", old), Planned("commit", "4", "c", studied)])
    plan = plan.extended([Planned("frontier", "4", "", new)])
    own = outcome.curves("x", plan, rows)
    assert [(p.perplexity, own.settings[p.row]) for p in own.points[4]] == [(12.0, new)]
    assert own.real is not None


def test_the_table_of_matched_entropies():
    sweeps = [outcome.curves("x", PLAN, ROWS)]
    entropies = outcome.matched_entropies(sweeps)
    assert entropies == [4.0, 4.1, 4.2, 4.3, 4.4, 4.5, 4.6]
    one, four = outcome.matched(sweeps, entropies)
    assert (one["nfe"], one["best_near_real"], one["range"]) == (1, None, [4.1, 4.1]), "0.3 from real text is too far"
    assert (one["best_paper"]["perplexity"], one["best_paper"]["entropy"]) == (500.0, 4.1)
    assert (four["best_near_real"]["perplexity"], four["best_near_real"]["settings"]["kappa"]) == (200.0, 0.9)
    assert (four["best_paper"]["perplexity"], four["best_paper"]["settings"]["kappa"]) == (100.0, 0.5), "at entropy 4.0"
    assert [p["settings"]["kappa"] for p in four["frontier"]] == [0.5, 0.9]
    assert four["matched"]["4.20"] == pytest.approx(140)
    assert four["matched"]["4.60"] is None
    assert four["points"] == 3


def test_without_real_text_the_tenths_that_are_reached():
    rows = {key: r for key, r in ROWS.items() if r["kind"] == "sample"}
    sweeps = [outcome.curves("x", PLAN, rows)]
    assert outcome.matched_entropies(sweeps) == [4.0, 4.1, 4.2, 4.3, 4.4, 4.5]
    four = outcome.matched(sweeps, [4.2])[1]
    assert four["best_near_real"] is None
    assert four["best_paper"]["perplexity"] == 100.0
    assert outcome.matched_entropies([outcome.curves("x", PLAN, {})]) == []


def test_the_figure_has_a_panel_per_budget_and_the_same_bytes_every_time(tmp_path):
    from dbtm.viz.frontier import draw_frontiers, save_figure

    one = outcome.curves("one", PLAN, ROWS)
    sweeps = [one, one._replace(label="two", points={4: [Point(4.0, 50.0)]})]
    figure = draw_frontiers(sweeps, "the judge")
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["1 NFE", "4 NFE"]
    assert "the judge" in figure.axes[0].get_ylabel()
    assert figure.axes[0].get_yscale() == "log"
    labels = {line.get_label() for line in figure.axes[1].get_lines()}
    assert {"one", "two", "real text"} <= labels
    ringed = {line.get_label(): (*line.get_xdata(), *line.get_ydata()) for line in figure.axes[1].get_lines()}
    assert (ringed["best, paper"], ringed["best, near real"]) == ((4.0, 100.0), (4.5, 200.0))
    assert {"two", "best, near real"} <= {text.get_text() for text in figure.axes[1].get_legend().get_texts()}
    png, svg = save_figure(figure, tmp_path / "f")
    assert png.read_bytes()[:4] == b"\x89PNG"
    again = save_figure(draw_frontiers(sweeps, "the judge"), tmp_path / "g")[1]
    assert svg.read_bytes() == again.read_bytes()
    assert json.dumps(sorted(p.name for p in tmp_path.iterdir())) == '["f.png", "f.svg", "g.png", "g.svg"]'
