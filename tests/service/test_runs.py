"""Runs on a disk are read as they are: half a line, a resumed run, a link out."""

import json

import pytest

from dbtm.core.errors import UsageError
from dbtm.service.runs import find_runs, list_checkpoints, read_records, run_settings, samples_over_training, summarise
from tests.evals.tiny import mini_sudoku, write_checkpoint


def write(run, *records, tail=""):
    run.mkdir(parents=True, exist_ok=True)
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records) + tail)


def test_runs_are_found_below_the_folders_that_are_named(tmp_path):
    write(tmp_path / "runs" / "a")
    write(tmp_path / "runs" / "group" / "b")
    write_checkpoint(mini_sudoku(), tmp_path / "runs" / "c")
    write(tmp_path / "elsewhere" / "d")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    assert set(find_runs([tmp_path / "runs"])) == {"a", "group/b", "c"}
    assert set(find_runs([tmp_path / "elsewhere" / "d"])) == {"d"}, "a run itself"
    assert find_runs([tmp_path / "nowhere"]) == {}


def test_two_runs_of_one_name_keep_apart(tmp_path):
    write(tmp_path / "one" / "a", {"step": 1})
    write(tmp_path / "two" / "a", {"step": 2})
    found = find_runs([tmp_path / "one", tmp_path / "two"])
    assert set(found.values()) == {tmp_path / "one" / "a", tmp_path / "two" / "a"}


def test_half_a_line_is_left_for_the_next_time(tmp_path):
    write(tmp_path, {"step": 1, "loss": 2.0}, tail='{"step": 2, "lo')
    first = read_records(tmp_path)
    assert [record["step"] for record in first.records] == [1]
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('ss": 1.0}\n')
    second = read_records(tmp_path, first.end)
    assert second.records == [{"step": 2, "loss": 1.0}]
    assert not second.restarted


def test_a_run_that_was_resumed_from_an_earlier_step_is_read_anew(tmp_path):
    write(tmp_path, *({"step": step, "loss": 1.0} for step in range(20)))
    end = read_records(tmp_path).end
    write(tmp_path, {"step": 3, "loss": 5.0})
    again = read_records(tmp_path, end)
    assert again.restarted
    assert again.records == [{"step": 3, "loss": 5.0}]


def test_long_metrics_come_in_parts(tmp_path):
    records = [{"step": step, "loss": 0.5} for step in range(100)]
    write(tmp_path, *records)
    got, end, more = [], 0, True
    while more:
        part = read_records(tmp_path, end, most=256)
        got, end, more = got + part.records, part.end, part.more
    assert got == records


@pytest.mark.parametrize("line", ["[]", "{", '{"loss": 1}', '{"step": "x"}', '{"step": 1.5}', "9" * 5000, "null"])
def test_lines_that_are_no_records_are_left_out(tmp_path, line):
    write(tmp_path, tail=line + "\n")
    assert read_records(tmp_path).records == []


def test_what_is_no_number_is_left_out(tmp_path):
    write(tmp_path, tail='{"step": 1, "loss": NaN, "name": "<b>", "lr": 0.5, "flag": true}\n')
    assert read_records(tmp_path).records == [{"step": 1, "lr": 0.5}]


def test_a_summary_tells_how_far_a_run_is(tmp_path):
    config = mini_sudoku()
    write_checkpoint(config, tmp_path)
    write(tmp_path, {"step": 4, "loss": 2.0, "steps_per_second": 2.0}, {"step": 4, "eval/score": 0.5})
    told = summarise(tmp_path)
    assert (told.recipe, told.task, told.method) == ("sudoku-mini", "sudoku", "dbtm")
    assert (told.step, told.steps, told.loss, told.score) == (4, config.train.steps, 2.0, 0.5)
    assert told.seconds_left == pytest.approx((config.train.steps - 4) / 2)
    assert told.live


def test_a_new_run_is_no_error(tmp_path):
    write(tmp_path)
    told = summarise(tmp_path)
    assert (told.step, told.loss, told.recipe, told.live) == (0, None, None, False)
    assert list_checkpoints(tmp_path) == []
    with pytest.raises(UsageError, match="no checkpoint yet"):
        run_settings(tmp_path)
    with pytest.raises(UsageError, match="no checkpoint yet"):
        next(samples_over_training(tmp_path))
