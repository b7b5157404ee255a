"""Training as it is asked for: every method on every task, and requests that do not fit."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from dbtm.checkpoint.loading import load
from dbtm.config import to_dict
from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS
from dbtm.core.threads import thread_count
from dbtm.methods import BUILT_IN
from dbtm.service.training import TrainRequest, configuration, fit, train
from dbtm.train.callbacks import Callback
from tests.service.conftest import TINY

pytestmark = pytest.mark.usefixtures("few_samples_measured")

RECIPES = {
    "markov": (),
    "sudoku-mini": ("task.pool=40", "task.evaluate_n=4"),
    "text-small": ("task.evaluate_n=4",),
    "gsm-small": ("task.evaluate_n=2",),
    "own": (),
}

ALONE = {"fmlm": ("method.diagonal=data",), "fmlm-star": ("method.diagonal=data",)}
"""Settings by which a method trains without a teacher."""


FASTER = dict.fromkeys(("mdlm-di4c", "duo-di4c"), ("method.latents=2",))


def request_of(recipe, method, prepared, out, *changes):
    more = {"vocab": 5, "length": 6} if recipe == "own" else {}
    changes = (*TINY, *RECIPES[recipe], *FASTER.get(method, ()), *changes)
    return TrainRequest(recipe, method, changes, out=out, data=prepared.get(recipe), **more)


@pytest.mark.parametrize("method", BUILT_IN)
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_method_trains_on_every_task(recipe, method, prepared, tmp_path):
    """Trained, from a teacher where it needs one, measured, saved, loaded, sampled with a prompt, and resumed."""
    teacher, init = METHODS.get(method).teacher if method not in ALONE else "", None
    if teacher:
        init = train(request_of(recipe, teacher, prepared, tmp_path / "teacher"))
    folder = train(replace(request_of(recipe, method, prepared, tmp_path / "run", *ALONE.get(method, ())), init=init))
    saved = json.loads((folder / "config.json").read_text())
    assert saved["method"]["name"] == method
    sampler = load(folder, device="cpu")
    length = sampler.network.shape.length
    clean = np.broadcast_to(np.arange(length) < 3, (2, length))
    trace = sampler.sample(tokens=np.ones((2, length), dtype=np.int64), clean=clean, trace=True)
    assert (trace.tokens[:, :3] == 1).all()
    assert (trace.tokens < sampler.network.shape.vocab).all()
    assert (trace.nfe >= 1).all()
    assert len(trace.rounds) == trace.nfe.max()
    more = TrainRequest(recipe, method, ("train.steps=4",), out=tmp_path / "run", resume=True)
    assert train(more).name == "step-00000004"


def test_a_checkpoint_of_one_method_holds_no_field_of_another(prepared, tmp_path):
    fields = {}
    for method in ("dbtm", "mdlm", "ar"):
        config = to_dict(configuration(request_of("markov", method, prepared, tmp_path)))
        fields[method] = set(config["method"]) - {"name"}, set(config["sample"])
    assert fields["ar"][0] == set()
    assert fields["mdlm"][0] == {"eps", "weight"}
    assert not fields["dbtm"][0] & fields["mdlm"][0]
    assert "kappa" not in fields["mdlm"][1] | fields["ar"][1]


def test_the_folder_is_named_after_recipe_and_method():
    assert str(TrainRequest("markov").folder) == "runs/markov"
    assert str(TrainRequest("markov", "mdlm").folder) == "runs/markov-mdlm"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (TrainRequest("markov", "mdml"), "unknown method 'mdml'; did you mean 'mdlm'"),
        (TrainRequest("markov", "mdlm", ("method.ril.weight=1",)), "unknown key 'method.ril.weight'"),
        (TrainRequest("markov", changes=("method.eps=1",)), "unknown key 'method.eps'"),
        (TrainRequest("markov", changes=("sample.top_k=1",)), "unknown key 'sample.top_k'"),
        (TrainRequest("markov", "ar", ("sample.nfe=4",)), "unknown key 'sample.nfe'"),
        (TrainRequest("markov", vocab=3), "vocab are for the recipe 'own'"),
        (TrainRequest("own"), "the recipe 'own' needs data, vocab, length"),
    ],
)
def test_what_does_not_fit_is_one_line(request_, message):
    with pytest.raises(UsageError, match=message) as error:
        configuration(request_)
    assert "\n" not in str(error.value)


def test_a_run_is_continued_by_its_own_method_alone(prepared, tmp_path):
    train(request_of("markov", "mdlm", prepared, tmp_path))
    with pytest.raises(UsageError, match="is a run by the method 'mdlm', not by the method 'ar'"):
        configuration(TrainRequest("markov", "ar", out=tmp_path, resume=True))


def test_the_causal_network_refuses_the_delta_backbone(prepared, tmp_path):
    with pytest.raises(UsageError, match="no causal form"):
        train(request_of("markov", "ar", prepared, tmp_path, "model.backbone=delta", "model.depth=4"))
    assert not list(tmp_path.glob("step-*"))


def test_a_small_network_trains_on_one_thread(prepared, tmp_path):
    """The smallest size's setting; afterwards the process has its threads again."""

    class Count(Callback):
        def record(self, step, values):
            seen.add(torch.get_num_threads())

    seen, config = set(), configuration(TrainRequest("own", data=prepared["own"], changes=tuple(TINY)))
    assert config.train.threads == 1
    with thread_count(3):
        fit(config, tmp_path / "run", callbacks=[Count()])
        assert torch.get_num_threads() == 3
    assert seen == {1}
