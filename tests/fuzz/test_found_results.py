"""What was found in what runs, comparisons, figures and the studio read and show: it stays mended."""

import json
import warnings

import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.referee.checked import read_failure, read_row, read_training
from dbtm.evals.referee.folder import RefereeFolder
from tests.fuzz import corpus
from tests.fuzz.harness import put

ESCAPE = "\x1b]0;owned\x07"
ROW = {"value": 0.5, "n": 4, "used": 1.0, "flops_per_sample": 10, "seconds_per_sample": 0.1}


# -- comparisons -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"value": "x"}, {"value": True}, {"value": 10**400}, {"value": float("nan")}, {"n": 0}, {"n": None}, {"n": 1.5},
     {"used": None}, {"used": 0}, {"seconds_per_sample": None}, {"entropy": []}, {"value_low": "x"}],
)  # fmt: skip
def test_a_damaged_row_is_refused_in_a_line(tmp_path, change):
    path = tmp_path / "8.json"
    path.write_text(json.dumps(ROW))
    assert read_row(path) == ROW
    path.write_text(json.dumps(ROW | change))
    with pytest.raises(UsageError, match=r"8\.json is damaged"):
        read_row(path)


@pytest.mark.parametrize("name", ["x", "٣", "9" * 20, "all ", "-1"])
def test_rows_are_named_by_their_budget(tmp_path, name):
    (tmp_path / f"{name}.json").write_text(json.dumps(ROW))
    with pytest.raises(UsageError, match="not a row of a comparison"):
        read_row(tmp_path / f"{name}.json")


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        "{",
        '{"x": -Infinity}',
        '{"x": 1e999}',
        '{"reason": 5}',
        '{"hardware": 5}',
        '{"flops": "x"}',
        "\xff",
    ],
)
def test_so_is_what_a_run_cost_and_why_it_failed(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="damaged"):
        read_failure(path)
    if "reason" not in text:
        with pytest.raises(UsageError, match="damaged"):
            read_training(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("n", 10**400), ("n", -1), ("seeds", [10**400]), ("seeds", [None]), ("nfe", [0]), ("nfe", [float("inf")]),
     ("nfe", 5), ("task", 5), ("judge", []), ("teacher_share", "x"), ("budget", {"flops": 10**400}),
     ("budget", {"flops": "x"}), ("budget", {"flops": 0}), ("entries", [])],
)  # fmt: skip
def test_a_damaged_plan_is_refused_in_a_line(tmp_path, key, value):
    plan = json.loads(corpus.comparison()["plan.json"])
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert RefereeFolder(tmp_path).plan is not None
    (tmp_path / "plan.json").write_text(json.dumps(plan | {key: value}))
    with pytest.raises(UsageError, match=r"plan\.json"):
        _ = RefereeFolder(tmp_path).plan


def test_a_share_beyond_one_and_a_wrong_trace_are_told(tmp_path):
    from dbtm.evals.referee.measures import METRICS
    from dbtm.evals.referee.outcome import pooled
    from dbtm.service.refereeing import report

    with pytest.raises(UsageError, match="a row of the comparison is damaged"):
        pooled([ROW | {"value": 1.5}], METRICS["sudoku"])
    files = {name: data for name, data in corpus.comparison().items() if "/run/" not in name}
    put(
        files | {"runs/ar-seed0/trace.json": b'{"tokens": [[1, 2], [3]], "nfe": [1], "prompt": [], "rounds": []}'},
        tmp_path,
    )
    with pytest.raises(UsageError, match=r"trace\.json is damaged"):
        report(tmp_path)


def test_half_an_interval_is_none():
    from dbtm.evals.referee.tables import cell

    metric = {"share": False}
    assert cell({"value": 0.5, "low": 0.25, "high": 1.0}, metric) == "0.500 [0.250, 1.000]"
    assert cell({"value": 0.5, "low": 0.25, "high": None}, metric) == "0.500"


