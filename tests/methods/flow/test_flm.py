"""FLM on the reference problem: golden values, zero gradient at the exact denoiser, its sampler's distribution."""

from itertools import pairwise

import numpy as np
import torch

from dbtm.methods.flow.flm import FLM
from tests.methods.flow.exact import D_2, D_6, DELTA_2_7, X_2_7, Exact, X, denoiser, flow, two_time
from tests.methods.reference import ALL, FIRST, SECOND, P, V, chi_square, examples, run_of, sampled

N = 30_000


def at(*t):
    return torch.tensor(t, dtype=torch.float64)


def exact(method, **more) -> Exact:
    return Exact(lambda x, tau: denoiser(x, method.clock.t(tau)), **more)


def test_the_exact_denoiser_and_flow_have_the_golden_values():
    torch.testing.assert_close(denoiser(X, at(0.2)), D_2, atol=1e-6, rtol=0)
    torch.testing.assert_close(denoiser(X, at(0.6)), D_6, atol=1e-6, rtol=0)
    torch.testing.assert_close(flow(X, at(0.2), at(0.7)), X_2_7, atol=1e-6, rtol=0)
    torch.testing.assert_close(two_time(X, at(0.2), at(0.7)), DELTA_2_7, atol=1e-6, rtol=0)


def test_the_gradient_at_the_exact_denoiser_is_zero_on_average():
    """The expected loss given x has its minimum at D. Every x is reached from each of the nine sequences with some
    noise, so the losses at x are summed with the sequences' probabilities given x.
    """
    method = run_of(FLM, logit_cap=0)
    for tau in (0.1, 0.6, 0.95):
        t = method.clock.t(at(tau))
        total, network = torch.zeros(1, 2, V, dtype=torch.float64), exact(method)
        method.network = network
        weights = posterior(X, t)
        for sequence, w in zip(ALL, weights, strict=True):
            method.times = lambda batch, tau=tau: at(tau)
            network.embed = lambda state, noise=None: (X, None)  # the noise that takes this sequence to X
            (part,) = method.parts(examples(sequence[None]))
            network.zero_grad()
            part.loss.backward()
            total += w * network.free.grad
        assert total.abs().max() < 1e-10
        assert network.free.grad.abs().max() > 1e-3  # the gradient of a single sequence is not zero


def posterior(x, t):
    """P(sequence | x_t = x) from Gaussian densities, not from the formula of the denoiser."""
    mean = t * torch.nn.functional.one_hot(ALL, V).double()
    log_density = -((x - mean) ** 2).sum((-1, -2)) / (2 * (1 - t) ** 2)
    return (P.flatten().log() + log_density).softmax(0)


def test_the_state_is_the_interpolant_and_given_tokens_are_clean():
    method, seen = run_of(FLM), {}
    method.network = exact(method)
    embed = method.network.embed
    method.network.embed = lambda state, noise=None: seen.update(state=state) or embed(state)
    tau = at(0.0, 0.5, 1.0)
    method.times = lambda batch: tau
    prompt = torch.tensor([[True, False], [False, False], [False, True]])
    list(method.parts(examples(ALL[:3], prompt)))
    t = method.clock.t(tau)
    alpha = seen["state"].alpha.double()
    torch.testing.assert_close(alpha, torch.stack((at(0, 1), (1 - t[1]).expand(2), at(0, 0))), atol=1e-6, rtol=0)


def test_times_fill_the_whole_batch_in_a_random_order():
    method = run_of(FLM)
    strata = (method.times(examples(ALL)) * 9).long().tolist()
    assert sorted(strata) == list(range(9)) != strata


def test_many_euler_steps_of_the_exact_denoiser_give_the_law():
    method = run_of(FLM, logit_cap=0)
    trace = sampled(method, exact(method, learn=False), N, nfe=64)
    assert (trace.nfe == 64).all()
    assert len(trace.rounds) == 64
    assert 0.5 * np.abs(frequencies(trace.tokens) - P.flatten().numpy()).sum() < 0.012


def test_the_law_of_three_steps_is_that_of_the_euler_scheme():
    """Against a simulation of the scheme with other noise and seven times as many samples."""
    method, n = run_of(FLM, logit_cap=0), 7 * N
    x = torch.randn(n, 2, V, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    grid = method.clock.t(at(0, 1 / 3, 2 / 3)).tolist()
    for now, after in pairwise(grid):
        x = x + (after - now) * (denoiser(x, torch.full((n,), now, dtype=torch.float64)) - x) / (1 - now + 1e-5)
    tokens = denoiser(x, torch.full((n,), grid[-1], dtype=torch.float64)).argmax(-1).numpy()
    trace = sampled(method, exact(method, learn=False), N, nfe=3)
    assert (trace.nfe == 3).all()
    assert chi_square(trace.tokens, torch.from_numpy(frequencies(tokens))) > 1e-4
    assert chi_square(trace.tokens, P) < 1e-4  # the test would notice


def frequencies(tokens):
    return np.bincount(tokens[:, 0] * V + tokens[:, 1], minlength=9) / len(tokens)


def test_one_evaluation_gives_the_most_frequent_token_of_every_position():
    method = run_of(FLM)
    trace = sampled(method, exact(method, learn=False), 200, nfe=1)
    assert (trace.tokens == [FIRST.argmax(), SECOND.argmax()]).all()


def test_a_temperature_draws_the_last_prediction():
    """One evaluation at temperature 1 draws every position from its marginal."""
    method = run_of(FLM, logit_cap=0)
    trace = sampled(method, exact(method, learn=False), N, nfe=1, temperature=1.0)
    assert chi_square(trace.tokens, FIRST[:, None] * SECOND) > 1e-4


def test_given_tokens_stay_and_the_rest_follows_them():
    method = run_of(FLM, logit_cap=0)
    clean = torch.tensor([[False, True]]).expand(N, 2)
    network = Exact(lambda x, tau: denoiser(x, method.clock.t(tau), clean), learn=False)
    trace = sampled(method, network, N, tokens=torch.full((N, 2), 1), clean=clean, nfe=64)
    assert (trace.tokens[:, 1] == 1).all()
    first = np.bincount(trace.tokens[:, 0], minlength=V) / N
    np.testing.assert_allclose(first, P[:, 1] / SECOND[1], atol=0.015)
    everything = sampled(method, network, 3, tokens=torch.full((3, 2), 1), clean=torch.ones(3, 2).bool(), nfe=3)
    assert (everything.nfe == 0).all()
    assert (everything.tokens == 1).all()


def test_the_cap_bounds_the_logits():
    """With a cap of c, no probability exceeds 1 / (1 + (V - 1) e^(-2 c))."""
    method = run_of(FLM, logit_cap=0.5)
    trace = sampled(method, Exact(lambda x, tau: denoiser(x, tau * 0 + 0.99), learn=False), 50, nfe=2)
    assert max(r.score.max() for r in trace.rounds) <= 1 / (1 + 2 * np.exp(-1)) + 1e-6
