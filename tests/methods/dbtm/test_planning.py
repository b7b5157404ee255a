"""Planned rounds of a map: entropies at the sampler's states, plans from them, and rounds that follow them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dbtm.config import Shape
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import Options
from dbtm.methods.dbtm.evaluator import Evaluator
from dbtm.methods.dbtm.planning import DRAW, mixture_entropy, place_entropies, plan_by_nfe
from dbtm.simplex import plan_rounds, spread
from dbtm.simplex.plan import falling
from tests.conftest import random_map, sampler_of
from tests.methods.dbtm.oracle import dense_rounds
from tests.sampling.given import V, prompts

PLANNED = Options(nfe=3, scorer="spread", rounds="planned", plan_by_nfe=((3, (1, 3, 2)), (4, (1, 1, 1, 3))), sigma=1.4)


@torch.no_grad()
@pytest.mark.parametrize("nfe", [3, 4, 5])  # 5 has no plan
@pytest.mark.parametrize("more", [{}, {"temperature": 0.7}, {"kappa": 0.0}])
def test_rounds_keep_to_their_plan(nfe, more):
    """The dense algorithm's tokens, C_r and evaluations, for rows with different numbers of given tokens."""
    options = replace(PLANNED, nfe=nfe, **more)
    model = random_map(shape=Shape(V, 6), dropout=0.0).double()
    tokens, clean = (x[:, :6] for x in prompts(8))
    clean[0] = False
    trace = sampler_of(model, options).sample(tokens=tokens, clean=clean, seed=8, trace=True)
    for b in range(8):
        given = [int(token) if known else None for token, known in zip(tokens[b], clean[b])]
        want = dense_rounds(model, b, given, options, seed=8)
        assert trace.nfe[b] == len(want)
        for r, got in enumerate(trace.rounds):
            now = want[min(r, len(want) - 1)]
            assert (got.tokens[b].tolist(), got.committed[b].tolist()) == (now[0], now[1])
    sizes = dict(PLANNED.plan_by_nfe).get(nfe, (2, 1, 1, 1, 1))
    assert [r.committed[0].sum() for r in trace.rounds][: len(sizes)] == np.cumsum(sizes).tolist()


def test_without_a_plan_nothing_changes():
    """Bit for bit: equal rounds, budgets without a plan, and scorers that determine the number of commits."""
    sampler, (tokens, clean) = sampler_of(random_map()), prompts(20)
    table = {"rounds": "planned", "plan_by_nfe": ((2, (1, 8)),)}
    draw = lambda **options: sampler.sample(tokens=tokens, clean=clean, **options).tokens  # noqa: E731
    plain = draw(nfe=4, scorer="spread")
    assert np.array_equal(plain, draw(nfe=4, scorer="spread", **table))
    assert np.array_equal(plain, draw(nfe=4, scorer="spread", **(table | {"rounds": "equal"})))
    sampler.options = replace(sampler.options, **table)
    for options in ({"scorer": "confidence"}, {"scorer": "spread", "commit": False}):
        assert np.array_equal(draw(nfe=2, **options), draw(nfe=2, rounds="equal", **options))
    assert not np.array_equal(draw(nfe=2, scorer="spread"), draw(nfe=2, scorer="spread", rounds="equal"))


@torch.no_grad()
@pytest.mark.parametrize("mean_from", [0, 1, 2])
def test_entropies_are_those_of_the_map_at_the_states_of_its_sampler(mean_from):
    """One position and one draw at a time: clean tokens in the spread order, noise or the mean elsewhere."""
    model, L, draws = random_map(dropout=0.0).double(), 9, 3
    options = Options(scorer="spread", sigma=1.4, mean_from=mean_from)
    tokens = np.random.default_rng(0).integers(0, V, (4, L))
    given = sampler_of(model, options).given(tokens, np.zeros_like(tokens, dtype=bool))
    got = place_entropies(Evaluator.plain(model), given, options, draws, seed=5)
    order = (-spread(L)).argsort().tolist()
    e = torch.eye(V, dtype=torch.float64)
    for m in range(L):
        want = torch.zeros(L, dtype=torch.float64)
        for b in range(4):
            T = []
            for draw in range(draws):
                key = rng.fold(rng.fold(5, DRAW, torch.tensor(b)), draw)[None]
                x = options.sigma * rng.normal(key, L, V, dtype=torch.float64)[0]
                x = torch.full_like(x, 1 / V) if mean_from == 1 or (mean_from == 2 and m > 0) else x
                for place in order[:m]:
                    x[place] = e[tokens[b][place]]
                T.append(model(x[None])[0])
            want += mixture_entropy(torch.stack(T)) / 4
        assert got[m, m:].tolist() == pytest.approx(want[order[m:]].tolist(), rel=1e-6)


