"""Renoise and remap against the paper's algorithm with dense states, and the effects of its options."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dbtm.config import Shape
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import Options
from dbtm.methods.dbtm.evaluator import Evaluator, noise
from dbtm.methods.dbtm.refine import NOISE
from dbtm.sampling import Watch
from dbtm.simplex import State
from tests.conftest import random_map, sampler_of
from tests.methods.dbtm.oracle import dense_rounds
from tests.sampling.given import L, V, prompts


@pytest.fixture(scope="module")
def sampler():
    return sampler_of(random_map(dropout=0.0), batch=64)


@torch.no_grad()
@pytest.mark.parametrize("scorer", ["confidence", "quality"])
@pytest.mark.parametrize(("temperature", "top_p"), [(0.0, 1.0), (0.7, 1.0), (1.0, 0.6)])
@pytest.mark.parametrize(("commit", "penalty"), [(True, 0.0), (True, 1.5), (False, 0.0)])
def test_rounds_are_the_papers_algorithm(scorer, temperature, top_p, commit, penalty):
    """Tokens, C_r and scores of every round, and the evaluations used; sampling in training mode has no dropout."""
    drawn = {"temperature": temperature, "top_p": top_p, "repetition_penalty": penalty, "sigma": 1.4}
    options = Options(nfe=3, kappa=0.45, scorer=scorer, commit=commit, **drawn)
    model = random_map(shape=Shape(V, 6), dropout=0.5).double().train()
    tokens, clean = (x[:, :6] for x in prompts(5))
    trace = sampler_of(model, options).sample(tokens=tokens, clean=clean, seed=8, trace=True)
    assert model.training
    model.eval()
    for b in range(5):
        given = [int(token) if known else None for token, known in zip(tokens[b], clean[b])]
        want = dense_rounds(model, b, given, options, seed=8)
        assert trace.nfe[b] == len(want)
        assert trace.tokens[b].tolist() == want[-1][0]
        for r, got in enumerate(trace.rounds):
            now = want[min(r, len(want) - 1)]  # a finished sample does not change
            assert got.tokens[b].tolist() == now[0]
            assert got.committed[b].tolist() == now[1]
            assert got.score[b].tolist() == pytest.approx(now[2], rel=1e-6)
    assert len(trace.rounds) == trace.nfe.max()


def test_held_samples_may_stop_at_a_fixed_point():
    """Only if all positions are held, since noise changes x anyway. Each sample stops as in the dense transcription."""
    options = Options(nfe=30, kappa=0.2, scorer="confidence", commit=False, sigma=1.0, tolerance=1e-2)
    model = random_map(shape=Shape(V, 6), dropout=0.0).double()
    tokens, clean = (x[:, :6] for x in prompts(8))
    trace = sampler_of(model, options).sample(tokens=tokens, clean=clean, seed=8, trace=True)
    for b in range(8):
        given = [int(token) if known else None for token, known in zip(tokens[b], clean[b])]
        want = dense_rounds(model, b, given, options, seed=8)
        assert trace.nfe[b] == len(want)
        assert trace.tokens[b].tolist() == want[-1][0]
        for r, got in enumerate(trace.rounds):
            now = want[min(r, len(want) - 1)]
            assert (got.tokens[b].tolist(), got.committed[b].tolist()) == (now[0], now[1])
    assert 1 < trace.nfe.min() < trace.nfe.max()
    plain = sampler_of(model, replace(options, tolerance=0.0)).sample(tokens=tokens, clean=clean, seed=8)
    assert (plain.nfe == 30).all()


@pytest.mark.parametrize("scorer", ["confidence", "quality", "spread", "none"])
@pytest.mark.parametrize("nfe", [1, 3, 20])
@pytest.mark.parametrize("commit", [True, False])
def test_given_tokens_never_change_and_budget_holds(sampler, scorer, nfe, commit):
    tokens, clean = prompts(10)
    options = {"scorer": scorer, "commit": commit} | ({} if scorer == "spread" else {"kappa": 0.6})
    trace = sampler.sample(tokens=tokens, clean=clean, nfe=nfe, trace=True, **options)
    assert (trace.tokens[clean] == tokens[clean]).all()
    assert (trace.nfe <= nfe).all()
    assert trace.tokens.min() >= 0
    assert trace.tokens.max() < V
    assert np.array_equal(trace.rounds[-1].tokens, trace.tokens)
    if commit:
        assert trace.rounds[-1].committed.all()
        for before, after in zip(trace.rounds, trace.rounds[1:], strict=False):
            assert (after.committed >= before.committed).all()
            assert (after.tokens[before.committed] == before.tokens[before.committed]).all()
    else:
        assert (trace.nfe == nfe).all()


@pytest.mark.parametrize("options", [{}, {"commit": False}, {"scorer": "none"}, {"temperature": 0.8}, {"nfe": 1}])
def test_a_trace_changes_nothing(sampler, options):
    """Without one the last round is not scored."""
    tokens, clean = prompts(20)
    options = {"nfe": 3, "kappa": 0.6, "scorer": "quality", **options}
    shown, plain = (sampler.sample(tokens=tokens, clean=clean, trace=t, **options) for t in (True, False))
    assert np.array_equal(shown.tokens, plain.tokens)
    assert np.array_equal(shown.nfe, plain.nfe)


def test_spread_commits_by_position_alone(sampler):
    """For any scores of the map, all samples commit the same positions."""
    trace = sampler.sample(5, nfe=2, scorer="spread", trace=True)
    assert trace.rounds[0].committed.tolist() == 5 * [[i in (0, 4, 8, 2, 6) for i in range(L)]]
    assert (trace.rounds[0].score > 0).all()  # the trace still has the map's confidence
    given = np.arange(L) == 4
    trace = sampler.sample(tokens=np.full((1, L), 3), clean=given[None], nfe=4, scorer="spread", trace=True)
    assert trace.rounds[0].committed[0].nonzero()[0].tolist() == [0, 4, 8]
    assert trace.tokens[0, 4] == 3


def test_a_sample_reports_the_evaluations_it_used(sampler):
    tokens, clean = prompts(40)
    trace = sampler.sample(tokens=tokens, clean=clean, nfe=8, kappa=0.5, trace=True)
    for b in range(40):
        done = next(r for r, state in enumerate(trace.rounds, 1) if state.committed[b].all())
        assert trace.nfe[b] == done
    assert len(set(trace.nfe.tolist())) > 1  # it adapts to the sample
    assert (sampler.sample(4, nfe=8, kappa=0.0).nfe == 1).all()


def test_seed_and_noise_options_matter(sampler):
    base = sampler.sample(50, nfe=4, seed=1, kappa=1.0).tokens
    assert np.array_equal(base, sampler.sample(50, nfe=4, seed=1, kappa=1.0).tokens)
    assert not np.array_equal(base, sampler.sample(50, nfe=4, seed=2, kappa=1.0).tokens)
    assert not np.array_equal(base, sampler.sample(50, nfe=4, seed=1, kappa=1.0, fresh_noise=False).tokens)
    assert not np.array_equal(base, sampler.sample(50, nfe=4, seed=1, kappa=1.0, sigma=2.0).tokens)


def test_a_penalised_round_by_hand():
    """The second round of two: T_j / (1 + n_j)^lambda with the first round's commits, decoded and scored."""
    model = random_map(dropout=0.0).double()
    sampler, options = sampler_of(model), {"nfe": 2, "kappa": 1.0, "seed": 4, "trace": True}
    plain, trace = (sampler.sample(20, repetition_penalty=penalty, **options) for penalty in (0.0, 3.0))
    first = trace.rounds[0]
    assert np.array_equal(first.tokens, plain.rounds[0].tokens), "nothing is committed before the first round"
    given = sampler.given(np.zeros((20, L), dtype=np.int64), None)
    x0 = noise(model, given.keys(4, NOISE, 2)[:, 1], 1.0).dense()
    committed = torch.tensor(first.committed)
    p = model(State(torch.tensor(first.tokens), (~committed).to(x0.dtype), x0)).detach().numpy()
    n_BV = np.array([np.bincount(row[mask], minlength=V) for row, mask in zip(first.tokens, first.committed)])
    p = p / (1 + n_BV[:, None, :]) ** 3.0
    assert np.array_equal(trace.tokens, np.where(first.committed, first.tokens, p.argmax(-1)))
    np.testing.assert_allclose(trace.rounds[1].score, np.where(first.committed, first.score, p.max(-1)), rtol=1e-6)
    assert not np.array_equal(trace.tokens, plain.tokens)


