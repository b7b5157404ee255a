"""Observing a sampler: evaluations are counted when they happen, rounds are shown unchanged, and cancelling."""

import numpy as np
import pytest
import torch

from dbtm.recipes import recipe
from dbtm.sampling import Cancelled, Given, Round, Trace, Watch
from tests.conftest import random_map, sampler_of
from tests.sampling.given import L, prompts


def nothing(n):
    return Given(torch.zeros(n, L, dtype=torch.int64), torch.zeros(n, L, dtype=torch.bool), torch.arange(n))


# -- network evaluations -----------------------------------------------------------------------------------------------


def test_every_call_of_the_network_counts_for_the_samples_in_it():
    watch = Watch(4)
    network = watch.counted(lambda x, factor=1: factor * x)
    assert network(torch.tensor(3), factor=2) == 6
    network(1, rows=torch.tensor([0, 2]))
    network(1, rows=torch.tensor([2]))
    network(1, rows=torch.tensor([], dtype=torch.int64))
    assert watch.nfe_B.tolist() == [2, 1, 3, 1]


def test_a_call_that_fails_has_been_made():
    """An evaluation that runs out of memory still counts."""
    watch = Watch(2)
    with pytest.raises(ZeroDivisionError):
        watch.counted(lambda: 1 / 0)()
    assert watch.nfe_B.tolist() == [1, 1]


class Twice:
    """A sampler that evaluates its network twice per round, and three times for odd samples."""

    name = "twice"

    def sample(self, network, given, options, seed, watch):
        read = watch.counted(network)
        for r in range(2):
            read()
            read()
            read(rows=given.index % 2 == 1)
            if watch.tracing:
                watch.round(given.tokens + r)
        return watch.trace(given.tokens, given.clean)


def test_evaluations_are_not_rounds():
    calls = []
    watch = Watch(5, trace=True)
    trace = Twice().sample(lambda: calls.append(1), nothing(5), None, 0, watch)
    assert trace.nfe.tolist() == [4, 6, 4, 6, 4]
    assert len(trace.rounds) == 2
    assert len(calls) == 6


@pytest.mark.parametrize(
    "options", [{"nfe": 5, "kappa": 0.5}, {"nfe": 3, "sampler": "iterate"}, {"nfe": 2, "commit": False}]
)
def test_what_a_sampler_reports_is_what_its_network_did(options):
    """Against the number of rows counted in the trunk."""
    model = random_map(dropout=0.0)
    sampler, rows = sampler_of(model, batch=7), []
    model.trunk.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
    tokens, clean = prompts(20)
    trace = sampler.sample(tokens=tokens, clean=clean, **options)
    assert trace.nfe.sum() == sum(rows)


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_rounds_are_kept_shown_or_neither():
    tokens, committed, score = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, 3)
    for trace, shown in [(True, True), (True, False), (False, True), (False, False)]:
        seen = []
        watch = Watch(2, trace=trace, on_round=seen.append if shown else None)
        assert watch.tracing == (trace or shown)
        if watch.tracing:
            watch.round(tokens, committed, score, time=0.5)
            watch.round(tokens)
        result = watch.trace(tokens, committed)
        assert len(result.rounds) == 2 * trace
        assert len(seen) == 2 * shown
        for first, second in [x for x in (result.rounds, seen) if x]:
            assert (first.time, first.committed.any(), first.score.max()) == (0.5, False, 0)
            assert (second.time, second.committed, second.score) == (None, None, None)


def test_a_round_is_the_state_of_that_moment():
    """Samplers later change their tensors in place, so rounds hold copies."""
    tokens = torch.zeros(1, 3, dtype=torch.int64)
    watch = Watch(1, trace=True)
    watch.round(tokens)
    tokens += 1
    watch.round(tokens)
    assert [state.tokens.max() for state in watch.rounds] == [0, 1]


def test_whoever_listens_sees_every_round_of_every_batch():
    sampler = sampler_of(random_map(dropout=0.0), batch=4)
    seen: list[Round] = []
    plain = sampler.sample(10, nfe=3, kappa=1.0)
    heard = sampler.sample(10, nfe=3, kappa=1.0, on_round=seen.append)
    assert [len(state.tokens) for state in seen] == [4, 4, 4, 4, 4, 4, 2, 2, 2]
    assert not heard.rounds, "shown, but not kept"
    assert np.array_equal(heard.tokens, plain.tokens)
    assert np.array_equal(np.concatenate([seen[i].tokens for i in (2, 5, 8)]), heard.tokens)
    kept = sampler.sample(10, nfe=3, kappa=1.0, trace=True)
    for r, state in enumerate(kept.rounds):
        assert np.array_equal(state.tokens, np.concatenate([seen[i + r].tokens for i in (0, 3, 6)]))


def test_progress_is_told_after_every_batch():
    told = []
    sampler_of(random_map(), batch=4).sample(10, nfe=1, progress=told.append)
    assert told == [4, 8, 10]


# -- cancelling --------------------------------------------------------------------------------------------------------