def test_pages_and_figures_hold_no_escape_sequences_and_do_not_warn(tmp_path):
    from dbtm.service.refereeing import report

    put({name: data for name, data in corpus.comparison().items() if "/run/" not in name}, tmp_path)
    for path in tmp_path.glob("runs/*/training.json"):
        path.write_text(
            json.dumps(json.loads(path.read_text()) | {"hardware": ESCAPE + "\ud800<script>alert(1)</script>"})
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report(tmp_path)
    page = (tmp_path / "referee.html").read_text()
    assert "\x1b" not in page
    assert "\x07" not in page
    assert "<script>alert" not in page


def test_letters_that_a_font_lacks_do_not_warn():
    from matplotlib.figure import Figure

    from dbtm.viz.theory.style import drawn

    figure = Figure()
    figure.suptitle("北京 \u1234")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert drawn(figure, format="png").startswith(b"\x89PNG")


def test_a_page_that_replays_holds_none_either():
    from dbtm.viz.template import fill_template

    page = fill_template(ESCAPE, {"title": ESCAPE, ESCAPE: f"{ESCAPE}<b>"}, {"a": ESCAPE}, "sheet")
    assert "\x1b" not in page
    assert "<b>" not in page


@pytest.mark.parametrize("entropy", [10**400, 1e300, -1.0, float("nan"), True])
def test_an_entropy_that_is_none_is_refused_in_its_line(tmp_path, entropy):
    """Tables have a column for every tenth up to it."""
    from dbtm.evals.sweep.folder import SweepFolder

    put(corpus.sweep(), tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(SweepFolder(tmp_path).judges()) == 1
    rows[1]["entropy"] = entropy
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UsageError, match=r"line 2.*entropy"):
        SweepFolder(tmp_path).judges()


# -- reproductions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{}", '{"rows": 5}', '{"rows": [null]}', "[]", "{"])
def test_a_damaged_result_of_a_step_is_told(tmp_path, text):
    from dbtm.service.reproduction.registry import find
    from dbtm.service.reproduction.running import ReproductionRequest, reproduce
    from dbtm.service.reproduction.steps.base import Resources, Workspace

    name = "tab:flowmap-vs-dbtm"
    space = Workspace(tmp_path, Resources())
    for step in find(name).plan("trial").order():
        space.folder(step).mkdir(parents=True)
        (space.folder(step) / "result.json").write_text(text)
    with pytest.raises(UsageError, match="damaged"):
        reproduce(ReproductionRequest(name=name, scale="trial", out=tmp_path))


# -- the studio --------------------------------------------------------------------------------------------------------


def test_half_of_a_surrogate_pair_is_quoted():
    pytest.importorskip("starlette")
    from dbtm.studio.answers import Json
    from dbtm.studio.guard import Door

    assert json.loads(Json({"error": "\ud800"}).body) == {"error": "\ud800"}
    assert not Door("a long enough token").fits("\ud800")


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "[", "\x00", ""])
def test_an_origin_that_is_no_address_is_another_site(origin):
    pytest.importorskip("starlette")
    from dbtm.studio.guard import Door, Guard

    headers = [(b"host", b"127.0.0.1"), (b"origin", origin.encode())]
    answer = Guard(None, Door(None), frozenset()).refusal({"type": "http", "path": "/", "headers": headers})
    assert answer is not None
    assert answer.status_code == 403


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "setting"),
    [("mdlm-sdtt", "method.rounds"), ("duo-dcd", "method.rounds"), ("fmlm-star", "method.iterations"),
     ("mdlm-di4c", "method.latents"), ("dbtm", "sample.check")],
)  # fmt: skip
@pytest.mark.parametrize("value", [2**31, 2**62])
def test_rounds_without_end_are_refused_at_once(method, setting, value):
    """Two to their power, or so many network evaluations, would take all of the memory, or years."""
    from dbtm.config import override
    from dbtm.recipes import recipe

    with pytest.raises(UsageError, match=f"{setting}={value} must be between"):
        override(recipe("markov").by(method), [f"{setting}={value}"])


# -- words -------------------------------------------------------------------------------------------------------------


def test_a_count_of_thousands_of_digits_is_refused_in_a_line():
    from dbtm.cli.data import _range

    assert _range("22-36", "--clues") == (22, 36)
    with pytest.raises(UsageError, match="neither a count"):
        _range("9" * 5000, "--clues")
