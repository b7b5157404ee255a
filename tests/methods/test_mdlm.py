"""Masked diffusion on the reference problem: the loss at the exact denoiser, the k-step law, the bound, the options."""

import numpy as np
import pytest
import torch

from dbtm.core import rng
from dbtm.methods.base import Examples
from dbtm.methods.mdlm import MDLM
from tests.methods.reference import (
    ALL,
    FIRST,
    H1,
    H2,
    INDEPENDENT,
    SECOND,
    H,
    L,
    P,
    Table,
    V,
    chi_square,
    examples,
    run_of,
    sampled,
)

N = 40_000
MASK = V
PATTERNS = torch.tensor([[False, False], [True, False], [False, True], [True, True]])


def exact() -> Table:
    """D_l = P(x_l | what is not masked)."""

    def log_p(ids):
        one, two = ids
        first = FIRST if two == MASK else P[:, two] / SECOND[two]
        second = SECOND if one == MASK else P[one] / FIRST[one]
        return torch.stack((first, second)).log()

    return Table(V + 1, log_p)


def expected_loss(method, t: float):
    """The objective's mean at time t under the law and the masks, per sequence."""
    share = (1 - method.settings.eps) * t
    method.times = lambda batch: torch.full((len(batch.tokens),), t, dtype=torch.float64)
    total = 0.0
    for sequence, p in zip(ALL, P.flatten(), strict=True):
        for pattern in PATTERNS:
            method.masked = lambda batch, t_B, pattern=pattern: pattern[None]
            q = np.prod([share if masked else 1 - share for masked in pattern.tolist()])
            (part,) = method.parts(examples(sequence[None]))
            total = total + p * q * 2 * part.loss
    return total


@pytest.mark.parametrize("t", [0.05, 0.4, 1.0])
def test_the_loss_at_the_exact_denoiser_and_its_gradient(t):
    method = run_of(MDLM)
    method.network = exact()
    eps, m = 1e-3, (1 - 1e-3) * t
    loss = expected_loss(method, t)
    want = (1 - eps) * (m * (H1 + H2) + (1 - m) * (2 * H - H1 - H2))
    assert loss.item() == pytest.approx(want, abs=1e-10)
    loss.backward()
    assert method.network.logits_of.grad.abs().max() < 1e-10


def test_the_mean_over_time_is_the_entropy():
    method = run_of(MDLM)
    method.network = exact()
    nodes, weights = np.polynomial.legendre.leggauss(4)  # times are drawn from [eps, 1]
    times = 1e-3 + (1 - 1e-3) * (nodes + 1) / 2
    mean = sum(w / 2 * float(expected_loss(method, t).detach()) for t, w in zip(times, weights))
    assert mean == pytest.approx((1 - 1e-3) * H, abs=1e-5)
    assert pytest.approx(1.833137, abs=1e-6) == (1 - 1e-3) * H


@pytest.mark.parametrize("k", [1, 2, 4, 16])
def test_the_k_step_law(k):
    trace = sampled(run_of(MDLM), exact(), N, nfe=k)
    law = (1 - 1 / k) * P + INDEPENDENT / k
    assert chi_square(trace.tokens, law) > 1e-4
    assert trace.nfe.max() == k
    assert len(trace.rounds) == k
    assert (trace.tokens < V).all()
    if k == 4:
        assert chi_square(trace.tokens, P) < 1e-4  # the test would notice


def test_a_sample_that_is_complete_costs_nothing_more():
    trace = sampled(run_of(MDLM), exact(), 200, nfe=16)
    unmasked_by = np.array([[r.committed[b].all() for r in trace.rounds] for b in range(200)]).argmax(1) + 1
    assert (trace.nfe == unmasked_by).all()
    assert trace.nfe.min() < 16


