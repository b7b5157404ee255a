"""Curves of the quick evaluations: what is read from a run's metrics, and what is drawn of it."""

import json

import pytest

from dbtm.core.errors import UsageError
from dbtm.viz.curves import Series, draw_evaluations, headlines, read_run, split, title


def write_run(folder, *records, more=""):
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records) + more)
    return folder


@pytest.fixture
def runs(tmp_path):
    first = write_run(
        tmp_path / "first",
        {"step": 5, "loss": 2.0, "seconds": 1.0},
        {"step": 10, "eval/perplexity_1": 300.0, "eval/entropy_1": 3.0, "eval/entropy_data": 4.0, "eval/score": 1.0},
        {"step": 20, "eval/perplexity_1": 200.0, "eval/entropy_1": 3.5, "eval/entropy_data": 4.0},
        more='{"step": 30, "eval/perplexity_1": 1',  # cut off by a kill
    )
    second = write_run(
        tmp_path / "second", {"step": 10, "eval/perplexity_1": float("nan"), "eval/entropy_1": 2.0}, [1], {"loss": 3.0}
    )
    return [read_run(first), read_run(second, "$2$")]


def test_series_hold_finite_numbers_of_whole_lines(runs):
    first, second = runs
    assert first.series["loss"] == Series([5], [2.0])
    assert first.evaluations()["perplexity_1"] == Series([10, 20], [300.0, 200.0])
    assert "score" not in first.evaluations()
    assert second.evaluations() == {"entropy_1": Series([10], [2.0])}


def test_a_panel_per_number_and_a_line_per_run(runs):
    figure = draw_evaluations(runs)
    perplexity, entropy = figure.axes
    assert perplexity.get_title(loc="left").endswith("perplexity, 1 NFE")
    (line,) = perplexity.get_lines()
    assert list(line.get_xdata()) == [10, 20]
    assert list(line.get_ydata()) == [300.0, 200.0]
    assert perplexity.get_yscale() == "log"
    one, two, data = entropy.get_lines()
    assert list(one.get_ydata()) == [3.0, 3.5]
    assert two.get_label() == r"\$2\$"
    assert set(data.get_ydata()) == {4.0}
    (only,) = draw_evaluations(runs, ["entropy_1"]).axes
    assert len(only.get_lines()) == 3


def test_names_are_taken_apart(tmp_path):
    assert split("perplexity_4") == ("perplexity", "4")
    assert split("solved_16_clues35") == ("solved_clues35", "16")
    assert split("total_variation") == ("total_variation", "")
    assert title("solved_16_clues35") == "solved, 35 clues, 16 NFE"
    values = {"solved_4": 0.1, "solved_4_clues35": 0.2, "other": 1.0}
    run = read_run(write_run(tmp_path / "s", {"step": 1, **{f"eval/{k}": v for k, v in values.items()}}))
    assert headlines([run]) == ["solved_4", "solved_4_clues35"]
    plain = read_run(write_run(tmp_path / "p", {"step": 1, "eval/other": 1.0, "eval/other_data": 2.0}))
    assert headlines([plain]) == ["other"]


def test_what_cannot_be_drawn_is_refused_in_a_line(tmp_path, runs):
    with pytest.raises(UsageError, match="not a run"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"perplexity_4.*did you mean 'perplexity_1'"):
        draw_evaluations(runs, ["perplexity_4"])
    with pytest.raises(UsageError, match="evaluate_every"):
        draw_evaluations([read_run(write_run(tmp_path / "none", {"step": 1, "loss": 1.0}))])
