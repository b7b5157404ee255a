"""Masked diffusion on the reference problem: loss at the exact denoiser, k-step sampler, bound, options."""

import numpy as np
import pytest
import torch

from dbtm.core import rng
from dbtm.core.errors import UsageError
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
    """D_l = P(x_l | unmasked tokens)."""

    def log_p(ids):
        one, two = ids
        first = FIRST if two == MASK else P[:, two] / SECOND[two]
        second = SECOND if one == MASK else P[one] / FIRST[one]
        return torch.stack((first, second)).log()

    return Table(V + 1, log_p)


def expected_loss(method, t: float):
    """The objective's mean at time t over data and masks, per sequence."""
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


def test_order_by_what_is_drawn_unmasks_as_many_in_every_step():
    method = run_of(MDLM)
    trace = sampled(method, exact(), N, nfe=2, order="drawn")
    assert all((r.committed.sum(1) == i + 1).all() for i, r in enumerate(trace.rounds))
    # each step unmasks the position whose drawn token is likelier: the distribution by enumeration
    law = torch.zeros(V, V, dtype=torch.float64)
    for a in range(V):
        for b in range(V):
            joint = FIRST[a] * SECOND[b]
            if FIRST[a] >= SECOND[b]:  # ties go to the earlier position
                law[a] += joint * P[a] / FIRST[a]
            else:
                law[:, b] += joint * P[:, b] / SECOND[b]
    assert chi_square(trace.tokens, law) > 1e-4


def test_order_by_confidence_is_that_of_the_surest_position_whatever_is_drawn_there():
    """max p1 = .40 > max p2 = .38: the first token always comes first, which draws the second from its conditional."""
    trace = sampled(run_of(MDLM), exact(), N, nfe=2, order="confidence")
    assert (trace.rounds[0].committed == [True, False]).all()
    assert chi_square(trace.tokens, P) > 1e-4


def remasked_law(k, variant, eta, loop=(0.55, 0.05, 0.9)):
    """The distribution after k steps by enumeration of states: (id, probability when unmasked) of both positions."""
    (start, end, level), eta = loop, eta or 0.0

    def alpha(t):
        if variant != "loop":
            return 1 - t
        return (1 - t) / (1 - start) * level if t > start else level if t >= end else 1 - t / end * (1 - level)

    def denoised(ids):
        one, two = ids
        first = FIRST if two == MASK else P[:, two] / SECOND[two]
        return (first, SECOND if one == MASK else P[one] / FIRST[one])

    states = {((MASK, 1.0), (MASK, 1.0)): 1.0}
    for r in range(k):
        t, s = 1 - r / k, 1 - (r + 1) / k
        a_t, a_s = alpha(t), alpha(s)
        most = 1.0 if a_t == 0 else min(1, (1 - a_s) / a_t)
        looping = end <= s and t <= start
        flat = {"cap": min(eta, most), "rescale": eta * most, "loop": min(eta, most) if looping else 0.0}
        after = {}
        for state, p in states.items():
            ids = tuple(id_ for id_, _ in state)
            law = denoised(ids)
            weights = [0.0 if id_ == MASK else np.exp(-score) for id_, score in state]
            moves = []
            for l, (id_, score) in enumerate(state):
                sigma = flat.get(variant, most * weights[l] / max(sum(weights), 1e-300))
                if id_ == MASK:
                    unmasked = (a_s - (1 - sigma) * a_t) / (1 - a_t)
                    options = [((v, float(law[l][v])), unmasked * float(law[l][v])) for v in range(V)]
                    moves.append([*options, ((MASK, 1.0), 1 - unmasked)])
                else:
                    moves.append([((MASK, 1.0), sigma), ((id_, score), 1 - sigma)])
            for one, p1 in moves[0]:
                for two, p2 in moves[1]:
                    after[one, two] = after.get((one, two), 0.0) + p * p1 * p2
        states = {state: p for state, p in after.items() if p > 0}
    out = torch.zeros(V, V, dtype=torch.float64)
    for (one, two), p in states.items():
        out[one[0], two[0]] += p
    return out


@pytest.mark.parametrize(
    ("variant", "eta", "k"), [("cap", 0.3, 4), ("rescale", 0.6, 4), ("confidence", None, 4), ("loop", 0.1, 12)]
)
def test_the_law_of_remasking(variant, eta, k):
    options = {} if eta is None else {"eta": eta}
    trace = sampled(run_of(MDLM), exact(), N, nfe=k, remask=variant, **options)
    law = remasked_law(k, variant, eta)
    assert law.sum().item() == pytest.approx(1, abs=1e-12)
    assert chi_square(trace.tokens, law) > 1e-4
    assert trace.nfe.max() <= k
    assert len(trace.rounds) == k
    again = any((before.committed & ~after.committed).any() for before, after in zip(trace.rounds, trace.rounds[1:]))
    assert again
    if variant == "rescale":  # the test would notice
        assert chi_square(trace.tokens, remasked_law(k, variant, 0.0)) < 1e-4


@pytest.mark.parametrize("variant", ["cap", "rescale"])
def test_remasking_keeps_the_share_of_masks(variant):
    trace = sampled(run_of(MDLM), exact(), N, nfe=5, remask=variant, eta=0.4)
    for r, state in enumerate(trace.rounds, 1):
        assert state.committed.mean() == pytest.approx(r / 5, abs=0.01)


def test_remasking_spares_what_is_given():
    clean = torch.zeros(2_000, 2, dtype=torch.bool)
    clean[:, 0] = True
    tokens = torch.full((2_000, 2), 2)
    trace = sampled(run_of(MDLM), exact(), 2_000, tokens=tokens, clean=clean, nfe=6, remask="cap", eta=1.0)
    assert all(r.committed[:, 0].all() for r in trace.rounds)
    assert (trace.tokens[:, 0] == 2).all()
    assert (trace.tokens < V).all()


def test_the_greedy_tail_takes_the_most_likely_tokens_in_the_last_step_alone():
    one = sampled(run_of(MDLM), exact(), 50, nfe=1, tail="argmax")
    assert (one.tokens == [int(FIRST.argmax()), int(SECOND.argmax())]).all()
    trace = sampled(run_of(MDLM), exact(), N, nfe=2, tail="argmax", order="confidence")  # first token drawn, second not
    law = torch.zeros(V, V, dtype=torch.float64)
    law[torch.arange(V), P.argmax(1)] = FIRST
    counts = np.bincount(trace.tokens[:, 0] * V + trace.tokens[:, 1], minlength=V * V) / N
    np.testing.assert_allclose(counts, law.flatten().numpy(), atol=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": 0.1}, "sample.eta=0.1 has no meaning with sample.remask=none"),
        ({"remask": "confidence", "eta": 0.1}, "has no meaning with sample.remask=confidence"),
        ({"remask": "cap", "eta": 1.5}, "sample.eta=1.5 must be between 0 and 1"),
        ({"remask": "cap", "order": "confidence"}, "needs sample.order=random"),
        ({"remask": "loop", "loop_end": 0.7}, "the end at most the start"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(UsageError, match=message):
        MDLM.Options(**options)


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
