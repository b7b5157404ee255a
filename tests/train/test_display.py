"""The output of a run, in a log and on a terminal."""

import io
import json
from time import monotonic, sleep

import pytest

from dbtm.train import display, metrics
from dbtm.train.display import Status, bar_line, clock, duration, evaluation_lines
from dbtm.train.metrics import Metrics
from tests.clock import Clock


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def time(monkeypatch):
    return Clock(monkeypatch, display, metrics)


def test_the_first_step_is_shown_at_once_and_a_quiet_run_now_and_then(tmp_path, time):
    stream = io.StringIO()
    with Metrics(tmp_path, 1000, 0, stream=stream) as told:
        time.now += 40  # compiling
        told.glance(1, {"loss": 3.25})
        assert stream.getvalue() == "step 1/1000  loss 3.25\n"
        for step in range(2, 12):
            time.now += 5
            told.glance(step, {"loss": 3.0})
        shown = stream.getvalue().splitlines()
    assert [line.split("  ")[0] for line in shown] == ["step 1/1000", "step 7/1000"]
    assert "0.2 step/s" in shown[1], "the first step, which compiles, does not count"
    assert "ETA 1:22:45" in shown[1]
    assert (tmp_path / "metrics.jsonl").read_text() == "", "a glance records nothing"


def test_a_report_has_every_term_uncut(tmp_path, time):
    stream = io.StringIO()
    terms = {"loss": 3.0, **{f"a_term_with_a_long_name_{i}": float(i) for i in range(12)}}
    with Metrics(tmp_path, 100, 0, stream=stream) as told:
        time.now += 1
        told.progress(1, terms)
    (line,) = stream.getvalue().splitlines()
    assert all(f"{name} {value:.3g}" in line for name, value in terms.items())


def test_a_run_of_days_is_warned_of_once(tmp_path, time):
    stream = io.StringIO()
    with Metrics(tmp_path, 20_000, 0, stream=stream, smaller="text-tiny") as told:
        for step in range(1, 6):
            time.now += 33
            told.glance(step, {"loss": 1.0})
    warnings = [line for line in stream.getvalue().splitlines() if "warning" in line]
    assert warnings == ["warning: 0.03 step/s here: 20,000 steps take 8 days; for this machine try text-tiny"]


@pytest.mark.parametrize(("least", "warnings"), [(300_000, 1), (600_000, 0)])
def test_a_warning_of_the_header_is_repeated_only_if_the_run_takes_much_longer(tmp_path, time, least, warnings):
    stream = io.StringIO()
    with Metrics(tmp_path, 20_000, 0, stream=stream, smaller="text-tiny", least=least) as told:
        for step in range(1, 6):
            time.now += 33
            told.glance(step, {"loss": 1.0})
    assert stream.getvalue().count("20,000 steps take 8 days") == warnings
    assert "text-tiny" not in stream.getvalue()


def test_a_run_of_hours_is_not(tmp_path, time):
    stream = io.StringIO()
    with Metrics(tmp_path, 1_000, 0, stream=stream, smaller="text-tiny") as told:
        for step in range(1, 6):
            time.now += 33
            told.glance(step, {"loss": 1.0})
    assert "warning" not in stream.getvalue()


