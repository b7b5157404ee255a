"""CFM on the reference problem: no residual on the exact flow, and the gradient through the derivative."""

import numpy as np
import pytest
import torch
from torch.func import functional_call, jvp

from dbtm.evals.training_cost import Pass, count_passes
from dbtm.kernels.dispatch import force
from dbtm.losses.lagrangian_head import lagrangian_head
from dbtm.methods.flow.cfm import CFM
from dbtm.recipes import recipe
from tests.methods.flow.exact import Exact, X, denoiser, flow, two_time
from tests.methods.flow.test_flm import posterior
from tests.methods.reference import ALL, SECOND, P, V, chi_square, examples, run_of, sampled
from tests.methods.test_denominator import batch, method_of

N = 5_000


def at(*t):
    return torch.tensor(t, dtype=torch.float64)


def exact(steps=40, clean=None, **more) -> Exact:
    """The exact map; the network reads s and t - s."""
    return Exact(lambda x, s, d: two_time(x, s, s + d, clean, steps), **more)


@pytest.mark.parametrize(("s", "t"), [(0.2, 0.7), (0.0, 0.5), (0.6, 0.9)])
def test_the_exact_flow_has_no_residual(s, t):
    """R = (1 - t) dX/dt + X - D(X, t), with the derivative of log delta by central differences."""
    s, t, e = at(s), at(t), 1e-5
    log = lambda t: two_time(X, s, t, steps=500).log()  # noqa: E731
    end = denoiser(flow(X, s, t, steps=500), t)[0]
    z, dz = log(t)[0], ((log(t + e) - log(t - e)) / (2 * e))[0]
    identity = torch.nn.Linear(V, V).double()
    with torch.no_grad():
        identity.weight.copy_(torch.eye(V))
        identity.bias.zero_()
    times = (s.expand(2), t.expand(2))
    _, squares = lagrangian_head(z, dz, identity, lambda i: end[i], *times, torch.ones(2), torch.arange(2))
    assert squares.max() < 1e-16
    _, wrong = lagrangian_head(z, 0 * dz, identity, lambda i: end[i], *times, torch.ones(2), torch.arange(2))
    assert wrong.max() > 1e-4


@pytest.mark.parametrize("cap", [0.0, 1.5])
def test_the_chunked_residual_is_the_dense_one(cap):
    """Against dX/dt of a dense state by jvp, with a stop-gradient around everything but dX/dt."""
    torch.manual_seed(0)
    n, width, vocab = 7, 4, 5
    head = torch.nn.Linear(width, vocab).double()
    h, dh = (torch.randn(n, width, dtype=torch.float64, requires_grad=True) for _ in range(2))
    x, p = torch.randn(n, vocab, dtype=torch.float64), torch.rand(n, vocab, dtype=torch.float64).softmax(-1)
    s, beta = torch.rand(n, dtype=torch.float64) * 0.5, torch.rand(n, dtype=torch.float64)
    t = s + 0.4

    def state(h, t):
        z = head(h)
        d = (cap * torch.tanh(z / cap) if cap else z).softmax(-1)
        return x + ((t - s) / (1 - s))[:, None] * (d - x)

    X_, dX = jvp(state, (h, t), (dh, torch.ones_like(t)))
    dense = ((1 - t)[:, None] * dX - p + X_.detach()).square().sum(-1)
    leaves = (h, dh, *head.parameters())
    want = torch.autograd.grad((beta * dense).sum(), leaves)
    loss, squares = lagrangian_head(
        h, dh, head, lambda i: p[i], s, t, beta, torch.arange(n), cap, budget=3 * vocab * 8 * 3
    )
    torch.testing.assert_close(squares, dense.detach(), rtol=1e-11, atol=1e-13)
    for g, w in zip(torch.autograd.grad(loss, leaves), want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-9, atol=1e-11)


class Logits(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, h, s, t):
        return self.network.logits(h, times=(s, t - s))[0]


