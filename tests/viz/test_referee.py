"""Figures and the page of a comparison: what is drawn is what the document says, and nothing is fetched."""

import re
from itertools import pairwise

import pytest

from dbtm.evals.referee import tables
from dbtm.viz.referee import COLOURS, draw_quality, lines_of, spread
from dbtm.viz.referee_page import MODULES, Shown, Words, inline_svg, referee_page
from dbtm.viz.template import join_modules, read_asset

METRIC = {"name": "solved", "title": "share of puzzles solved", "lower_is_better": False, "share": True}


def found(value, used, low=None, high=None):
    return {"value": value, "low": low, "high": high, "values": [value], "used": used,
            "flops_per_sample": 100 * used, "seconds_per_sample": 0.1, "n": 10}  # fmt: skip


def entry(label, budgets, status="done", reasons=()):
    return {"label": label, "method": label, "budgets": budgets, "status": status, "reasons": list(reasons),
            "teacher": None, "training": dict.fromkeys(
                ("flops", "seconds", "steps", "sequences", "parameters", "peak_memory"))}  # fmt: skip


@pytest.fixture
def document():
    settings = {"nfe": [1, 4], "budget": {"flops": 1e9, "minutes": None}, "seeds": [0], "n": 10}
    entries = [
        entry("dbtm", {"1": found(0.5, 1, 0.4, 0.6), "4": found(0.9, 3.5, 0.8, 0.95)}),
        entry("ar", {"all": found(0.7, 16)}),
        entry("<b>bad</b>", {}, "failed", ["seed 0: it diverged"]),
    ]
    return {"metric": METRIC, "settings": settings, "entries": entries, "best": [], "equal_sample_cost": [],
            "intervals": "", "hardware": [], "commit": [], "task": "sudoku-mini"}  # fmt: skip


def test_lines_stand_at_what_was_asked_or_at_what_it_cost(document):
    by_nfe = {line.label: line for line in lines_of(document, "used")}
    assert by_nfe["dbtm"].x == [1, 4]
    assert by_nfe["ar"].x == [16], "without a budget: the evaluations it made"
    assert by_nfe.keys() == {"dbtm", "ar"}, "what failed has no line"
    assert by_nfe["dbtm"].low == [0.4, 0.8]
    assert {line.label: line.x for line in lines_of(document, "flops_per_sample")}["dbtm"] == [100, 350]


def test_names_stand_beside_lines_and_do_not_overlap():
    heights = spread([0.5, 0.51, 0.1, 0.505, 0.99, 1.0], 0.05)
    ordered = sorted(heights)
    assert min(b - a for a, b in pairwise(ordered)) >= 0.05 - 1e-9
    assert max(heights) <= 1 + 1e-9
    assert [heights.index(x) for x in ordered] == [2, 0, 3, 1, 4, 5], "in the order of the ends"
    assert len({*COLOURS}) == len(COLOURS)


def test_a_figure_without_numbers_says_so(document):
    document["entries"] = document["entries"][2:]
    assert "no numbers yet" in inline_svg(draw_quality(document, "used"))


def test_the_page_holds_everything_and_fetches_nothing(document):
    quality = tables.quality_table(document)
    page = referee_page(
        "Methods", tables.losses(document), [("by evaluations", draw_quality(document, "used"))], [Words(*quality)],
        [Shown("dbtm", "2 evaluations", {"puzzle": [0] * 16, "rounds": []})], {"seed": 0},
    )  # fmt: skip
    assert "&lt;b&gt;bad&lt;/b&gt; (failed: seed 0: it diverged)" in page
    assert "<b>bad" not in page
    assert "default-src 'none'" in page
    urls = re.findall(r"(?:src|href)=\"(?!#)([^\"]*)\"", page)
    assert urls == []
    assert "https://" not in page.replace("http://www.w3.org", "")
    assert "90.0 [80.0, 95.0]" in page
    assert "70.0 at 16 NFE" in page


def test_ink_follows_the_theme(document):
    drawn = inline_svg(draw_quality(document, "used"))
    assert "currentColor" in drawn
    assert "#000000" not in drawn


def test_its_script_has_no_module_syntax_and_names_do_not_collide():
    assert not re.search(r"^(import|export) ", join_modules(MODULES), re.MULTILINE)
    names = re.compile(r"^(?:export )?(?:function|const|let) +(\w+)", re.MULTILINE)
    seen = [name for module in MODULES for name in names.findall(read_asset(module))]
    assert len(seen) == len(set(seen))