def test_order_by_confidence_unmasks_as_many_in_every_step():
    method = run_of(MDLM)
    trace = sampled(method, exact(), N, nfe=2, order="confidence")
    assert all((r.committed.sum(1) == i + 1).all() for i, r in enumerate(trace.rounds))
    # each step unmasks the position whose drawn token is the likelier: the law by enumeration
    law = torch.zeros(V, V, dtype=torch.float64)
    for a in range(V):
        for b in range(V):
            joint = FIRST[a] * SECOND[b]
            if FIRST[a] >= SECOND[b]:  # ties go to the earlier position
                law[a] += joint * P[a] / FIRST[a]
            else:
                law[:, b] += joint * P[:, b] / SECOND[b]
    assert chi_square(trace.tokens, law) > 1e-4


def test_given_tokens_stay_wherever_they_stand():
    clean = torch.zeros(N, 2, dtype=torch.bool)
    clean[:, 1] = True
    trace = sampled(run_of(MDLM), exact(), N, tokens=torch.full((N, 2), 1), clean=clean, nfe=3)
    assert (trace.tokens[:, 1] == 1).all()
    frequencies = np.bincount(trace.tokens[:, 0], minlength=V) / N
    np.testing.assert_allclose(frequencies, P[:, 1] / SECOND[1], atol=0.01)
    everything = sampled(
        run_of(MDLM), exact(), 3, tokens=torch.full((3, 2), 1), clean=torch.ones(3, 2, dtype=torch.bool), nfe=3
    )
    assert (everything.nfe == 0).all()


def test_the_bound_is_the_mean_over_orders():
    """For two tokens the bound of a sequence is the mean of both orders' log-probabilities."""
    method, network = run_of(MDLM), exact()
    repeats = 4_000
    batch = examples(ALL.repeat(repeats, 1))
    bound = method.nll(network, batch)
    assert not bound.exact
    agrees(bound.nll_B.view(repeats, 9), -P.flatten().log())  # an exact denoiser: both orders give log P
    with torch.no_grad():
        network.logits_of += 0.7 * torch.randn(network.logits_of.shape, generator=torch.Generator().manual_seed(1))
    log_p = network.logits_of.detach().log_softmax(-1).view(V + 1, V + 1, L, V)
    want = torch.stack(
        [
            -(log_p[MASK, MASK, 0, a] + log_p[a, MASK, 1, b] + log_p[MASK, MASK, 1, b] + log_p[MASK, b, 0, a]) / 2
            for a, b in ALL.tolist()
        ]
    )
    agrees(method.nll(network, batch).nll_B.view(repeats, 9), want)


def agrees(got, want):
    """Means over the first axis, within five standard errors."""
    error = got.std(0) / len(got) ** 0.5
    assert ((got.mean(0) - want).abs() < 5 * error).all()
    assert error.max() < 0.1


def test_times_are_stratified_over_the_whole_batch_wherever_its_rows_run():
    method = run_of(MDLM)
    tokens, key = ALL, rng.fold(3, torch.arange(9))
    whole = method.times(Examples(tokens, tokens > 9, key, 0, place=torch.arange(9)))
    part = method.times(Examples(tokens[4:], tokens[4:] > 9, key[4:], 0, place=torch.arange(4, 9)))
    torch.testing.assert_close(whole[4:], part)
    strata = ((whole - 1e-3) / (1 - 1e-3) * 9).long()
    assert strata.tolist() == list(range(9))


def test_masks_have_their_share_and_spare_the_prompt():
    method, n = run_of(MDLM), 20_000
    prompt = torch.tensor([[True, False]]).expand(n, 2)
    masked = method.masked(examples(torch.zeros(n, 2, dtype=torch.int64), prompt), torch.full((n,), 0.3))
    assert not masked[:, 0].any()
    assert masked[:, 1].double().mean().item() == pytest.approx(0.3 * (1 - 1e-3), abs=0.015)


def test_the_weight_is_that_of_the_bound_or_one():
    t = torch.tensor([0.25, 0.5])
    assert run_of(MDLM).weight(t).tolist() == [4.0, 2.0]
    assert run_of(MDLM, weight="one").weight(t).tolist() == [1.0, 1.0]
