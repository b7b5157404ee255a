"""Revising and checking against the same algorithms with dense states, one sample and one position at a time."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dbtm.config import Shape
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import Options
from dbtm.methods.dbtm.evaluator import Evaluator
from dbtm.methods.dbtm.refine import NOISE
from dbtm.methods.dbtm.revise import AGAIN, HALF, LOOK, check, held_count
from dbtm.sampling import Given, Watch
from tests.conftest import random_map, sampler_of, with_positions
from tests.methods.dbtm.oracle import dense_rounds
from tests.sampling.given import V, prompts

LENGTH = 6
EYE = torch.eye(V, dtype=torch.float64)


def build(**changes):
    return with_positions(random_map(shape=Shape(V, LENGTH), dropout=0.0, position_axes=(LENGTH,), **changes).double())


@pytest.fixture(scope="module")
def model():
    return build()


def evaluate(model, known, key, sigma, recalled=None):
    """T and the trunk with known tokens ({position: token}) and noise of a key elsewhere (None: 0)."""
    x0 = torch.full((LENGTH, V), 1 / V, dtype=torch.float64)
    if key is not None:
        x0 = sigma * rng.normal(key[None], LENGTH, V, dtype=torch.float64)[0]
    x = torch.stack([EYE[known[l]] if l in known else x0[l] for l in range(LENGTH)])[None]
    h = model.embed_dense(x)[0]
    h = h if recalled is None else h + recalled @ model.recall
    return model.logits(h)[0].softmax(-1)[0], model.hidden(h)[0]


def scores(model, T, trunk, tokens, free, scorer):
    if scorer == "quality":
        z = model.quality_logits(trunk, torch.tensor([tokens]))[0].tolist()
        return {l: 1 / (1 + math.exp(-z[l])) for l in free}
    return {l: T[l][tokens[l]].item() for l in free}


@torch.no_grad()
def dense_revise(model, index, given, options, seed):
    """(tokens, held) of every round, and whether the answer was confirmed."""
    free = [l for l in range(LENGTH) if given[l] is None]
    tokens, held, rounds, T = list(given), {l: given[l] for l in range(LENGTH) if l not in free}, [], None
    for r in range(1, options.nfe + 1):
        recalled = None if model.recall is None else T
        T, trunk = evaluate(model, held, rng.fold(seed, NOISE, index, r), options.sigma, recalled)
        before, all_held = list(tokens), len(held) == LENGTH
        for l in free:
            tokens[l] = T[l].argmax().item()
        q = scores(model, T, trunk, tokens, free, options.scorer)
        least = min(len(free), math.ceil(len(free) * r / max(1, options.nfe - 2)))
        best = sorted(free, key=lambda l: -q[l])[:least]
        held = {l: tokens[l] for l in range(LENGTH) if l not in free or q[l] >= options.kappa or l in best}
        rounds.append((list(tokens), [l in held for l in range(LENGTH)]))
        if all_held and tokens == before:
            return rounds, True
    return rounds, False


def rows_of(tokens, clean):
    return [[int(t) if known else None for t, known in zip(*row)] for row in zip(tokens, clean)]


@pytest.mark.parametrize("scorer", ["confidence", "quality"])
@pytest.mark.parametrize("nfe", [1, 2, 7])
@pytest.mark.parametrize("recalls", [False, True])
def test_revising_is_the_algorithm(model, scorer, nfe, recalls):
    model = build(self_condition=True) if recalls else model
    options = Options(nfe=nfe, kappa=0.5, scorer=scorer, sigma=1.3, rule="revise")
    tokens, clean = (x[:, :LENGTH] for x in prompts(8))
    trace = sampler_of(model, options, batch=3).sample(tokens=tokens, clean=clean, seed=5, trace=True)
    for b, given in enumerate(rows_of(tokens, clean)):
        want, stable = dense_revise(model, b, given, options, seed=5)
        assert trace.nfe[b] == len(want)
        assert trace.stable[b] == stable
        assert trace.tokens[b].tolist() == want[-1][0]
        for r, state in enumerate(trace.rounds):
            now = want[min(r, len(want) - 1)]
            assert (state.tokens[b].tolist(), state.committed[b].tolist()) == now


@torch.no_grad()
def dense_check(model, index, given, answer, options, seed):
    """The answer after checking and redrawing, whether it is stable, and the number of evaluations."""
    free = [l for l in range(LENGTH) if given[l] is None]
    tokens, left, nfe, turn, stable = list(answer), options.check, 0, 0, not free
    while left >= 2 and free and not stable:
        turn += 1
        half = rng.uniform(rng.fold(seed, HALF, index, turn)[None], LENGTH)[0] < 0.5
        doubted = []
        for number in (0, 1):
            renoised = [l for l in free if bool(half[l]) != bool(number)]
            known = {l: tokens[l] for l in range(LENGTH) if l not in renoised}
            key = None if options.mean_from else rng.fold(seed, LOOK, index, 2 * turn + number)
            T, _ = evaluate(model, known, key, options.sigma)
            doubted += [l for l in renoised if T[l].argmax().item() != tokens[l]]
        left, nfe, stable = left - 2, nfe + 2, not doubted
        k = min(options.nfe, left - 2)
        if stable or k < 1:
            break
        open_, committed = list(free), {l: tokens[l] for l in range(LENGTH) if l not in free}
        for r in range(1, k + 1):
            key = rng.fold(seed, AGAIN, index, turn * (options.check + 1) + r)
            at_mean = options.mean_from and r >= options.mean_from
            T, trunk = evaluate(model, committed, None if at_mean else key, options.sigma)
            u = rng.uniform(key[None], LENGTH)[0]
            for l in open_:
                tokens[l] = (T[l].cumsum(0) <= u[l]).sum().item() if at_mean else T[l].argmax().item()
            q, nfe = scores(model, T, trunk, tokens, open_, options.scorer), nfe + 1
            best = sorted(open_, key=lambda l: -q[l])[: math.ceil(len(open_) / (k - r + 1))]
            committed |= {l: tokens[l] for l in open_ if q[l] >= options.kappa or l in best}
            open_ = [l for l in open_ if l not in committed]
            if not open_:
                break
        left -= k
    return tokens, stable, nfe


@pytest.mark.parametrize(
    ("scorer", "mean_from"), [("confidence", 0), ("quality", 0), ("confidence", 1), ("confidence", 2)]
)
@pytest.mark.parametrize("budget", [2, 3, 5, 17])
def test_checking_is_the_algorithm(model, scorer, mean_from, budget):
    plain = Options(nfe=3, kappa=0.5, scorer=scorer, sigma=1.3, mean_from=mean_from)
    options = replace(plain, check=budget)
    tokens, clean = (x[:, :LENGTH] for x in prompts(8))
    clean[0] = True  # nothing to check
    trace = sampler_of(model, options, batch=3).sample(tokens=tokens, clean=clean, seed=5, trace=True)
    for b, given in enumerate(rows_of(tokens, clean)):
        first = dense_rounds(model, b, given, plain, seed=5)
        want, stable, nfe = dense_check(model, b, given, first[-1][0], options, seed=5)
        assert trace.tokens[b].tolist() == want
        assert trace.stable[b] == stable
        assert trace.nfe[b] == len(first) + nfe
    assert (trace.nfe <= 3 + budget).all()


@torch.no_grad()
def test_an_answer_that_always_comes_back_is_stable(monkeypatch, model):
    """A map that knows the answer: two looks confirm it. An answer that differs anywhere is drawn again."""
    answer = torch.from_numpy(prompts(1)[0][:, :LENGTH]).expand(4, -1)
    known = answer.clone()

    def knows(network, trunk, tokens, committed, options, choice_B, scorer):
        return torch.where(committed, tokens, known[: len(tokens)]), torch.ones(tokens.shape)

    monkeypatch.setattr("dbtm.methods.dbtm.evaluator.score_proposals", knows)
    given = Given(answer, torch.zeros_like(answer, dtype=torch.bool), torch.arange(4))
    for wrong in (False, True):
        proposed = answer.clone()
        if wrong:
            proposed[2, 3] = (proposed[2, 3] + 1) % V
        watch = Watch(4)
        trace = check(Evaluator.plain(model), given, proposed, Options(nfe=2, check=2, sigma=1.0), 0, watch)
        assert trace.stable.tolist() == [True, True, not wrong, True]
        assert trace.nfe.tolist() == [2] * 4
    watch = Watch(4)
    trace = check(Evaluator.plain(model), given, proposed, Options(nfe=1, check=5, sigma=1.0), 0, watch)
    assert np.array_equal(trace.tokens, known), "changed tokens are drawn again"
    assert trace.stable.all()
    assert trace.nfe.tolist() == [2, 2, 5, 2]


@pytest.mark.parametrize(("r", "k", "count"), [(1, 1, 10), (1, 3, 10), (1, 4, 5), (2, 4, 10), (4, 4, 10), (3, 12, 3)])
def test_two_rounds_are_left_to_confirm(r, k, count):
    assert held_count(torch.tensor([10]), r, k).tolist() == [count]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check": 1}, "a check takes 2 network evaluations"),
        ({"check": -2}, "must not be negative"),
        ({"rule": "revise", "commit": False}, "need sample.sampler=refine and sample.commit=true"),
        ({"check": 4, "sampler": "iterate"}, "need sample.sampler=refine and sample.commit=true"),
        ({"rule": "revise", "check": 4}, "confirms its answer itself"),
        ({"rule": "revise", "scorer": "spread"}, "confirms its answer itself"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(UsageError, match=message):
        Options(**options)


def test_without_a_check_nothing_is_said_of_stability(model):
    assert sampler_of(model).sample(2, nfe=2).stable is None
