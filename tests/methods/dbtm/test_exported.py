"""A round as a graph of tensors gives the same tokens as the sampler."""

import numpy as np
import pytest
import torch

from dbtm.config import Shape
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import Options
from dbtm.methods.dbtm.exported import ExportedRounds, RoundGraph, commit_by_rank
from dbtm.simplex import commit
from tests.conftest import random_map, sampler_of


@pytest.mark.parametrize("rounds_left", [1, 2, 5])
def test_the_rule_by_ranks_is_the_commit_rule(rounds_left):
    """Including equal scores, which are frequent with few different values."""
    score = torch.randint(0, 4, (200, 11)) / 4
    committed = torch.rand(200, 11) < torch.rand(200, 1)
    got = commit_by_rank(score, committed, torch.tensor(rounds_left), torch.tensor(0.7))
    assert torch.equal(got, commit(score, committed, 1, rounds_left, 0.7))


def by_graph(sampler, scorer):
    graph = RoundGraph(sampler.network, scorer, 1.0)

    def run(tokens, committed, noise, rounds_left, kappa):
        return graph(tokens, committed, noise, torch.tensor(rounds_left), torch.tensor(kappa))[:3]

    return ExportedRounds(run, len(graph.matrix_ND), scorer, 1.0)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("scorer", ["confidence", "quality", "spread"])
@pytest.mark.parametrize("vocab", [7, 40])  # wider than the network: noise through the Cholesky factor
def test_rounds_of_the_graph_are_those_of_the_sampler(scorer, fresh, vocab):
    options = Options(nfe=4, scorer=scorer, fresh_noise=fresh, kappa=0.6, sigma=1.0)
    sampler = sampler_of(random_map(shape=Shape(vocab, 9)), options)
    tokens = np.random.default_rng(0).integers(0, vocab, (30, 9))
    clean = np.random.default_rng(1).random((30, 9)) < 0.2
    want = sampler.sample(tokens=tokens, clean=clean, seed=3, trace=True)
    sampler.evaluator = lambda: by_graph(sampler, scorer)
    got = sampler.sample(tokens=tokens, clean=clean, seed=3, trace=True)
    assert np.array_equal(got.tokens, want.tokens)
    assert np.array_equal(got.nfe, want.nfe)
    assert [r.committed.tolist() for r in got.rounds] == [r.committed.tolist() for r in want.rounds]


def test_what_the_graph_has_no_part_for_is_refused():
    sampler = sampler_of(random_map(), Options(sigma=1.0))
    sampler.evaluator = lambda: by_graph(sampler, "confidence")
    for option in ({"temperature": 0.5}, {"scorer": "spread"}, {"sigma": 2.0}, {"check": 2}):
        with pytest.raises(UsageError, match=f"leave {next(iter(option))} out"):
            sampler.sample(2, **option)
    with pytest.raises(UsageError, match="self_condition"):
        RoundGraph(random_map(self_condition=True), "confidence", 1.0)


def test_planned_rounds_have_no_part_in_the_graph():
    sampler = sampler_of(random_map(), Options(nfe=2, scorer="spread", rounds="planned", plan_by_nfe=((2, (1, 8)),)))
    want = sampler.sample(5, sigma=1.0, rounds="equal").tokens
    sampler.evaluator = lambda: by_graph(sampler, "spread")
    with pytest.raises(UsageError, match="commits equal numbers of positions: set rounds=equal"):
        sampler.sample(5, sigma=1.0)
    assert np.array_equal(sampler.sample(5, sigma=1.0, rounds="equal").tokens, want)