@pytest.mark.usefixtures("double")
def test_the_gradient_is_full_reverse_over_forward():
    """The map's part with a real network of two layers, against torch.func through network, head and dense states."""
    method, whole = method_of("cfm"), batch()
    network, rows = method.network, torch.tensor([1, 3, 4])
    s, t = at(0.1, 0.3, 0.0), at(0.6, 0.9, 0.4)
    part = method.map_part(whole, rows, s, t)
    part.loss.backward()
    state, free = method.state(whole, rows, s)
    x = state.dense()
    share = ((t - s) / (1 - s))[:, None, None]
    parameters = dict(network.named_parameters())

    def read(weights, x, s, t):
        h = x @ weights["embedding"]
        return functional_call(Logits(network), {f"network.{k}": v for k, v in weights.items()}, (h, s, t))

    def dense(*values):
        weights = dict(zip(parameters, values, strict=True))
        with force("reference"):
            logits, rate = jvp(lambda t: read(weights, x, s, t), (t,), (torch.ones_like(t),))
        d = logits.softmax(-1)
        dd = d * (rate - (d * rate).sum(-1, keepdim=True))
        end = (x + share * (d - x)).detach()
        end = torch.where(free[..., None], end, x)
        p = read(weights, end, t, t).softmax(-1).detach()
        dX = (d - x) / (1 - s)[:, None, None] + share * dd
        residual = (1 - t)[:, None, None] * dX + (x + share * (d - x)).detach() - p
        return (residual.square().sum(-1) * free).sum() / (whole.count() / 4)

    loss = dense(*parameters.values())
    assert part.loss.item() == pytest.approx(loss.item(), rel=1e-10)
    for (name, parameter), want in zip(
        parameters.items(), torch.autograd.grad(loss, list(parameters.values()), allow_unused=True), strict=True
    ):
        got = parameter.grad
        if want is None or got is None:
            assert got is None or got.abs().max() < 1e-12, name
        else:
            torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-10, msg=name)


def test_the_denoiser_has_no_gradient_at_its_minimum():
    method = run_of(CFM)
    network = method.network = exact()
    network.embed = lambda state, noise=None: (X, None)
    total = torch.zeros(1, 2, V, dtype=torch.float64)
    for sequence, weight in zip(ALL, posterior(X, at(0.6)), strict=True):
        network.zero_grad()
        method.denoiser_part(examples(sequence[None]), torch.tensor([0]), at(0.6)).loss.backward()
        total += weight * network.free.grad
    assert total.abs().max() < 1e-10


@pytest.mark.parametrize("k", [1, 3])
def test_with_the_exact_map_every_number_of_steps_gives_the_law(k):
    trace = sampled(run_of(CFM), exact(learn=False), N, nfe=k)
    assert (trace.nfe == k).all()
    assert chi_square(trace.tokens, P) > 1e-4


def test_given_tokens_stay_and_the_rest_follows_them():
    clean = torch.tensor([[False, True]]).expand(N, 2)
    network = exact(clean=clean, learn=False)
    trace = sampled(run_of(CFM), network, N, tokens=torch.full((N, 2), 1), clean=clean, nfe=2)
    assert (trace.tokens[:, 1] == 1).all()
    np.testing.assert_allclose(np.bincount(trace.tokens[:, 0], minlength=V) / N, P[:, 1] / SECOND[1], atol=0.025)


def test_a_quarter_of_the_rows_learns_the_map():
    method = run_of(CFM)
    one, two = method.split(examples(ALL[[0] * 16]))
    assert (len(one), two.tolist()) == (12, [3, 7, 11, 15])
    odd_one, odd_two = method.split(examples(ALL))  # nine rows
    assert sorted([*odd_one.tolist(), *odd_two.tolist()]) == list(range(9))
    s, t = method.times(examples(ALL.repeat(500, 1)))
    assert (s <= t).all()
    assert t.mean() == pytest.approx(0.5, abs=0.02)
    assert (s / t).mean() == pytest.approx(0.5, abs=0.02)


def test_a_step_costs_what_the_card_says():
    """Three quarters of the rows count 3; the others 7: value and tangent, both with gradient, and a pass without."""
    assert count_passes(recipe("markov").by("cfm")) == {
        Pass("map", gradient=True): 48,
        Pass("map", gradient=True, tangent=True, tangent_gradient=True): 16,
        Pass("map", gradient=False): 16,
    }
