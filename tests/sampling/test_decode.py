"""Draws from categoricals: float64 where float32 Gumbel noise would act as a lower temperature."""

import numpy as np
import pytest
import torch

from dbtm.core import rng
from dbtm.sampling.decode import count_committed, draw_categorical, nucleus, propose

DRAWS = 1_000_000


@pytest.fixture(scope="module")
def long_tail():
    """50,257 tokens, 10,000 of which have a total probability of .01; and a million draws."""
    p = torch.full((50_257,), 0.99 / 40_257, dtype=torch.float64)
    p[:10_000] = 0.01 / 10_000
    uniform = rng.uniform(rng.fold(5, torch.arange(1)), DRAWS)[0]
    return p, draw_categorical(p.log(), uniform)


def test_rare_tokens_come_as_often_as_they_should(long_tail):
    _, drawn = long_tail
    rate, error = (drawn < 10_000).double().mean().item(), (0.01 * 0.99 / DRAWS) ** 0.5
    assert rate == pytest.approx(0.01, abs=4 * error)


def test_the_entropy_of_samples_is_that_of_an_independent_generator(long_tail):
    p, drawn = long_tail

    def entropies(rows):
        counts = (np.unique(row, return_counts=True)[1] / len(row) for row in rows)
        return np.array([-(share * np.log(share)).sum() for share in counts])

    ours = entropies(drawn[: 900 * 1024].view(900, 1024).numpy())
    theirs = entropies(np.random.default_rng(0).choice(len(p), (300, 1024), p=p.numpy() / p.sum().item()))
    error = (ours.var() / len(ours) + theirs.var() / len(theirs)) ** 0.5
    assert abs(ours.mean() - theirs.mean()) < 4 * error


def test_temperature_tempers_and_zero_takes_the_largest():
    logits = torch.tensor([0.1, 2.0, -1.0, 0.5])
    uniform = rng.uniform(rng.fold(6, torch.arange(1)), 200_000)[0]
    drawn = draw_categorical(logits, uniform, temperature=0.5)
    want = (logits.double() / 0.5).softmax(-1)
    np.testing.assert_allclose(np.bincount(drawn.numpy(), minlength=4) / len(drawn), want, atol=0.005)
    assert draw_categorical(logits.expand(3, 4), torch.rand(3), temperature=0.0).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("top_p", "kept"), [(0.39, 1), (0.4, 1), (0.41, 2), (0.75, 2), (0.76, 3), (1.0, 4)])
def test_a_nucleus_is_the_fewest_tokens_that_reach_its_mass(top_p, kept):
    p = torch.tensor([0.35, 0.05, 0.40, 0.20], dtype=torch.float64)
    got = nucleus(p, top_p)
    order = [2, 0, 3, 1]
    assert (got > 0).nonzero().squeeze(-1).tolist() == sorted(order[:kept])
    drawn = draw_categorical(p.log(), rng.uniform(rng.fold(7, torch.arange(1)), 50_000)[0], top_p=top_p)
    assert set(drawn.tolist()) == set(order[:kept])


def test_temperature_sampling_is_unbiased():
    torch.manual_seed(0)
    logits = torch.randn(1, 1, 7).expand(1, 200_000, 7)
    uniform = torch.rand(1, 200_000, dtype=torch.float64)
    tokens, probability = propose(logits, 0.8, uniform)
    frequency = torch.bincount(tokens[0], minlength=7) / 200_000
    want = (logits[0, 0].double() / 0.8).softmax(-1)
    assert (frequency - want).abs().max() < 5 * (0.25 / 200_000) ** 0.5
    torch.testing.assert_close(probability[0], logits[0, 0].softmax(-1)[tokens[0]])


def test_repetition_penalty_is_the_papers():
    torch.manual_seed(1)
    logits, tokens = torch.randn(2, 50, 7), torch.randint(0, 7, (2, 50))
    committed = torch.rand(2, 50) < 0.5
    counts = count_committed(tokens, committed, 7)
    for b in range(2):
        for j in range(7):
            assert counts[b, j] == sum(1 for l in range(50) if committed[b, l] and tokens[b, l] == j)
    cost = (1 + counts[:, None, :]) ** 0.7
    p = logits.softmax(-1) / cost
    got, score = propose(logits, 0.0, None, 0.7, counts)
    assert torch.equal(got, p.argmax(-1))
    torch.testing.assert_close(score, p.amax(-1))
    uniform = torch.rand(2, 50, dtype=torch.float64)
    sums = ((logits.double() / 0.3).softmax(-1) / cost).cumsum(-1)
    got, score = propose(logits, 0.3, uniform, 0.7, counts)
    assert torch.equal(got, (sums <= uniform[..., None] * sums[..., -1:]).sum(-1))
    torch.testing.assert_close(score, p.gather(-1, got[..., None]).squeeze(-1))
