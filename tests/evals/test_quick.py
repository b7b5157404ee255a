"""Quick measures during training: for every task by its own definition, for any method, and for tasks of one's own."""

import json
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import entropy

from dbtm.checkpoint.loading import load
from dbtm.config import Shape, override
from dbtm.core.errors import UsageError
from dbtm.evals import quick
from dbtm.evals.judges.base import Scores
from dbtm.methods.base import method_of
from dbtm.methods.dbtm import Options
from dbtm.recipes import recipe
from dbtm.service.training import fit
from dbtm.tasks.base import Batch, Task
from dbtm.tasks.reasoning.colouring import Colouring
from dbtm.tasks.sudoku.task import Sudoku
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


class CountsLetters:
    """A judge that finds every letter a as unlikely as 1/e, and all others certain; one token per letter."""

    def score(self, texts, progress=None):
        return Scores(np.array([float(text.count("a")) for text in texts]), np.array([*map(len, texts)]), 0)


def test_with_a_judge_text_has_a_perplexity_over_training(tmp_path, monkeypatch):
    """The records that fig:onpolicy-gate-lm1b is drawn from: perplexity and entropy at every budget, on the way."""
    asked = []
    monkeypatch.setattr(quick, "load_judge", lambda *words: asked.append(words) or CountsLetters())
    task = replace(text_task(tmp_path / "set", 0.2), judge="letters", evaluate_nfe=(2, 3))
    sizes = ["model.width=16", "model.depth=1", "model.heads=2", "train.steps=4", "train.batch=4"]
    config = override(
        recipe("text-small").on(task),
        [*sizes, "train.evaluate_every=2", "train.compile=false", "train.precision=fp32", "optim.warmup=1"],
    )
    folder = fit(replace(config, train=replace(config.train, device="cpu")), tmp_path / "run")
    assert asked == [("letters", "cpu")], "once, before training"
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    on_the_way = {r["step"]: r for r in records if "eval/perplexity_2" in r}
    assert list(on_the_way) == [2, 4]
    texts = {nfe: task.decode(load(folder, "cpu").sample(20, nfe=nfe, seed=0).tokens) for nfe in (2, 3)}
    texts["data"] = task.decode(task.validation(20))
    for name, some in texts.items():
        want = math.exp(sum(text.count("a") for text in some) / sum(map(len, some)))
        assert on_the_way[4][f"eval/perplexity_{name}"] == pytest.approx(want)
    assert {f"eval/entropy_{name}" for name in (2, 3, "data")} <= on_the_way[2].keys()


def test_a_judge_that_is_not_there_is_refused_before_training(tmp_path):
    task = replace(text_task(tmp_path / "set", 0.2), judge=str(tmp_path / "no.gguf"))
    with pytest.raises(UsageError, match="there is no file"):
        fit(recipe("text-small").on(task), tmp_path / "run")
    assert not (tmp_path / "run").exists()


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


class SolvesSome:
    """Puts the solutions of some of its puzzles down, more of them the more clues and the larger the budget."""

    has_budget = True

    def __init__(self, task):
        self.task = task
        sets = (task.held_out, *task.also_held_out.values())
        self.solutions = {p.tobytes(): s for puzzles, solutions in sets for p, s in zip(puzzles, solutions)}

    def sample(self, tokens, clean, seed, nfe):
        puzzles = self.task.layout.decode(np.roll(tokens, self.task.length // 2, 1))  # the given half
        grids = np.stack([self.solutions[p.tobytes()] for p in puzzles])
        wrong = np.arange(len(grids)) % 20 >= nfe + (puzzles[0] > 0).sum() - 12
        grids[wrong, 0] = grids[wrong, 0] % 4 + 1
        return SimpleNamespace(tokens=self.task.layout.encode(puzzles, grids))


def test_sudoku_is_measured_by_difficulty():
    """The rates of fig:sudoku-solve-acc; the score is that of the first count of clues alone."""
    task = Sudoku(box=2, clues=((4, 8),), pool=50, evaluate_n=20, evaluate_clues=12, evaluate_also=(14,))
    found = quick.sudoku(SolvesSome(task), task, seed=2)
    want = {"solved_1": 0.05, "solved_4": 0.2, "solved_16": 0.8}
    assert found == pytest.approx(
        want | {"solved_1_clues14": 0.15, "solved_4_clues14": 0.3, "solved_16_clues14": 0.9, "score": 0.25}
    )
    for clues, (puzzles, _) in ((12, task.held_out), (14, task.also_held_out[14])):
        assert ((puzzles > 0).sum(1) == clues).all()
    with pytest.raises(UsageError, match="40 clues"):
        replace(task, evaluate_also=(40,))


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


def test_reasoning_tasks_are_measured_at_three_budgets(monkeypatch):
    """A sampler that answers the first `nfe` problems right, and colours all nodes of the others alike."""
    task = Colouring(nodes=6, degree=3, evaluate_n=20)

    def sample(tokens, clean, seed, nfe):
        assert np.array_equal(clean, np.broadcast_to(~task.answer(), tokens.shape))
        wrong = np.where(clean, tokens, 2)
        return SimpleNamespace(tokens=np.concatenate([tokens[:nfe], wrong[nfe:]]))

    monkeypatch.setattr(quick, "_in_batches", lambda sampler: sampler)
    out = quick.evaluate(SimpleNamespace(task=task, sample=sample, has_budget=True), seed=0)
    assert out == {"solved_1": 0.05, "solved_4": 0.2, "solved_16": 0.8, "score": 0.25}
