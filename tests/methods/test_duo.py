"""Duo on the reference problem: bound and gradient at the exact denoiser, k-step sampler, curriculum."""

import numpy as np
import pytest
import torch

from dbtm.core.errors import UsageError
from dbtm.methods.duo import Duo
from tests.methods.reference import (
    ALL,
    FIRST,
    INDEPENDENT,
    SECOND,
    Formula,
    H,
    L,
    P,
    V,
    chi_square,
    examples,
    run_of,
    sampled,
)

N = 40_000
STATES = ALL.tolist()


def kernel(alpha):
    """q(z | x) of one token."""
    return alpha * torch.eye(V, dtype=torch.float64) + (1 - alpha) / V


def leave_one_out(ids_BL, alpha_B):
    """P(x_l | z of the other token), (B, L, V), for one alpha per row: the other token is z or was replaced."""
    seen, alpha = torch.stack((P[:, ids_BL[:, 1]].T, P[ids_BL[:, 0]]), 1), alpha_B.double()[:, None, None]
    law = alpha * seen + (1 - alpha) / V * torch.stack((FIRST, SECOND))
    return law / law.sum(-1, keepdim=True)


def exact() -> Formula:
    return Formula(lambda ids, time: leave_one_out(ids, torch.exp(-time)).log())


def expected_bound(method, alpha):
    """The objective's mean at alpha over data and noise, per sequence; alpha' = -1."""
    t = (1 - alpha) / (1 - method.settings.eps)
    method.times = lambda batch: torch.full((len(batch.tokens),), t, dtype=torch.float64)
    K, total = kernel(alpha), 0.0
    for (a, b), p in zip(STATES, P.flatten(), strict=True):
        method.noised = lambda batch, noise_B: ALL
        q = (K[a][:, None] * K[b]).flatten()
        tokens = torch.tensor([[a, b]]).expand(9, 2)
        (part,) = method.parts(examples(tokens))
        per_token = part.terms["bound"]  # the displayed term: the mean over tokens of all rows
        assert per_token.isfinite()
        total = total + p * weighted(method, tokens, q)
    return total / (1 - method.settings.eps)


def weighted(method, tokens, q):
    """sum over the nine noisy states of q times the bound of both tokens."""
    batch = examples(tokens)
    t_B = method.times(batch)
    noise_B = (1 - method.settings.eps) * t_B
    rate_B = torch.full_like(noise_B, -(1 - method.settings.eps))
    trunk, _ = method.network.hidden(method.network.embed_tokens(ALL), times=(-torch.log1p(-noise_B),))
    beta = q[:, None].expand(9, 2).contiguous()
    loss, _ = method.bound(trunk, tokens, ALL, noise_B, rate_B, beta, torch.arange(18))
    return loss


def test_the_gradient_is_zero_at_the_leave_one_out_law_and_not_at_the_posterior():
    method = run_of(Duo)
    method.network = exact()
    expected_bound(method, 0.5).backward()
    assert method.network.shift.grad.abs().max() < 1e-10

    def posterior(ids, time):
        law, K = leave_one_out(ids, torch.exp(-time)), kernel(0.5)
        law = law * K.T[ids]  # the evidence of the token itself
        return (law / law.sum(-1, keepdim=True)).log()

    method.network = Formula(posterior)
    expected_bound(method, 0.5).backward()
    assert method.network.shift.grad.abs().max() > 1e-2


def test_the_bound_at_the_exact_denoiser():
    method = run_of(Duo)
    method.network = exact()
    assert float(expected_bound(method, 0.5).detach()) == pytest.approx(1.662829, abs=1e-6)
    nodes, weights = np.polynomial.legendre.leggauss(64)
    total = 0.0
    for u, w in zip((nodes + 1) / 2, weights / 2, strict=True):
        alpha, share = u * u * (3 - 2 * u), 6 * u * (1 - u)  # more nodes at both ends, where the bound has a logarithm
        total += w * share * float(expected_bound(method, alpha).detach())
    assert total == pytest.approx(H, abs=1e-6)


def test_parts_are_the_bound_per_token():
    """Training backpropagates the mean over tokens of the same bound."""
    method = run_of(Duo)
    method.network = exact()
    method.times = lambda batch: torch.full((9,), 0.4, dtype=torch.float64)
    method.noised = lambda batch, noise_B: ALL
    (part,) = method.parts(examples(torch.tensor([[2, 1]]).expand(9, 2)))
    want = weighted(method, torch.tensor([[2, 1]]).expand(9, 2), torch.full((9,), 1 / 18, dtype=torch.float64))
    torch.testing.assert_close(part.loss, want)
    torch.testing.assert_close(part.terms["bound"], want.detach())


def exact_law(k, psi=1.0, eps=0.0):
    """k steps with the exact denoiser by enumeration, the posterior of every token by Bayes' rule."""
    at = torch.full((9,), 1 / 9, dtype=torch.float64)
    for r in range(k):
        a_t, a_s = max(1 - (1 - eps) * (k - r) / k, 1e-300), 1 - (1 - eps) * (k - r - 1) / k
        D = leave_one_out(ALL, torch.full((9,), a_t))
        step = torch.zeros(9, 9, dtype=torch.float64)
        for i, z in enumerate(STATES):
            laws = []
            for l in range(L):
                clean = D[i, l] @ kernel(a_s)
                back = clean * kernel(a_t / a_s)[:, z[l]]
                laws.append(psi * back / back.sum() + (1 - psi) * clean)
            step[i] = (laws[0][:, None] * laws[1]).flatten()
        at = at @ step
    return at.view(V, V)


