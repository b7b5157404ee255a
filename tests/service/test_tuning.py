"""Tuning what a sampler's options owe to trained weights: at the end of a run, and of a checkpoint that is there."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.loading import load
from dbtm.checkpoint.lock import RunLock
from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS
from dbtm.methods.base import Method
from dbtm.service.training import TrainRequest, train
from dbtm.service.tuning import tune
from tests.service.conftest import TINY


@pytest.fixture
def rows(tmp_path):
    np.save(tmp_path / "rows.npy", np.sort(np.random.default_rng(0).integers(0, 5, (60, 6)), axis=1))
    return tmp_path / "rows.npy"


def run(rows, out, *changes, **more):
    return train(TrainRequest("own", None, (*TINY, *changes), out=out, data=rows, **more))


def sample_of(folder):
    return json.loads((folder / "config.json").read_text())["sample"]


def test_a_run_of_own_rows_ends_with_plans(rows, tmp_path):
    """In a checkpoint that is whole, and used when nothing else is asked for; resumed, the run plans anew."""
    folder = run(rows, tmp_path / "run", "sample.nfe=4")
    checkpoint.verify(folder)
    plans = dict(sample_of(folder)["plan_by_nfe"])
    assert [*plans] == [2, 3, 4, 5]
    assert all((len(sizes), sum(sizes)) == (nfe, 6) for nfe, sizes in plans.items())
    trace = load(folder, "cpu").sample(2, trace=True)
    assert [state.committed[0].sum() for state in trace.rounds] == np.cumsum(plans[4]).tolist()
    assert not [*folder.parent.glob(".writing*"), *folder.parent.glob(".removing*")]
    again = train(TrainRequest("own", None, ("train.steps=4",), out=tmp_path / "run", resume=True))
    checkpoint.verify(again)
    assert (again.name, [*dict(sample_of(again)["plan_by_nfe"])]) == ("step-00000004", [2, 3, 4, 5])


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        (("sample.rounds=equal",), {}),
        (("sample.scorer=confidence",), {}),
        (("train.steps=100000",), {"max_seconds": 0.1}),
    ],
)
def test_a_run_that_asks_for_none_or_is_stopped_has_none(rows, tmp_path, changes, more):
    folder = run(rows, tmp_path / "run", *changes, **more)
    assert sample_of(folder)["plan_by_nfe"] == []
    assert load(folder, "cpu").sample(2, nfe=2).tokens.shape == (2, 6)


def test_other_methods_have_nothing_to_tune(rows, tmp_path):
    folder = train(TrainRequest("own", "mdlm", tuple(TINY), out=tmp_path / "run", data=rows))
    with pytest.raises(UsageError, match="the sampler of 'mdlm' has nothing to tune"):
        tune(folder)


def test_a_run_that_cannot_be_tuned_is_well(rows, tmp_path, monkeypatch, capsys):
    def refuse(*arguments):
        raise UsageError("no")

    monkeypatch.setattr("dbtm.methods.dbtm.training.plan_by_nfe", refuse)
    folder = run(rows, tmp_path / "run")
    checkpoint.verify(folder)
    assert capsys.readouterr().err.endswith("warning: the sampler is not tuned: no\n")


def test_an_interrupt_while_rounds_are_planned_names_checkpoint_and_command(rows, tmp_path, monkeypatch, capsys):
    def interrupted(self, network, given):
        raise KeyboardInterrupt

    monkeypatch.setattr(METHODS.get("dbtm"), "tune", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(rows, tmp_path / "run")
    folder = checkpoint.latest(tmp_path / "run")
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"the run is complete: {folder}; `dbtm tune {tmp_path / 'run'}` plans its sampler's rounds"


def test_a_checkpoint_is_tuned_in_its_place(rows, tmp_path):
    """Only config.json and the manifest change; rows that lie elsewhere now are named; files of others stay."""
    folder = run(rows, tmp_path / "run", "sample.rounds=equal", "task.prompt=2")
    (folder / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    rows = rows.rename(tmp_path / "moved.npy")
    with pytest.raises(UsageError, match="no such data file"):
        tune(tmp_path / "run")
    tuned = tune(tmp_path / "run", rows, "cpu")
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert tuned.folder == folder
    assert {name for name in before | after if before.get(name) != after.get(name)} == {"config.json", "manifest.json"}
    checkpoint.verify(folder)
    old, new = (json.loads(each["config.json"]) for each in (before, after))
    assert new == old | {"sample": old["sample"] | {"rounds": "planned", "plan_by_nfe": new["sample"]["plan_by_nfe"]}}
    assert dict(new["sample"]["plan_by_nfe"])[3] == [*load(folder, "cpu").with_options(nfe=3).plan]
    assert sum(new["sample"]["plan_by_nfe"][0][1]) == 4, "of the four positions that are not given"
    tune(folder, rows, "cpu")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == after


def test_all_rows_are_trained_on_where_none_are_held_out(rows, tmp_path, monkeypatch):
    folder, seen = run(rows, tmp_path / "run", "task.held_out=0", "sample.rounds=equal"), []
    original = load(folder, "cpu").method.tune
    record = lambda self, network, given: seen.append(given) or original(network, given)  # noqa: E731
    monkeypatch.setattr("dbtm.methods.dbtm.DBTM.tune", record)
    tune(folder, device="cpu")
    assert len(seen[0].tokens) == 256


def test_a_model_of_the_package_stays_as_it_is():
    with pytest.raises(UsageError, match="'text' is a packaged model"):
        tune("text")


def test_a_run_that_is_being_trained_is_left_alone(rows, tmp_path):
    folder = run(rows, tmp_path / "run", "sample.rounds=equal")
    before = (folder / "config.json").read_bytes()
    lock = RunLock(folder.parent).take()
    try:
        with pytest.raises(UsageError, match="is being trained by another process"):
            tune(folder)
    finally:
        lock.release()
    assert (folder / "config.json").read_bytes() == before


def test_a_method_of_ones_own_may_tune_its_options(rows, tmp_path, monkeypatch):
    """The service writes what the method says, whatever that is."""
    folder = run(rows, tmp_path / "run", "sample.rounds=equal")
    monkeypatch.setattr("dbtm.methods.dbtm.DBTM.tune", lambda self, network, given: replace(self.config.sample, nfe=7))
    assert isinstance(load(folder, "cpu").method, Method)
    tune(folder, device="cpu")
    assert sample_of(folder)["nfe"] == 7
