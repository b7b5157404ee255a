"""A run with a time limit: the number of steps that fit, its end in time, and its results."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.migrate import read_config
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import DistillConfig
from dbtm.train import loop, pace
from dbtm.train.loop import fit
from tests.clock import Clock
from tests.train.test_resume import tiny_run


def test_the_steps_that_fit(monkeypatch):
    """100 s from step 7 on; a slow start, then two steps per second, then an evaluation: every report replans."""
    time = Clock(monkeypatch, pace)
    clock = pace.Pace(100 / 60, first_step=7)
    time.now += 20
    assert clock.steps(7 + 10) is None  # still settling
    time.now += 10
    assert clock.steps(7 + 20) is None  # measured from here on
    time.now += 5
    assert clock.steps(7 + 30) == 37 + int(pace.RESERVE * 65 * 2)
    time.now += 20
    assert clock.steps(7 + 50) == 57 + int(pace.RESERVE * 45 * 30 / 25)  # speed since the first report
    assert not clock.over()
    time.now += 46
    assert clock.over()
    assert clock.steps(7 + 96) == 103


def test_a_new_phase_is_noticed(monkeypatch):
    """Speed is that of the last reports: after enough reports at one step per second, ten no longer count."""
    time = Clock(monkeypatch, pace)
    clock = pace.Pace(10, first_step=0)
    for i in range(1, 31):
        time.now += 1 if i <= 20 else 10
        planned = clock.steps(10 * i)
    assert planned == 300 + int(pace.RESERVE * (600 - 120) * 1)


def test_a_rare_evaluation_is_not_forgotten(monkeypatch):
    """Every tenth report has an evaluation of ten seconds, half of the time; it counts even if the last had none."""
    time = Clock(monkeypatch, pace)
    clock = pace.Pace(10, first_step=0)
    for i in range(1, 50):
        time.now += 11 if i % 10 == 2 else 1
        planned = clock.steps(10 * i)
    assert planned == 490 + int(pace.RESERVE * (600 - 99) * 470 / 87)


@pytest.fixture
def ticking(monkeypatch):
    """A clock that advances by 1/20 second per read, independent of the machine's load."""
    ticks = itertools.count()
    for module in (pace, loop):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 20))
    monkeypatch.setattr(pace, "SETTLING", 2)


@pytest.mark.usefixtures("ticking")
def test_a_run_by_the_clock_ends_and_says_how_long_it_was(tmp_path):
    config = tiny_run(distill=DistillConfig())
    folder = fit(config, tmp_path, minutes=0.03)
    steps = read_config(folder).train.steps
    reached = checkpoint.read_state(folder)["step"]
    assert 4 <= reached == steps < pace.OPEN


@pytest.mark.usefixtures("ticking")
def test_the_limit_holds_before_the_length_is_known(tmp_path, capsys):
    config = tiny_run(distill=DistillConfig())
    config = replace(config, train=replace(config.train, log_every=10**6))
    folder = fit(config, tmp_path, minutes=0.005)
    assert checkpoint.read_state(folder)["step"] > 0
    assert "the time is up" in capsys.readouterr().err


@pytest.mark.usefixtures("ticking")
def test_a_long_warm_up_is_cut_and_a_late_start_is_refused(tmp_path):
    config = tiny_run(distill=DistillConfig())
    config = replace(config, optim=replace(config.optim, warmup=10**6), train=replace(config.train, steps=10**7))
    folder = fit(config, tmp_path / "warm", minutes=0.02)
    assert read_config(folder).optim.warmup < 10**6
    late = tiny_run(distill=DistillConfig(weight=1.0, start=10**6), train=replace(config.train, steps=10**7))
    with pytest.raises(UsageError, match=r"method\.distill\.start=1000000"):
        fit(late, tmp_path / "late", minutes=0.05)
    assert checkpoint.latest(tmp_path / "late") is not None