@torch.no_grad()
def test_what_is_given_has_no_place():
    """With a prompt of three, places count only free positions. Rows with fewer free positions scale their places."""
    model = random_map(dropout=0.0).double()
    options = Options(scorer="spread", sigma=1.0, mean_from=1)
    tokens, e = np.random.default_rng(0).integers(0, V, (2, 9)), torch.eye(V, dtype=torch.float64)
    clean = np.zeros((2, 9), dtype=bool)
    clean[0, :3], clean[1, :6] = True, True
    sampler = sampler_of(model, options)
    both, *single = (
        place_entropies(Evaluator.plain(model), sampler.given(tokens, clean).rows(torch.tensor(rows)), options)
        for rows in ([0, 1], [0], [1])
    )
    order = [l for l in (-spread(9)).argsort().tolist() if l >= 3]
    x = torch.full((9, V), 1 / V, dtype=torch.float64)
    for l in (0, 1, 2, *order[:2]):
        x[l] = e[tokens[0][l]]
    T = model(x[None])[0]
    assert single[0][2, 2:].tolist() == pytest.approx((-(T * T.log()).sum(-1))[order[2:]].tolist(), rel=1e-6)
    assert both.shape == single[0].shape == (6, 6)
    assert single[1].shape == (3, 3)
    for m in range(6):  # places m // 2 of the short row
        want = [(single[0][m, i] + single[1][m // 2, i // 2]) / 2 for i in range(m, 6)]
        assert both[m, m:].tolist() == pytest.approx(want, rel=1e-6)


def test_the_entropy_is_that_of_the_law_and_not_of_one_draw():
    """A map from noise to one-hots: the entropy is zero at one x0, and complete over many."""
    model = random_map(dropout=0.0)
    with torch.no_grad():
        model.head.weight.mul_(100)
    tokens = np.zeros((40, 9), dtype=np.int64)
    given = sampler_of(model).given(tokens, np.zeros_like(tokens, dtype=bool))
    one, few, many = (place_entropies(Evaluator.plain(model), given, Options(sigma=1.0), draws) for draws in (1, 8, 64))
    assert one[0].mean() < 0.35 * many[0].mean()
    assert few[0].mean() == pytest.approx(many[0].mean(), rel=0.1)


def test_the_entropy_of_a_mixture_is_estimated_from_a_few_draws():
    """For one-hots drawn from a distribution, its entropy. For one distribution repeated, the entropy of that one."""
    law = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    exact = float(torch.special.entr(law).sum())
    draws = torch.nn.functional.one_hot(torch.multinomial(law, 8 * 5000, replacement=True), 4).double().view(8, 5000, 4)
    assert torch.special.entr(draws.mean(0)).sum(-1).mean() < exact - 0.15
    assert float(mixture_entropy(draws).mean()) == pytest.approx(exact, abs=0.04)
    assert float(mixture_entropy(law.expand(8, 4))) == pytest.approx(exact)
    assert float(mixture_entropy(law[None])) == pytest.approx(exact)


def test_plans_are_made_for_budgets_below_the_length():
    model, options = random_map(dropout=0.0), Options(scorer="spread", sigma=1.0)
    given = sampler_of(model).given(np.random.default_rng(0).integers(0, V, (8, 9)), np.zeros((8, 9), dtype=bool))
    H = falling(place_entropies(Evaluator.plain(model), given, options))
    made = plan_by_nfe(Evaluator.plain(model), given, options)
    assert made == tuple((k, plan_rounds(H, k)) for k in range(2, 9))
    assert Options(plan_by_nfe=made).plan_by_nfe == made


def test_what_cannot_be_planned_is_refused():
    model = random_map()
    sampler, full = sampler_of(model, Options(scorer="confidence")), np.ones((3, 9), dtype=bool)
    with pytest.raises(UsageError, match="every position of these rows is given"):
        place_entropies(Evaluator.plain(model), sampler.given(np.zeros((3, 9), dtype=np.int64), full), Options())
    with pytest.raises(UsageError, match=r"sample\.scorer=confidence .* planned where commits are spread"):
        sampler.method.tune(model, sampler.given(np.zeros((3, 9), dtype=np.int64), ~full))