def test_a_terminal_has_a_live_line_and_a_history(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Metrics(tmp_path, 100, 0, stream=stream) as told:
        told.glance(1, {"loss": 2.5})
        told.say("step 1  validation 1.2345  " + "solved_4 0.5000  " * 8)
        told.progress(50, {"loss": 1.5})
    shown = stream.getvalue()
    assert "step 0/100" in shown, "shown before the first step"
    assert "step 50/100" in shown
    assert shown.count("solved_4 0.5000") == 8, "an evaluation is not truncated at 80 columns"
    assert shown.rstrip().endswith("\x1b[?25h"), "the cursor is shown again"


def test_what_ends_a_run_closes_all(tmp_path):
    stream = Terminal()
    with pytest.raises(KeyboardInterrupt), Metrics(tmp_path, 100, 0, stream=stream) as told:
        raise KeyboardInterrupt
    assert told.file.closed
    assert "\x1b[?25h" in stream.getvalue()


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_the_live_line_fits_or_wraps_and_loses_nothing(width):
    status = Status(1_234, 20_000, loss=1.234, speed=12.5)
    line = bar_line(status, width)
    assert all(word in line for word in ("step 1234/20000", "loss 1.23", "12.5 step/s", "ETA 25:01"))
    assert len(line) <= max(width, len("  ".join(status.words())))


def test_before_the_first_step_the_line_says_how_long_it_has_been():
    assert "first step, 1:05" in bar_line(Status(0, 10), 80, waited=65)


def test_times_in_words():
    assert [clock(s) for s in (5, 65, 3_700, 700_000)] == ["0:05", "1:05", "1:01:40", "8 days"]
    assert [duration(s) for s in (5, 130, 7_300, 200_000)] == ["5 seconds", "2 minutes", "2 hours", "2 days"]


def test_the_end_of_the_time_is_announced_where_a_step_outlasts_it(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "GRACE", 0.0)
    stream = io.StringIO()
    with Metrics(tmp_path, 100, 0, stream=stream) as told:
        told.stop_at(0.0)
        told.timer.join()
    assert stream.getvalue() == "the time is up: saving after this step\n"


def test_a_run_that_ends_in_time_says_nothing(tmp_path):
    with Metrics(tmp_path, 100, 0, stream=io.StringIO()) as told:
        told.stop_at(1000.0)
    told.timer.join()
    assert told.timer.finished.is_set()


OWN = {"validation": 1.2345} | {
    f"{name}_{at}": value for name, value in (("entropy", 1.5946), ("distinct", 0.9961)) for at in ("data", 1, 4)
}


def test_an_evaluation_is_a_line_per_metric_with_the_data_last(tmp_path):
    stream = io.StringIO()
    with Metrics(tmp_path, 100, 0, stream=stream) as told:
        told.evaluated(50, {**OWN, "score": 0.5})
    assert stream.getvalue().splitlines() == [
        "step 50  validation 1.2345",
        "  entropy   1 NFE 1.5946  4 NFE 1.5946  data 1.5946",
        "  distinct  1 NFE 0.9961  4 NFE 0.9961  data 0.9961",
    ]
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["eval/score"] == 0.5


def test_every_kind_of_name_is_readable_and_fits_80_columns():
    values = {"total_variation": 0.25, "solved_all": 0.5, "solved_4_clues30": 0.75, "top_5_1": 0.125}
    values |= {f"perplexity_{2**i}": 1234.5 for i in range(10)}
    lines = evaluation_lines(7, values)
    assert lines[0] == "step 7  total variation 0.2500"
    assert [" ".join(line.split()) for line in lines[1:4]] == [
        "solved 0.5000",
        "solved, clues 30 4 NFE 0.7500",
        "top 5 1 NFE 0.1250",
    ]
    assert sum(line.count("NFE 1234.5000") for line in lines[4:]) == 10
    assert max(map(len, lines)) <= 80


def test_an_evaluation_that_takes_long_is_named_in_a_log(tmp_path, monkeypatch):
    for patience, shown in ((0.0, "evaluating\n"), (60.0, "")):
        monkeypatch.setattr(display, "PATIENCE", patience)
        stream = io.StringIO()
        with Metrics(tmp_path, 100, 0, stream=stream) as told, told.evaluating():
            deadline = monotonic() + 5
            while shown and not stream.getvalue() and monotonic() < deadline:
                sleep(0.01)
        assert stream.getvalue() == shown


def test_an_evaluation_is_named_in_the_live_line_instead_of_the_speed(tmp_path):
    assert bar_line(Status(3, 3, 1.5, 2.0), 80, 65, "evaluating").startswith("step 3/3  evaluating, 1:05  ━")
    stream = Terminal()
    with Metrics(tmp_path, 3, 0, stream=stream) as told, told.evaluating():
        assert "evaluating" in str(told.display._render())
    assert "evaluating" not in str(told.display._render())


def test_work_without_steps_is_named(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal, log = Terminal(), io.StringIO()
    for stream in (terminal, log):
        with display.shown("planning rounds", stream):
            pass
    assert "planning rounds" in terminal.getvalue()
    assert log.getvalue() == "", "it did not take long"


def test_short_durations_are_numbers_with_their_plural():
    assert [duration(s) for s in (0.34, 1.0, 1.5, 9.6)] == ["0.34 seconds", "1 second", "1.5 seconds", "10 seconds"]