def test_a_committed_token_keeps_its_score(sampler):
    tokens, clean = prompts(20)
    for scorer in ("confidence", "quality", "spread"):
        trace = sampler.sample(tokens=tokens, clean=clean, nfe=4, scorer=scorer, trace=True)
        assert (trace.rounds[0].score[clean] == 1).all()
        for before, after in zip(trace.rounds, trace.rounds[1:]):
            assert (after.score[before.committed] == before.score[before.committed]).all()
            assert (after.score[~after.committed] != before.score[~after.committed]).all()


def test_held_states_know_no_penalty():
    """It counts committed tokens: without commits, it is refused as an option, and off if set in the checkpoint."""
    sampler = sampler_of(random_map(), Options(repetition_penalty=1.0))
    assert sampler.with_options().repetition_penalty == 1.0
    assert sampler.with_options(commit=False).repetition_penalty == 0.0
    assert sampler.with_options(commit=False, repetition_penalty=0.0).repetition_penalty == 0.0
    with pytest.raises(UsageError, match="repetition_penalty counts committed tokens"):
        sampler.with_options(commit=False, repetition_penalty=1.0)


def test_a_share_is_held_whatever_it_scores(sampler):
    """Round r of k holds the best ceil(r F / k) of F free positions, and all others that pass kappa."""
    tokens, clean = prompts(20)
    free = (~clean).sum(-1)
    few, more = (
        sampler.sample(tokens=tokens, clean=clean, nfe=4, kappa=kappa, commit=False, trace=True).rounds
        for kappa in (1.0, 0.3)
    )
    for r, (state, easy) in enumerate(zip(few, more, strict=True), 1):
        held = state.committed & ~clean
        assert held.sum(-1).tolist() == np.ceil(r * free / 4).tolist()
        for b in range(20):
            assert state.score[b][held[b]].min() >= state.score[b][~state.committed[b]].max(initial=0)
        assert (easy.committed.sum(-1) >= np.ceil(r * free / 4) + clean.sum(-1)).all()
        assert easy.committed[easy.score >= 0.3].all()
    assert few[-1].committed.all()


