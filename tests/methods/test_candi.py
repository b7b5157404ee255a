"""CANDI on the reference problem: the table of sigma, calibration of the exact denoiser, the sampler's limits."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from dbtm.core.errors import UsageError
from dbtm.methods.candi import CANDI, sigma_of
from tests.methods.reference import ALL, SECOND, Identity, L, P, V, examples, run_of, sampled

WIDTH = 8
BASIS = torch.linalg.qr(torch.randn(WIDTH, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).Q


class Exact(nn.Module):
    """Orthonormal rows for tokens and mask, so that the state follows from the network's input."""

    def __init__(self, method):
        super().__init__()
        self.method, self.head, self.dtype = method, Identity(), torch.float64
        self.embedding = 3.0 * BASIS[: V + 1]  # lengths do not matter
        self.shift = nn.Parameter(torch.zeros(L, V, dtype=torch.float64))
        self.told = None  # the noise's sigma, if different from that of the time

    @property
    def token_embedding(self):
        return self.embedding[:V]

    def hidden(self, h_BLD, times):
        sigma_B = self.method.sigma(1 - torch.exp(-times[0])) if self.told is None else self.told.expand(len(h_BLD))
        seen = h_BLD @ BASIS.T
        corrupted = (seen[..., V] > 0.25)[..., None]
        x_BLV = 2 * seen[..., :V] * torch.sqrt(1 + sigma_B**2)[:, None, None]
        evidence = torch.where(corrupted, x_BLV / sigma_B[:, None, None] ** 2, 1e4 * seen[..., :V])
        joint = P.log() + evidence[:, 0, :, None] + evidence[:, 1, None, :]
        joint = joint.flatten(1).softmax(-1).view(-1, V, V)
        return torch.stack((joint.sum(2), joint.sum(1)), 1).clamp(min=1e-300).log() + self.shift, None


def test_the_table_of_sigma():
    ends = torch.tensor([0.01, 0.25], dtype=torch.float64)
    np.testing.assert_allclose(sigma_of(ends, 50_257), [0.304, 1.048], atol=1e-3)
    np.testing.assert_allclose(sigma_of(ends, 12), [0.308, 1.170], atol=1e-3)
    assert sigma_of(torch.tensor([1e-9, 0.4999], dtype=torch.float64), 50_257).tolist() == [0.2, 4.0]


def test_sigma_misreads_as_many_tokens_as_it_should():
    """r is the probability that a given other token looks likelier than the right one, by simulation."""
    V_, r, n = 12, 0.2, 400_000
    sigma = sigma_of(torch.tensor(r, dtype=torch.float64), V_).item()
    pair = np.random.default_rng(0).standard_normal((n, 2))
    misread = (sigma * pair[:, 1] > 1 + sigma * pair[:, 0]).mean() * (V_ - 1) / V_
    assert misread == pytest.approx(r, abs=0.003)


@pytest.mark.parametrize("t", [0.3, 0.9])
def test_the_gradient_is_zero_at_the_exact_denoiser(t):
    n = 40_000
    method = run_of(CANDI)
    method.network = Exact(method)
    method.times = lambda batch: torch.full((len(batch.tokens),), t, dtype=torch.float64)
    choice = torch.multinomial(P.flatten(), n, replacement=True, generator=torch.Generator().manual_seed(0))
    (part,) = method.parts(examples(ALL[choice]))
    part.loss.backward()
    spread = 0.5 / math.sqrt(n * t)  # of a mean of differences below 1, over tokens that are not revealed
    assert method.network.shift.grad.abs().max() < 4 * spread
    method.network.told = torch.tensor(3.0, dtype=torch.float64)  # a denoiser that assumes larger noise
    method.network.shift.grad = None
    (wrong,) = method.parts(examples(ALL[choice]))
    assert wrong.loss > part.loss + 10 * spread * t


def test_revealed_and_given_tokens_have_no_loss_and_are_read_as_they_are():
    method = run_of(CANDI)
    method.network = Exact(method)
    prompt = torch.tensor([[True, False]]).expand(9, 2)
    noise = torch.full((9,), 1.0, dtype=torch.float64)
    corrupted = method.hidden_tokens(examples(ALL, prompt), noise)
    assert (corrupted == torch.tensor([False, True])).all()
    e = torch.randn(9, 2, WIDTH, dtype=torch.float64)
    h = method.embed(method.network, ALL, corrupted, e, method.sigma(noise))
    torch.testing.assert_close(h[:, 0], BASIS[ALL[:, 0]])
    want = 0.5 * BASIS[V] + 0.5 * e[:, 1] / math.sqrt(1 + method.sigma(noise)[0] ** 2)
    torch.testing.assert_close(h[:, 1], want)


