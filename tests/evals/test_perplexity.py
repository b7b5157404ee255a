"""Perplexity, its interval, and the rows of an evaluation, against formulas and brute force."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.evals import perplexity
from dbtm.evals.estimates import Estimate, mean, ratio_of_sums
from dbtm.evals.judges.base import Scores
from dbtm.evals.samples import SampleSet


class FixedJudge:
    """Says the same of every set."""

    name = "fixed"

    def __init__(self, nll, tokens):
        self.scores = Scores(np.array(nll, float), np.array(tokens), windowed=1)

    def score(self, texts, progress=None):
        assert len(texts) == len(self.scores.nll_B)
        return self.scores


def test_perplexity_is_that_of_the_corpus_not_the_mean_of_samples():
    value, low, high = perplexity.perplexity(np.array([10.0, 1.0]), np.array([5, 1]))
    assert value == pytest.approx(math.exp(11 / 6))
    assert low < value < high


def test_the_interval_is_the_bootstraps():
    rng = np.random.default_rng(0)
    tokens = rng.integers(50, 200, 400)
    nll = tokens * rng.normal(5, 0.8, 400)
    value, low, high = perplexity.perplexity(nll, tokens)
    draws = rng.integers(0, 400, (4000, 400))
    resampled = np.exp(nll[draws].sum(1) / tokens[draws].sum(1))
    assert value == pytest.approx(math.exp(nll.sum() / tokens.sum()))
    np.testing.assert_allclose([low, high], np.quantile(resampled, [0.025, 0.975]), rtol=0.01)


def test_nats_per_token_have_the_same_interval_on_their_own_scale():
    nll, tokens = np.array([10.0, 1.0, 4.0]), np.array([5, 1, 2])
    rate = ratio_of_sums(nll, tokens)
    assert rate.value == pytest.approx(15 / 8)
    assert perplexity.perplexity(nll, tokens) == pytest.approx(np.exp(rate))
    assert rate.high - rate.value == pytest.approx(rate.value - rate.low)
    assert ratio_of_sums(nll[:1], tokens[:1]) == pytest.approx((2.0, math.nan, math.nan), nan_ok=True)
    assert Estimate(1.0).document("x") == {"x": 1.0, "x_low": None, "x_high": None}


def test_the_mean_has_its_normal_interval():
    value, low, high = mean(np.array([1.0, 2.0, 3.0, 4.0]))
    half = 1.959964 * np.std([1, 2, 3, 4], ddof=1) / 2
    np.testing.assert_allclose([value, low, high], [2.5, 2.5 - half, 2.5 + half], rtol=1e-6)


def test_a_row_holds_every_number_and_becomes_json():
    tokens = np.array([[1, 2, 1, 2], [3, 4, 5, 6], [3, 4, 5, 6]])
    samples = SampleSet(tokens, ["a", "b", "c"], settings={"nfe": 2}, nfe=1.5, seconds=2.0)
    row = perplexity.measure(samples, FixedJudge([7.0, 2.0, 0.0], [2, 1, 0]))
    assert row.perplexity.value == pytest.approx(math.exp(3))
    assert row.entropy.value == pytest.approx((math.log(2) + 2 * math.log(4)) / 3)
    assert (row.judge, row.n, row.judge_tokens, row.unscored, row.windowed) == ("fixed", 3, 3, 1, 1)
    assert row.distinct["2"] == pytest.approx((2 / 3 + 1 + 1) / 3)
    assert (row.longest_repeat, row.unique) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    document = row.document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["perplexity"] == pytest.approx(math.exp(3))
    assert document["perplexity_low"] < document["perplexity"] < document["perplexity_high"]


def test_shuffled_words_have_no_runs_of_tokens():
    """Their tokens are those of the text before it was shuffled: what depends on the order is not told of them."""
    tokens = np.array([[1, 2, 1, 2, 3]])
    real, shuffled = (perplexity.measure(SampleSet(tokens, ["a b"], kind), None) for kind in ("real", "shuffled"))
    assert (real.longest_repeat, real.distinct["2"]) == (2, 0.75)
    assert shuffled.entropy == real.entropy
    document = shuffled.document()
    assert document["longest_repeat"] is document["distinct"]["2"] is document["distinct"]["4"] is None
    assert document["distinct"]["1"] == pytest.approx(0.6)


def test_what_cannot_be_measured_is_null_not_a_number():
    one = SampleSet(np.array([[1, 2]]), ["a"])
    for judge in (None, FixedJudge([0.0], [0])):
        document = perplexity.measure(one, judge).document()
        assert document["perplexity"] is document["perplexity_low"] is document["entropy_low"] is None
        assert document["distinct"]["4"] is None, "shorter than four tokens"
        assert document["judge"] == (judge and "fixed")


class Task:
    """Numbers for words."""

    name = "stub"
    held_out = np.arange(60).reshape(20, 3)

    def decode(self, tokens_BL):
        return [" ".join(f"w{token}" for token in row) for row in tokens_BL]


def test_references_are_held_out_text_from_everywhere_and_its_words_shuffled():
    real, shuffled = perplexity.references(Task(), 8)
    assert (real.kind, shuffled.kind) == ("real", "shuffled")
    assert len(np.unique(real.tokens_BL, axis=0)) == 8
    assert real.tokens_BL[0, 0] == 0
    assert real.tokens_BL[-1, -1] == 59
    assert real.texts == Task().decode(real.tokens_BL)
    assert [sorted(a.split()) for a in shuffled.texts] == [sorted(a.split()) for a in real.texts]
    assert shuffled.texts != real.texts
    assert perplexity.references(Task(), 8)[1].texts == shuffled.texts, "the same every time"
    assert len(perplexity.references(Task(), 1000)[0].texts) == 20, "all there is"
    assert real.origin == {}


def test_references_say_which_data_they_are_from():
    class Prepared(Task):
        def source(self):
            return {"data": "set", "sha256": "abc"}

    assert [each.origin for each in perplexity.references(Prepared(), 3)] == [{"data": "set", "sha256": "abc"}] * 2


def test_without_held_out_text_it_says_how_to_do_without():
    class Empty(Task):
        held_out = np.empty((0, 3), int)

    class Missing(Task):
        @property
        def held_out(self):
            raise UsageError("the folder is gone")

    for task, words in ((Empty(), "nothing was held out"), (Missing(), "the folder is gone")):
        with pytest.raises(perplexity.NoReferenceError, match=f"no real text to compare with: {words}"):
            perplexity.references(task, 3)
        assert perplexity.text_task(task) is task


def test_other_tasks_are_refused():
    with pytest.raises(UsageError, match="trained on 'markov', not on text"):
        perplexity.text_task(SimpleNamespace(name="markov"))