def test_self_conditioning_reads_the_round_before():
    """The second round of two, recomputed directly; without the table the same rounds differ."""
    model = random_map(dropout=0.0, self_condition=True).double()
    sampler = sampler_of(model, Options(nfe=2, kappa=1.0, fresh_noise=False))
    trace = sampler.sample(3, seed=4, trace=True)
    given = sampler.given(np.zeros((3, L), dtype=np.int64), None)
    x0 = noise(model, given.keys(4, NOISE, 1)[:, 0], 1.0).dense()
    first = model(x0)
    committed = torch.tensor(trace.rounds[0].committed)
    tokens = torch.tensor(trace.rounds[0].tokens)
    x = State(tokens, (~committed).to(x0.dtype), x0)
    z, _ = model.logits(model.condition(model.embed(x)[0], first))
    assert torch.equal(torch.where(committed, tokens, z.argmax(-1)), torch.tensor(trace.tokens))
    plain, _ = model.logits(model.embed(x)[0])
    assert not torch.allclose(plain, z)


EVALUATIONS = {  # options, and the recordings of whole evaluations that they need
    "quality": (Options(nfe=4, kappa=0.5, scorer="quality"), 2),  # the last round needs no score
    "confidence": (Options(nfe=4, kappa=0.3), 1),  # all are committed before the last
    "drawn": (Options(nfe=4, kappa=0.3, temperature=0.7, top_p=0.9, repetition_penalty=1.0, sigma=1.2), 2),
    "at the mean": (Options(nfe=4, scorer="spread", mean_from=2), 3),
    "checked": (Options(nfe=2, kappa=0.3, check=6), 2),
    "revised": (Options(nfe=6, kappa=0.3, rule="revise", scorer="quality"), 1),
}


@pytest.mark.parametrize("name", EVALUATIONS)
@pytest.mark.parametrize("budget", [None, 1])  # bytes of logits: with the second, parts of an evaluation are recorded
def test_replayed_rounds_agree_with_plain_ones(name, budget, monkeypatch):
    """The recording is a plain call here: tests that inputs reach it and that batches may have any size."""
    options, recordings = EVALUATIONS[name]
    if budget is not None:
        monkeypatch.setattr("dbtm.methods.dbtm.evaluator.BUDGET", budget)
    model = random_map(dropout=0.0).double()
    tokens, clean = prompts(23)
    sampler, plain = sampler_of(model, options), Evaluator.plain(model)
    given = sampler.given(tokens, clean)
    replayed = plain.replayed(lambda run, _: run)
    with torch.no_grad():
        want, got = (sampler.method.sample(network, given, options, 0, Watch(23)) for network in (plain, replayed))
    assert np.array_equal(got.tokens, want.tokens)
    assert np.array_equal(got.nfe, want.nfe)
    assert (got.stable is None) if want.stable is None else np.array_equal(got.stable, want.stable)
    assert len(replayed.recorded) == (recordings if budget is None else 0)
