"""Quick measures during training: for every task by its own definition, for any method, and for tasks of one's own."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import entropy

from dbtm.config import Shape, override
from dbtm.evals import quick
from dbtm.methods.base import method_of
from dbtm.methods.dbtm import Options
from dbtm.recipes import recipe
from dbtm.tasks.base import Batch, Task
from dbtm.tasks.text import tokenizer as tokenizers
from dbtm.tasks.text.prepare import Layout, prepare
from dbtm.tasks.text.sources import whole
from dbtm.tasks.text.task import Text
from dbtm.tasks.toy import Markov
from tests.conftest import random_map, sampler_of

SENTENCES = [f"The old fox number {i} sleeps in the house by the river {i * i}." for i in range(60)]


def sampler_by(method: str, task: Task):
    small = override(recipe("markov").by(method), ["model.width=16", "model.depth=1", "model.heads=2"])
    made = method_of(small.on(task)).start()
    return made.sampler(made.network)


# -- text --------------------------------------------------------------------------------------------------------------


def text_task(folder, validation):
    prepare([(None, whole(SENTENCES))], tokenizers.train(SENTENCES, 300), folder, Layout(16, validation=validation))
    return Text(data=str(folder), vocab=300, length=16, evaluate_n=20)


def test_text_is_measured_by_its_variety(tmp_path, monkeypatch):
    monkeypatch.setattr(quick, "MOST_LOGITS", 300 * 16 * 7)  # batches of 7: 20 is not a multiple of it
    task = text_task(tmp_path / "set", 0.2)
    sampler = sampler_of(random_map(shape=Shape(300, 16)), task=task)
    found = quick.evaluate(sampler, seed=3)
    assert sampler.batch == 1024
    for nfe in (1, 4):
        tokens = sampler.sample(20, nfe=nfe, seed=3).tokens
        want = np.mean([entropy(np.unique(row, return_counts=True)[1]) for row in tokens])
        assert found[f"entropy_{nfe}"] == pytest.approx(want)
        assert found[f"entropy_distance_{nfe}"] == pytest.approx(want - found["entropy_data"])
        assert found[f"entropy_together_{nfe}"] == pytest.approx(entropy(np.unique(tokens, return_counts=True)[1]))
        pairs = [len(set(pairwise(row))) / 15 for row in tokens.tolist()]
        assert found[f"distinct2_{nfe}"] == pytest.approx(np.mean(pairs))
    real = [entropy(np.unique(row, return_counts=True)[1]) for row in task.validation(20)]
    assert found["entropy_data"] == pytest.approx(np.mean(real))


def test_text_without_validation_has_no_reference(tmp_path):
    task = text_task(tmp_path / "set", 0)
    found = quick.evaluate(sampler_of(random_map(shape=Shape(300, 16)), task=task), seed=0)
    assert "entropy_1" in found
    assert not [name for name in found if "data" in name or "distance" in name]


# -- tasks with a known answer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "labels"), [("dbtm", ["1", "2", "4"]), ("mdlm", ["1", "2", "4"]), ("ar", ["all"])])
def test_neighbours_are_measured_at_every_budget_a_method_has(method, labels, monkeypatch):
    task = Markov(vocab=4, length=4)
    monkeypatch.setattr(Markov, "independent_bound", 0.25)
    sampler = sampler_by(method, task)
    found = quick.evaluate(sampler, seed=0)
    assert list(found) == [*(f"pair_tv_{label}" for label in labels), "independent", "score"]
    assert found["score"] == -found[f"pair_tv_{labels[0]}"]
    options = {} if method == "ar" else {"nfe": 1}
    assert found[f"pair_tv_{labels[0]}"] == task.pair_distance(sampler.sample(20_000, seed=0, **options).tokens)


# -- a task of one's own -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Doubled(Task):
    """The second half repeats the first, which is given where `prompted`."""

    name = "doubled-for-test"
    vocab: int = 3
    length: int = 4
    prompted: bool = True

    def held_out_examples(self, n):
        half = np.random.default_rng(0).integers(0, 3, (n, 2))
        prompt = np.broadcast_to(np.arange(4) < 2, (n, 4))
        return Batch(np.concatenate((half, half), 1), prompt) if self.prompted else None

    def measure(self, tokens, truth):
        assert len(tokens) == 256
        right = float((tokens[:, :2] == tokens[:, 2:]).all(1).mean())
        if not self.prompted:
            assert truth is None
            return {"right": right}
        assert (tokens[:, :2] == truth.tokens[:, :2]).all(), "prompts are kept"
        return {"right": right, "score": right}


@pytest.mark.parametrize("method", ["dbtm", "ar"])
@pytest.mark.parametrize("prompted", [True, False])
def test_a_task_of_ones_own_measures_what_was_generated(method, prompted):
    labels = ["1", "4"] if method == "dbtm" else ["all"]
    sampler = sampler_by(method, Doubled(prompted=prompted))
    found = quick.evaluate(sampler, seed=1)
    score = {"score": found[f"right_{labels[-1]}"]} if prompted else {}
    assert found == {f"right_{label}": found[f"right_{label}"] for label in labels} | score


@dataclass(frozen=True)
class Silent(Task):
    name = "silent-for-test"
    vocab: int = 7
    length: int = 9


def test_a_task_that_measures_nothing_is_not_scored():
    assert quick.evaluate(sampler_of(random_map(), Options(), Silent()), seed=0) == {}
