"""The plan of a sweep, its studies and its outcome."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from dbtm.config import SampleConfig
from dbtm.errors import UsageError
from dbtm.evals import outcome, studies
from dbtm.evals.draw import resolve
from dbtm.evals.frontier import Point
from dbtm.evals.samples import SampleSet
from dbtm.evals.sweep import Planned, SweepFolder, identity
from dbtm.sampling import Sampler
from tests.conftest import random_map

GRID = studies.Grid(nfe=(1, 4), kappa=(0.5, 0.9), temperature=(0.0, 1.0), sigma=(None, 2.0), repetition_penalty=(0.0,))
ORIGIN = {"sha256": "abc", "seed": 3, "checkpoint": "runs/x"}


def sampler(**changes):
    return Sampler(random_map(**changes), SampleConfig(sigma=1.0))


def planned(*names, own=None):
    own = own or sampler()
    return [
        Planned(c.study, c.row, c.column, resolve(own, c.asked))
        for name in names
        for c in studies.STUDIES[name](GRID, own)
    ]


def row(settings, perplexity, entropy, kind="sample", judge="j"):
    values = dict.fromkeys(("perplexity_low", "perplexity_high", "entropy_low", "entropy_high", "n"), 1)
    return {"kind": kind, "settings": settings, "judge": judge, "perplexity": perplexity, "entropy": entropy, **values}


def printed(table):
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    return console.file.getvalue()


def test_the_grid_is_a_product_less_what_makes_no_difference(tmp_path):
    plan = SweepFolder(tmp_path / "s").extend(ORIGIN, 8, planned("frontier"))
    settings = plan.settings()
    assert sum(s["nfe"] == 1 for s in settings) == 4, "one round: temperature x sigma"
    assert sum(s["nfe"] == 4 for s in settings) == 8, "kappa x temperature x sigma"
    assert {s["sigma"] for s in settings} == {1.0, 2.0}, "None is the checkpoint's"


def test_studies_compare_what_they_say():
    cells = {name: planned(name) for name in studies.STUDIES}
    assert [(c.column, c.settings["sampler"], c.settings["nfe"]) for c in cells["horizon"]] == [
        ("H = 1", "integrate", 64),
        ("H = 4", "integrate", 64),
        ("H = 8", "integrate", 64),
        ("one-step map", "refine", 1),
    ]
    assert {(c.row, c.column) for c in cells["iterate"]} == {
        (nfe, column) for nfe in "14" for column in ("iterate", "renoise + remap")
    }
    assert {c.column for c in cells["scorer"]} == {"confidence", "quality", "none"}
    without_head = planned("scorer", own=sampler(quality=False))
    assert {c.column for c in without_head} == {"confidence", "none"}
    hard = {c.column: c.settings for c in cells["commit"] if c.row == "4"}
    assert hard["non-commit 0.9"] == hard["commit 0.9"] | {"commit": False}
    assert len({identity("sample", s) for s in hard.values()}) == 4
    assert set(studies.TITLES) | {"frontier"} == set(studies.STUDIES)


def test_a_plan_grows_and_is_not_mixed_with_another(tmp_path):
    folder = SweepFolder(tmp_path / "new" / "s")
    assert folder.plan is None
    first = folder.extend(ORIGIN, 8, planned("frontier"))
    assert folder.plan == first
    both = folder.extend(ORIGIN | {"checkpoint": "elsewhere"}, 8, planned("scorer"))
    assert both == folder.plan
    assert {c.study for c in both.cells} == {"frontier", "scorer"}
    assert folder.extend(ORIGIN, 8, planned("scorer")) == both, "asked for again, it is there once"
    for origin, n, words in (
        (ORIGIN | {"sha256": "other"}, 8, "another checkpoint"),
        (ORIGIN | {"seed": 4}, 8, "another seed"),
        (ORIGIN, 9, "use --n 8"),
    ):
        with pytest.raises(UsageError, match=words):
            folder.extend(origin, n, planned("scorer"))
    (folder.path / "plan.json").write_text('{"cells": [')
    with pytest.raises(UsageError, match=r"plan\.json is damaged"):
        folder.plan  # noqa: B018


def test_what_is_drawn_and_judged_is_remembered_by_judge(tmp_path):
    folder = SweepFolder(tmp_path)
    assert (folder.drawn(), folder.judged("j"), folder.judges()) == (set(), {}, [])
    folder.add_samples(SampleSet(np.array([[1, 2]]), ["a"], settings={"nfe": 1}))
    folder.add_row(row({"nfe": 1}, 5.0, 1.0))
    folder.add_row(row({"nfe": 1}, 7.0, 1.0, judge="k"))
    (key,) = folder.drawn()
    assert folder.judged("j")[key]["perplexity"] == 5
    assert folder.judged("k")[key]["perplexity"] == 7
    assert folder.judges() == ["j", "k"]


def rows_of(*found):
    return {identity(r["kind"], r["settings"]): r for r in found}


def settings(nfe, **more):
    return {"sampler": "refine", "nfe": nfe, **more}


ROWS = rows_of(
    row({}, 30.0, 4.4, "real"),
    row({"seed": 0}, 900.0, 4.4, "shuffled"),
    row(settings(1), 500.0, 4.1),
    row(settings(4, kappa=0.5), 100.0, 4.0),
    row(settings(4, kappa=0.9), 200.0, 4.5),
    row(settings(4, kappa=0.7), 300.0, 4.3),
    row(settings(4, kappa=0.1), None, 0.0),
    row({"sampler": "iterate", "nfe": 4}, 1.0, 9.0),
)


def test_curves_pool_all_knobs_by_budget_and_leave_other_samplers_out():
    found = outcome.curves("x", ROWS)
    assert found.real[:2] == (4.4, 30.0)
    assert {nfe: sorted(p[:2] for p in points) for nfe, points in found.points.items()} == {
        1: [(4.1, 500.0)],
        4: [(4.0, 100.0), (4.3, 300.0), (4.5, 200.0)],
    }


def test_the_table_of_matched_entropies():
    found = [outcome.curves("x", ROWS)]
    entropies = outcome.matched_entropies(found)
    assert entropies == [4.0, 4.1, 4.2, 4.3, 4.4, 4.5, 4.6]
    one, four = outcome.matched(found, entropies)
    assert (one["nfe"], one["best"], one["range"]) == (1, None, [4.1, 4.1]), "0.3 from real text is too far"
    assert (four["best"]["perplexity"], four["best"]["settings"]["kappa"]) == (200.0, 0.9)
    assert [p["settings"]["kappa"] for p in four["frontier"]] == [0.5, 0.9]
    assert four["matched"]["4.20"] == pytest.approx(140)
    assert four["matched"]["4.60"] is None
    assert four["points"] == 3
    text = printed(outcome.frontier_table([one, four], entropies))
    assert "140.0" in text
    assert "4.00-4.50" in text


def test_without_real_text_the_tenths_that_are_reached():
    rows = {key: r for key, r in ROWS.items() if r["kind"] == "sample"}
    found = [outcome.curves("x", rows)]
    assert outcome.matched_entropies(found) == [4.0, 4.1, 4.2, 4.3, 4.4, 4.5]
    assert outcome.matched(found, [4.2])[1]["best"] is None
    assert outcome.matched_entropies([outcome.curves("x", {})]) == []


def test_a_study_shows_what_there_is():
    cells = [
        Planned("iterate", "4", "iterate", {"sampler": "iterate", "nfe": 4}),
        Planned("iterate", "4", "renoise + remap", settings(4, kappa=0.9)),
        Planned("iterate", "8", "iterate", {"sampler": "iterate", "nfe": 8}),
    ]
    lines = printed(outcome.study_table("iterate", cells, ROWS)).splitlines()
    assert "1.0 (9.00)" in next(line for line in lines if line.startswith("│   4"))
    assert "200.0 (4.50)" in next(line for line in lines if line.startswith("│   4"))
    assert next(line for line in lines if line.startswith("│   8")).count("-") == 2


def test_the_figure_has_a_panel_a_budget_and_the_same_bytes_every_time(tmp_path):
    from dbtm.viz.frontier import draw, save

    found = [outcome.curves("one", ROWS), outcome.curves("two", ROWS)._replace(points={4: [Point(4.0, 50.0)]})]
    figure = draw(found, "the judge")
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["1 NFE", "4 NFE"]
    assert "the judge" in figure.axes[0].get_ylabel()
    assert figure.axes[0].get_yscale() == "log"
    labels = {line.get_label() for line in figure.axes[1].get_lines()}
    assert {"one", "two", "real text"} <= labels
    png, svg = save(figure, tmp_path / "f")
    assert png.read_bytes()[:4] == b"\x89PNG"
    again = save(draw(found, "the judge"), tmp_path / "g")[1]
    assert svg.read_bytes() == again.read_bytes()
    assert json.dumps(sorted(p.name for p in tmp_path.iterdir())) == '["f.png", "f.svg", "g.png", "g.svg"]'
