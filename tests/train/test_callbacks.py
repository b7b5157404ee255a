"""Other receivers of metrics: a user's class, and fakes of the services."""

import sys
import types
from dataclasses import replace

import pytest

import dbtm
from dbtm.core.errors import UsageError
from dbtm.recipes import recipe
from dbtm.train.callbacks import services
from dbtm.train.loop import Interrupted, Trainer, fit


def tiny(**train):
    run = recipe("markov")
    small = replace(run.model, width=16, depth=1, heads=2)
    settings = {"steps": 4, "batch": 8, "log_every": 2, "checkpoint_every": 4, "device": "cpu", **train}
    optim = replace(run.optim, warmup=1)
    return replace(run, model=small, optim=optim, train=replace(run.train, **settings))


class Heard(dbtm.Callback):
    def __init__(self):
        self.calls = []

    def start(self, config, folder):
        self.calls.append(("start", config["recipe"], folder))

    def record(self, step, values):
        self.calls.append(("record", step, sorted(values)))

    def end(self):
        self.calls.append(("end",))


def test_a_callback_hears_start_records_and_end(tmp_path):
    heard = Heard()
    fit(tiny(), tmp_path, callbacks=[heard], evaluate=lambda sampler, seed: {"score": 1.0})
    kinds = [call[0] for call in heard.calls]
    assert kinds == ["start", "record", "record", "record", "end"]
    assert heard.calls[0][1:] == ("markov", tmp_path)
    assert [call[1] for call in heard.calls[1:4]] == [2, 4, 4]
    assert "loss" in heard.calls[1][2]
    assert heard.calls[3][2] == ["eval/score"]


def test_a_run_that_fails_ends_its_callbacks(tmp_path):
    heard = Heard()
    trainer = Trainer(tiny(), tmp_path, callbacks=[heard])
    trainer.method.parts = lambda examples: (_ for _ in ()).throw(ValueError("broken"))  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="broken"):
        trainer.run()
    assert heard.calls[-1] == ("end",)


def test_a_compiler_that_a_signal_kills_is_a_line(tmp_path):
    """Ctrl-C reaches the whole process group: the step then fails because its compiler is gone."""
    import signal

    trainer = Trainer(tiny(), tmp_path)

    def parts(examples):
        signal.raise_signal(signal.SIGINT)
        raise RuntimeError("C++ compile error")
        yield

    trainer.method.parts = parts  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match="SIGINT stopped step 1 before it finished: no checkpoint"):
        trainer.run()
    assert not list(tmp_path.glob("step-*"))


def fake(monkeypatch, name, **functions):
    module = types.ModuleType(name)
    for key, value in functions.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


def test_weights_and_biases(monkeypatch, tmp_path):
    calls = []

    class Run:
        def log(self, values, step):
            calls.append(("log", step, "loss" in values))

        def finish(self):
            calls.append(("finish",))

    def init(**settings):
        calls.append(("init", settings["config"]["recipe"], settings["resume"], settings["id"]))
        return Run()

    fake(monkeypatch, "wandb", init=init)
    fit(tiny(track=("wandb",)), tmp_path / "a run")
    assert calls == [
        ("init", "markov", "allow", f"{tmp_path.name}-a-run"),
        ("log", 2, True),
        ("log", 4, True),
        ("finish",),
    ]


def test_mlflow(monkeypatch, tmp_path):
    calls, parameters = [], {}
    fake(
        monkeypatch,
        "mlflow",
        start_run=lambda run_name: calls.append(("start", run_name)),
        log_params=parameters.update,
        log_metrics=lambda values, step: calls.append(("log", step, "loss" in values)),
        end_run=lambda: calls.append(("end",)),
    )
    fit(tiny(track=("mlflow",)), tmp_path / "run")
    assert calls == [("start", "run"), ("log", 2, True), ("log", 4, True), ("end",)]
    assert parameters["train.steps"] == "4"
    assert parameters["method.path.sigma"] == "1.0"


@pytest.mark.parametrize(("name", "package"), [("wandb", "wandb"), ("mlflow", "mlflow")])
def test_a_service_that_is_not_installed_is_a_line(monkeypatch, name, package, tmp_path):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=f"track={name} needs {package}: pip install"):
        Trainer(tiny(track=(name,)), tmp_path)


def test_unknown_services_are_refused():
    with pytest.raises(UsageError, match="did you mean 'wandb'"):
        services(["wanbd"])
    with pytest.raises(UsageError, match="track"):
        dbtm.override(tiny(), ['train.track=["wanbd"]'])


def test_nothing_is_imported_that_was_not_asked_for():
    assert not {"wandb", "mlflow"} & sys.modules.keys()
