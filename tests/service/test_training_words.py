"""What a run says of itself before it begins."""

import pytest

from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.evals.step_cost import planned_flops
from dbtm.service import training
from dbtm.service.training import TrainRequest, configuration


def test_a_short_run_shortens_the_recipes_warm_up_and_says_so(capsys):
    assert configuration(TrainRequest("markov", changes=("train.steps=20",))).optim.warmup == 2
    assert capsys.readouterr().err == "optim.warmup is 2 instead of 100: the run has only 20 steps\n"
    configuration(TrainRequest("markov", changes=("train.steps=20", "optim.warmup=5")))
    assert capsys.readouterr().err == ""
    with pytest.raises(UsageError, match=r"optim\.warmup=50 is longer than the run"):
        configuration(TrainRequest("markov", changes=("train.steps=20", "optim.warmup=50")))


def test_a_new_run_on_a_cpu_is_given_the_least_time_of_its_steps(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(training.machine, "rate", lambda width, dtype: 1e9)
    monkeypatch.setattr(training.loop, "fit", lambda *words: given.append(words[-1]) or tmp_path)
    monkeypatch.setattr(training, "tune_finished", lambda folder: None)
    long, brief = (configuration(TrainRequest("markov", changes=(f"train.steps={n}",))) for n in (10**9, 200))
    on_cpu = [override(config, ["train.device=cpu"]) for config in (long, brief)]
    training.fit(on_cpu[0], tmp_path)
    training.fit(on_cpu[0], tmp_path, minutes=5)
    training.fit(on_cpu[1], tmp_path)
    assert given == [pytest.approx(planned_flops(long) / 1e9), 0.0, 0.0]