def law(n=40_000, start=None, **options):
    """The distribution of the first token given that the second is 1, so that only one token is noisy."""
    method = run_of(CANDI)
    if start is not None:
        method.start_noise = start
    network = Exact(method)
    clean = torch.tensor([[False, True]]).expand(n, L)
    with torch.no_grad():
        trace = sampled(method, network, n, tokens=torch.ones(n, L, dtype=torch.int64), clean=clean, **options)
    assert (trace.tokens[:, 1] == 1).all()
    return trace, np.bincount(trace.tokens[:, 0], minlength=V) / n


def test_the_flow_from_a_noisy_token_ends_at_its_law_and_from_pure_noise_it_does_not():
    want = (P[:, 1] / SECOND[1]).numpy()

    def noisy(network, given, seed, sigma):
        n = len(given.tokens)
        x = torch.multinomial(P[:, 1], n, replacement=True, generator=torch.Generator().manual_seed(1))
        noise = torch.randn(n, L, V, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        state = nn.functional.one_hot(x, V)[:, None].double() + sigma * noise
        return state @ BASIS[:V]

    _, from_token = law(start=noisy, nfe=64, step="ode", towards="mean")
    assert 0.5 * np.abs(from_token - want).sum() < 0.012
    _, from_noise = law(nfe=64, step="ode", towards="mean")
    assert 0.5 * np.abs(from_noise - want).sum() > 0.016  # a bias of its own: sigma near 1 does not hide the signal


@pytest.mark.parametrize("k", [1, 3, 8])
def test_k_evaluations_and_nothing_left_hidden(k):
    method = run_of(CANDI)
    with torch.no_grad():
        trace = sampled(method, Exact(method), 500, nfe=k)
    assert trace.nfe.max() == k
    assert trace.rounds[-1].committed.all()
    assert (trace.tokens < V).all()


def test_the_released_step_and_the_equation_differ_in_their_divisor():
    """One step from sigma_0 to sigma_1 towards a known token, written out."""
    method = run_of(CANDI)
    network = Exact(method)
    seen = {}

    def keep(name):
        def draw(net, trunk, hidden, uniform, options):
            seen.setdefault(name, []).append(net.last.clone())
            n = len(hidden)
            return torch.ones(n, L, dtype=torch.int64), torch.ones(n, L, dtype=torch.float64), BASIS[1].expand(n, L, -1)

        return draw

    hidden = network.hidden
    network.hidden = lambda h, times: (setattr(network, "last", h), hidden(h, times))[1]
    start = torch.randn(1, L, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    start -= (start @ BASIS[V])[..., None] * BASIS[V]  # so that the mask component marks hidden positions
    method.start_noise = lambda *_: start.clone()
    times = 0.999 + (1e-5 - 0.999) * torch.arange(3, dtype=torch.float64) / 2
    sigma = method.sigma((1 - 1e-3) * times)
    for name, divisor, told in (("released", sigma[1] ** 2, sigma[1:]), ("ode", sigma[0], sigma)):
        method._draw = keep(name)
        with torch.no_grad():
            sampled(method, network, 1, nfe=2, step=name, seed=7)
        first = 0.5 * BASIS[V] + 0.5 * start[0] / torch.sqrt(1 + told[0] ** 2)
        torch.testing.assert_close(seen[name][0][0], first)
        if len(seen[name]) > 1:
            e = start[0] - (sigma[0] - sigma[1]) / divisor * (start[0] - BASIS[1])
            second = 0.5 * BASIS[V] + 0.5 * e / torch.sqrt(1 + told[1] ** 2)
            unrevealed = (seen[name][1][0] @ BASIS[V]) > 0.25
            assert unrevealed.any()
            torch.testing.assert_close(seen[name][1][0][unrevealed], second[unrevealed])
    assert any(len(states) > 1 for states in seen.values())


def test_settings_that_cannot_be():
    with pytest.raises(UsageError, match="must be above 0 and below"):
        CANDI.Config(r_min=0.3, r_max=0.2)