@pytest.mark.parametrize(("k", "distance"), [(1, 0.358), (2, 0.233107), (4, 0.126990), (8, 0.063599), (64, 0.007549)])
def test_the_enumerated_law_has_the_known_distances(k, distance):
    assert 0.5 * float((exact_law(k) - P).abs().sum()) == pytest.approx(distance, abs=1e-6)


@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_the_sampler_has_that_law(k):
    method = run_of(Duo, eps=1e-9)
    trace = sampled(method, exact(), N, nfe=k)
    assert chi_square(trace.tokens, exact_law(k)) > 1e-4
    assert (trace.nfe == k).all()
    assert len(trace.rounds) == k
    if k == 2:
        assert chi_square(trace.tokens, INDEPENDENT) < 1e-4  # the test would notice


def test_the_psi_sampler():
    trace = sampled(run_of(Duo, eps=1e-9), exact(), N, nfe=4, psi=0.6)
    assert chi_square(trace.tokens, exact_law(4, psi=0.6)) > 1e-4
    assert chi_square(trace.tokens, exact_law(4)) < 1e-4


def test_the_greedy_tail_takes_the_most_likely_prediction():
    trace = sampled(run_of(Duo, eps=1e-9), exact(), 100, nfe=1, tail="argmax")
    assert (trace.tokens == [0, 2]).all()
    assert (trace.nfe == 1).all()


def test_given_tokens_stay_and_are_believed():
    """The network cannot see which tokens are given, so it must learn prompts; this denoiser knows the given one."""

    def told(ids, time):
        law = leave_one_out(ids, torch.exp(-time))
        law[:, 0] = P[:, ids[:, 1]].T / SECOND[ids[:, 1], None]
        return law.log()

    clean = torch.zeros(N, 2, dtype=torch.bool)
    clean[:, 1] = True
    trace = sampled(run_of(Duo, eps=1e-9), Formula(told), N, tokens=torch.full((N, 2), 1), clean=clean, nfe=3)
    assert (trace.tokens[:, 1] == 1).all()
    frequencies = np.bincount(trace.tokens[:, 0], minlength=V) / N
    np.testing.assert_allclose(frequencies, P[:, 1] / SECOND[1], atol=0.01)
    everything = torch.ones(3, 2, dtype=torch.bool)
    assert (sampled(run_of(Duo), exact(), 3, tokens=torch.full((3, 2), 1), clean=everything, nfe=3).nfe == 0).all()


def test_the_likelihood_is_bounded_by_the_entropy_at_the_exact_denoiser():
    method, repeats = run_of(Duo, eps=1e-9), 3_000
    bound = method.nll(exact(), examples(ALL.repeat(repeats, 1)))
    assert not bound.exact
    by_sequence = bound.nll_B.view(repeats, 9) @ P.flatten()
    assert by_sequence.mean().item() == pytest.approx(H, abs=5 * by_sequence.std().item() / repeats**0.5)


def test_noise_spares_the_prompt_and_is_uniform():
    method, n = run_of(Duo), 30_000
    prompt = torch.tensor([[True, False]]).expand(n, 2)
    z = method.noised(examples(torch.full((n, 2), 1), prompt), torch.full((n,), 0.6))
    assert (z[:, 0] == 1).all()
    counts = np.bincount(z[:, 1].numpy(), minlength=V) / n
    np.testing.assert_allclose(counts, [0.2, 0.6, 0.2], atol=0.015)


@pytest.mark.parametrize("vocab", [3, 200])
def test_the_curriculum_reads_soft_tokens_whose_argmax_is_the_noisy_token(vocab):
    from dataclasses import replace

    from dbtm.tasks.toy import Markov

    base = run_of(Duo, curriculum=5, tau=1e-3, top_k=4).config
    method = Duo(replace(base, task=Markov(vocab=vocab, length=L))).start()
    assert (method.phase(4), method.phase(5)) == ((1,), (0,))
    n = 500
    tokens = torch.randint(vocab, (n, 2), generator=torch.Generator().manual_seed(0))
    prompt = torch.tensor([[False, True]]).expand(n, 2)
    t_B = torch.linspace(0, 1, n, dtype=torch.float64)
    with torch.no_grad():
        z, h, noise, rate = method.gaussian_state(examples(tokens, prompt), t_B)
    near = (h[:, 0, None] - method.network.embedding).norm(dim=-1).argmin(-1)
    assert (near == z[:, 0]).float().mean() > 0.98  # except for near-ties, at this temperature
    assert torch.equal(h[:, 1], method.network.embed_tokens(tokens)[:, 1])
    assert torch.equal(z[:, 1], tokens[:, 1])
    assert noise[0].item() == pytest.approx(0.055, abs=1e-6)
    assert noise[-1].item() == pytest.approx(0.95, abs=1e-6)
    slopes = (noise[:-1] - noise[1:]) * (n - 1)
    torch.testing.assert_close((rate[:-1] + rate[1:]) / 2, slopes, atol=1e-4, rtol=1e-3)
    share = (z[:, 0] == tokens[:, 0]).double().mean().item()
    assert share == pytest.approx(float((1 - noise + noise / vocab).mean()), abs=0.08)
    (part,) = method.parts(examples(tokens[:9], prompt[:9]))
    part.loss.backward()
    assert method.network.head.bias.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"eps": 0.0}, "method.eps=0.0 must be above 0"),
        ({"gamma_min": -1.0, "gamma_max": -2.0}, "must be below method.gamma_max"),
        ({"tau": 0.0}, "method.tau"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(UsageError, match=message):
        Duo.Config(**settings)