def test_cancelling_comes_before_an_evaluation():
    calls, stop = [], [False]
    watch = Watch(2, cancelled=lambda: stop[0])
    network = watch.counted(lambda: calls.append(1))
    network()
    stop[0] = True
    with pytest.raises(Cancelled):
        network()
    assert len(calls) == 1
    assert watch.nfe_B.tolist() == [1, 1]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("after", [0, 1, 4])
def test_a_cancelled_sampler_is_as_good_as_before(after, training):
    """The network's mode is restored, and the same request gives the same samples."""
    model = random_map(dropout=0.5).train(training)
    sampler, asked = sampler_of(model, batch=4), []
    want = sampler.sample(10, nfe=3, seed=2, kappa=1.0).tokens

    def cancelled():
        asked.append(1)
        return len(asked) > after

    with pytest.raises(Cancelled):
        sampler.sample(10, nfe=3, seed=2, kappa=1.0, cancelled=cancelled)
    assert len(asked) == after + 1, "called before every evaluation, and not after cancelling"
    assert model.training == training
    assert np.array_equal(sampler.sample(10, nfe=3, seed=2, kappa=1.0).tokens, want)


@pytest.mark.parametrize("method", ["dbtm", "ar", "mdlm"])
def test_every_method_is_watched_in_the_same_way(method):
    from dbtm.config import override
    from dbtm.methods.base import method_of

    small = ["model.width=16", "model.depth=1", "model.heads=2"]
    made = method_of(override(recipe("markov").by(method), small)).start()
    sampler, calls, seen = made.sampler(made.network, batch=3), [], []
    made.network.trunk.register_forward_pre_hook(lambda _, inputs: calls.append(len(inputs[0])))
    trace = sampler.sample(5, trace=True, on_round=seen.append)
    assert trace.nfe.sum() == sum(calls)
    assert len(seen) == 2 * len(trace.rounds), "two batches"
    assert np.array_equal(trace.rounds[-1].tokens, trace.tokens)
    assert trace.rounds[-1].committed.all()
    with pytest.raises(Cancelled):
        sampler.sample(5, cancelled=lambda: True)
    assert made.network.training


# -- several batches as one --------------------------------------------------------------------------------------------


def batch_of(n, rounds, committed=True, score=True, nfe=1):
    """A trace of n samples whose tokens are the round's number."""
    states = [
        Round(
            np.full((n, 2), r),
            np.full((n, 2), r > 0) if committed else None,
            np.full((n, 2), r / 10, dtype=np.float32) if score else None,
            time=r / rounds,
        )
        for r in range(rounds)
    ]
    return Trace(np.full((n, 2), max(rounds - 1, 7)), np.full(n, nfe), np.zeros((n, 2), dtype=bool), states)


def test_a_batch_that_is_done_repeats_its_last_round():
    joined = Trace.concatenate([batch_of(2, 1, nfe=1), batch_of(3, 3, nfe=3)])
    assert joined.nfe.tolist() == [1, 1, 3, 3, 3]
    assert joined.tokens.shape == joined.prompt.shape == (5, 2)
    assert [state.tokens[:, 0].tolist() for state in joined.rounds] == [[0] * 5, [0, 0, 1, 1, 1], [0, 0, 2, 2, 2]]
    assert [state.time for state in joined.rounds] == [0.0, 1 / 3, 2 / 3], "the clock of the unfinished batch"
    assert joined.rounds[2].score[:, 0].tolist() == pytest.approx([0, 0, 0.2, 0.2, 0.2])


@pytest.mark.parametrize(("committed", "score"), [(True, False), (False, True), (False, False), (True, True)])
def test_what_a_method_has_no_notion_of_stays_missing(committed, score):
    joined = Trace.concatenate([batch_of(1, 2, committed, score), batch_of(2, 2, committed, score)])
    for state in joined.rounds:
        assert (state.committed is not None) == committed
        assert (state.score is not None) == score
        assert len(state.tokens) == 3


def test_one_batch_without_it_is_enough():
    joined = Trace.concatenate([batch_of(1, 2), batch_of(1, 2, committed=False)])
    assert all(state.committed is None and state.score is not None for state in joined.rounds)


def test_a_batch_that_had_nothing_to_do_shows_what_it_was_given():
    joined = Trace.concatenate([batch_of(1, 0), batch_of(1, 2)])
    assert [state.tokens[:, 0].tolist() for state in joined.rounds] == [[7, 0], [7, 1]]
    assert [state.committed[0].all() for state in joined.rounds] == [True, True]
    assert joined.rounds[0].score[0].tolist() == [1, 1]
    assert not Trace.concatenate([batch_of(1, 0), batch_of(2, 0)]).rounds


def test_a_row_that_is_all_given_beside_one_that_is_not():
    """The first is in a separate batch, by a method that evaluates nothing for it."""
    from dbtm.methods.base import method_of

    made = method_of(recipe("markov").by("mdlm")).start()
    sampler, clean = made.sampler(made.network, batch=1), np.array([[True] * 8, [False] * 8])
    trace = sampler.sample(tokens=np.full((2, 8), 3), clean=clean, nfe=2, trace=True)
    assert trace.nfe.tolist() == [0, 2]
    assert (trace.tokens[0] == 3).all()
    assert len(trace.rounds) == 2
    assert all((state.tokens[0] == 3).all() for state in trace.rounds)
