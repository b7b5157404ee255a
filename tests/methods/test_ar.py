"""Autoregression on the reference problem: the loss's minimum, the sampler's distribution, likelihoods, prompts."""

import numpy as np
import pytest
import torch

from dbtm.core.errors import UsageError
from dbtm.methods.ar import AR
from dbtm.sampling import Given
from tests.methods.reference import ALL, FIRST, H, P, Table, V, chi_square, examples, run_of, sampled

N = 40_000
START = V


def exact() -> Table:
    """log p(x1) after the start, log p(x2 | x1) after the first token."""

    def log_p(ids):
        second = P[ids[1]] / FIRST[ids[1]] if ids[1] < V else torch.full((V,), 1 / V, dtype=torch.float64)
        return torch.stack((FIRST, second)).log()

    return Table(V + 1, log_p, causal=True)


def expected_loss(method, weight=P):
    """The objective's mean under the distribution, per sequence: `parts` is a mean over tokens."""
    total = 0.0
    for sequence, p in zip(ALL, weight.flatten(), strict=True):
        (part,) = method.parts(examples(sequence[None]))
        total = total + p * 2 * part.loss
    return total


def test_the_minimum_is_the_entropy_and_the_gradient_there_is_zero():
    method = run_of(AR)
    method.network = exact()
    loss = expected_loss(method)
    assert loss.item() == pytest.approx(H, abs=1e-10)
    loss.backward()
    assert method.network.logits_of.grad.abs().max() < 1e-10


def test_another_network_is_worse():
    method = run_of(AR)
    method.network = exact()
    with torch.no_grad():
        method.network.logits_of += 0.1 * torch.randn_like(method.network.logits_of)
    assert expected_loss(method).item() > H + 1e-4


def test_likelihoods_are_exact():
    method = run_of(AR)
    found = method.nll(exact(), examples(ALL))
    assert found.exact
    torch.testing.assert_close(found.nll_B, -P.flatten().log())
    assert found.tokens_B.tolist() == [2] * 9
    prompt = torch.tensor([[True, False]]).expand(9, 2)
    conditional = method.nll(exact(), examples(ALL, prompt))
    torch.testing.assert_close(conditional.nll_B, -(P / FIRST[:, None]).flatten().log())
    assert conditional.tokens_B.tolist() == [1] * 9


def test_the_sampler_has_the_law():
    trace = sampled(run_of(AR), exact(), N)
    assert chi_square(trace.tokens, P) > 1e-4
    assert (trace.nfe == 2).all()
    assert len(trace.rounds) == 2
    assert trace.rounds[0].committed[0].tolist() == [True, False]


def test_a_prompt_is_kept_and_costs_no_evaluation_of_its_own():
    clean = torch.zeros(N, 2, dtype=torch.bool)
    clean[: N // 2, 0] = True  # half of the rows begin with token 2, the others with nothing
    tokens = torch.full((N, 2), 2)
    trace = sampled(run_of(AR), exact(), N, tokens=tokens, clean=clean)
    begun, free = trace.tokens[: N // 2], trace.tokens[N // 2 :]
    assert (begun[:, 0] == 2).all()
    frequencies = np.bincount(begun[:, 1], minlength=V) / len(begun)
    np.testing.assert_allclose(frequencies, P[2] / FIRST[2], atol=0.015)
    assert chi_square(free, P) > 1e-4
    assert (trace.nfe[: N // 2] == 1).all()
    assert (trace.nfe[N // 2 :] == 2).all()


def test_greedy_takes_the_most_likely_token_and_top_p_the_head_of_the_law():
    trace = sampled(run_of(AR), exact(), 8, temperature=0.0)
    assert (trace.tokens == [0, 0]).all()  # argmax p1 = 0, argmax p(. | 0) = 0
    trace = sampled(run_of(AR), exact(), 2_000, top_p=0.7)  # p1 = .40, .35 of tokens 0 and 2 reach .7
    assert set(trace.tokens[:, 0]) == {0, 2}


def test_samples_do_not_depend_on_the_batch():
    together, alone = sampled(run_of(AR), exact(), 50), run_of(AR)
    from dbtm.sampling import Watch

    index = torch.tensor([17])
    given = Given(torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 2, dtype=torch.bool), index)
    with torch.no_grad():
        one = alone.sample(exact(), given, alone.Options(), 0, Watch(1))
    assert (one.tokens[0] == together.tokens[17]).all()


def test_holes_and_suffixes_are_refused():
    given = Given(torch.zeros(1, 3, dtype=torch.int64), torch.tensor([[True, False, True]]), torch.arange(1))
    with pytest.raises(UsageError, match="cannot fill a hole"):
        run_of(AR).check_given(given)


def test_what_is_given_is_not_learned():
    method = run_of(AR)
    method.network = exact()
    (part,) = method.parts(examples(ALL[:1], torch.tensor([[True, False]])))
    assert float(part.loss.detach()) == pytest.approx(float(-(P[0, 0] / FIRST[0]).log()), abs=1e-10)
