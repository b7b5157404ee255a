"""Likelihoods and bounds against brute force over all sequences and all masks."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from dbtm.core.errors import UsageError
from dbtm.evals.likelihood import check_method, likelihoods, measure_likelihood
from dbtm.sampling import Cancelled
from dbtm.tasks.base import Batch
from tests.evals.tiny import chain, mini_sudoku, random_sampler

EVERY = np.array(list(product(range(3), repeat=3)))


def log_p_of_ar(sampler, tokens, given=0):
    """log p of one sequence, a network pass for every token, without a shifted batch and without a cache."""
    network, start, total = sampler.network, sampler.network.shape.vocab, 0.0
    for l in range(given, len(tokens)):
        ids = torch.tensor([[start, *tokens[:l]]])
        with torch.no_grad():
            logits, _ = network.logits(network.embed_tokens(ids))
        total += logits[0, -1].double().log_softmax(-1)[tokens[l]].item()
    return total


def test_ar_is_exact():
    """The chain rule by hand; and the probabilities of all sequences sum to one."""
    sampler = random_sampler(chain("ar", length=3), batch=10)
    found = likelihoods(sampler, Batch(EVERY))
    assert found.exact
    assert found.tokens_B.tolist() == [3] * 27
    by_hand = [-log_p_of_ar(sampler, tokens.tolist()) for tokens in EVERY]
    np.testing.assert_allclose(found.nll_B, by_hand, rtol=1e-5)
    assert torch.exp(-found.nll_B).sum().item() == pytest.approx(1, abs=1e-5)


def test_given_tokens_do_not_count():
    sampler = random_sampler(chain("ar", length=3), batch=10)
    prompt = np.zeros(EVERY.shape, dtype=bool)
    prompt[:, 0] = True
    found = likelihoods(sampler, Batch(EVERY, prompt))
    assert found.tokens_B.tolist() == [2] * 27
    by_hand = [-log_p_of_ar(sampler, tokens.tolist(), given=1) for tokens in EVERY]
    np.testing.assert_allclose(found.nll_B, by_hand, rtol=1e-5)
    assert torch.exp(-found.nll_B).sum().item() == pytest.approx(3, abs=1e-5), "one for every first token"


def bound_of_mdlm(sampler, tokens, given=()):
    """The bound in closed form: the mean over t of (1/t) E[sum of -log p of the masked tokens]. A set S of m of n free
    positions is masked with probability t^m (1 - t)^(n - m), and the integral of t^(m - 1) (1 - t)^(n - m) is
    B(m, n - m + 1) = (m - 1)! (n - m)! / n!.
    """
    network, mask = sampler.network, sampler.network.shape.vocab
    free = [l for l in range(len(tokens)) if l not in given]
    n, total = len(free), 0.0
    for chosen in product((False, True), repeat=n):
        masked = [l for l, hidden in zip(free, chosen) if hidden]
        if not masked:
            continue
        ids = torch.tensor([[mask if l in masked else token for l, token in enumerate(tokens)]])
        with torch.no_grad():
            log_p = network.logits(network.embed_tokens(ids))[0][0].double().log_softmax(-1)
        weight = math.factorial(len(masked) - 1) * math.factorial(n - len(masked)) / math.factorial(n)
        total -= weight * sum(log_p[l, tokens[l]].item() for l in masked)
    return total


@pytest.mark.parametrize(("length", "given"), [(2, ()), (3, ()), (3, (1,))])
def test_the_bound_of_mdlm_is_that_of_all_masks(length, given):
    """Its mean over many draws of times and masks, within four standard errors."""
    sampler = random_sampler(chain("mdlm", length=length), batch=5000)
    tokens = [2, 0, 1][:length]
    n = 4000
    prompt = np.broadcast_to(np.isin(np.arange(length), given), (n, length))
    found = likelihoods(sampler, Batch(np.broadcast_to(tokens, (n, length)), prompt), seed=3)
    assert not found.exact
    assert found.tokens_B.tolist() == [length - len(given)] * n
    values = found.nll_B.numpy()
    error = values.std() / math.sqrt(n)
    assert error < 0.02 * values.mean(), "the test can tell"
    assert values.mean() == pytest.approx(bound_of_mdlm(sampler, tokens, given), abs=4 * error)


def test_the_bound_is_above_the_likelihood_of_every_order():
    """By Jensen: mean over orders of -log p(order) is at least -log of the mean."""
    sampler = random_sampler(chain("mdlm", length=2))
    for tokens in ([0, 1], [2, 2]):
        network = sampler.network
        orders = []
        for first, second in ((0, 1), (1, 0)):
            ids, total = [3, 3], 0.0
            for place in (first, second):
                with torch.no_grad():
                    log_p = network.logits(network.embed_tokens(torch.tensor([ids])))[0][0].double().log_softmax(-1)
                total += log_p[place, tokens[place]].item()
                ids[place] = tokens[place]
            orders.append(total)
        assert bound_of_mdlm(sampler, tokens) == pytest.approx(-np.mean(orders))
        assert bound_of_mdlm(sampler, tokens) >= -math.log(np.mean(np.exp(orders)))


@pytest.mark.parametrize("method", ["ar", "mdlm"])
def test_the_score_is_a_ratio_of_sums_with_its_interval_whatever_the_batch(method):
    config = chain(method, length=3)
    prompt = np.zeros(EVERY.shape, dtype=bool)
    prompt[::2, 0] = True
    heard = []
    scores = [
        measure_likelihood(random_sampler(config, batch=batch), Batch(EVERY, prompt), 5, heard.append)
        for batch in (4, 27)
    ]
    assert heard == [4, 8, 12, 16, 20, 24, 27, 27]
    each = likelihoods(random_sampler(config, batch=27), Batch(EVERY, prompt), 5)
    nll, tokens = each.nll_B.numpy(), each.tokens_B.numpy()
    for score in scores:
        assert (score.n, score.tokens) == (27, 14 * 2 + 13 * 3)
        assert score.nats_per_token.value == pytest.approx(nll.sum() / tokens.sum(), rel=1e-5)
        assert score.perplexity.value == pytest.approx(math.exp(nll.sum() / tokens.sum()), rel=1e-5)
        assert score.bits_per_token.value == pytest.approx(score.nats_per_token.value / math.log(2))
        assert score.kind == ("exact" if method == "ar" else "upper bound")
    draws = np.random.default_rng(0).integers(0, 27, (20_000, 27))
    resampled = nll[draws].sum(1) / tokens[draws].sum(1)
    low, high = scores[0].nats_per_token[1:]
    assert high - low == pytest.approx(2 * 1.96 * resampled.std(), rel=0.1)
    document = scores[0].document()
    assert document["nats_per_token_low"] == low
    assert document["kind"] == scores[0].kind


def test_other_methods_are_refused_and_work_can_be_cancelled():
    own = random_sampler(chain("dbtm", length=3))
    for refused in (lambda: check_method(own.method), lambda: likelihoods(own, Batch(EVERY))):
        with pytest.raises(UsageError, match="'dbtm' has no likelihood"):
            refused()
    ar = random_sampler(chain("ar", length=3))
    check_method(ar.method)
    with pytest.raises(Cancelled):
        likelihoods(ar, Batch(EVERY), cancelled=lambda: True)
    with pytest.raises(UsageError, match="no examples"):
        likelihoods(ar, Batch(EVERY[:0]))


def test_only_the_solution_of_a_sudoku_counts():
    sampler = random_sampler(mini_sudoku("ar"), batch=8)
    examples = sampler.task.held_out_examples(5)
    found = likelihoods(sampler, examples)
    assert found.tokens_B.tolist() == (~examples.prompt).sum(-1).tolist()
    assert 0 < found.tokens_B[0] < sampler.task.length
