"""DFM on the reference problem: zero gradient at the exact map by both targets, surgery, weights, the sampler."""

from dataclasses import replace

import pytest
import torch

from dbtm.config import TrainConfig, override
from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS
from dbtm.evals.training_cost import Pass, count_passes
from dbtm.methods.base import backward
from dbtm.methods.flow.dfm import DFM, EulerianDFM, without_conflict
from dbtm.methods.flow.readout import Readout
from dbtm.recipes import recipe
from dbtm.theory.clock import RecoveryClock
from dbtm.train.pace import OPEN
from tests.methods.flow.exact import Exact, X, denoiser, two_time
from tests.methods.flow.test_flm import posterior
from tests.methods.reference import ALL, P, V, chi_square, examples, run_of, sampled
from tests.methods.test_denominator import method_of

N, LAST = 5_000, TrainConfig().steps - 1  # samples; the last step of a run, when both terms are trained


def at(*t):
    return torch.tensor(t, dtype=torch.float64)


def exact(steps=40, **more) -> Exact:
    """The exact map, in linear time; its learned weight is 0."""
    network = Exact(lambda x, s, t: two_time(x, s, t, steps=steps), **more)
    network.weight = lambda *times: torch.zeros_like(times[0])
    return network


def test_the_clock_is_nine_tenths_recovery():
    clock, tau = run_of(DFM).clock, at(0.0, 0.3, 1.0)
    torch.testing.assert_close(clock.t(tau), 0.9 * RecoveryClock(V).t(tau) + 0.1 * tau)


def test_no_gradient_at_the_exact_map_by_two_steps():
    method = run_of(DFM)
    method.network = exact(steps=1_000, rows=2)
    loss, terms = method.map(examples(ALL[[1, 8]]), slice(0, None), at(0.1, 0.0), at(0.4, 0.5), at(0.6, 0.9))
    loss.backward()
    assert method.network.free.grad.abs().max() < 1e-9
    assert terms["map"] == pytest.approx(0.0, abs=1e-9)


def test_no_gradient_at_the_exact_map_by_the_derivative():
    """The tangent of the exact logits along (flow, s) by central differences, in place of the network's."""
    method, e = run_of(EulerianDFM), 1e-5
    network = method.network = exact(steps=1_000, rows=2)
    plain = network.hidden

    def hidden(h, dh=None, times=(), rates=None):
        value = plain(h, times=times)[0]
        if dh is None:
            return value, None
        s, t = times
        assert (rates[0] == 1).all()
        assert (rates[1] == 0).all()
        log = lambda x, s: two_time(x, s, t, steps=1_000).log()  # noqa: E731
        return value, (log(h.detach() + e * dh, s + e) - log(h.detach() - e * dh, s - e)) / (2 * e)

    network.hidden = hidden
    batch, (s, t) = examples(ALL[[1, 8]]), (at(0.1, 0.3), at(0.6, 0.8))
    loss, terms = method.map(batch, slice(0, None), s, s, t)
    loss.backward()
    assert network.free.grad.abs().max() < 1e-6
    assert terms["left_out"] == 0
    with torch.no_grad():
        network.free += torch.randn(network.free.shape, generator=torch.Generator().manual_seed(0)) * 0.3
    network.zero_grad()
    method.map(batch, slice(0, None), s, s, t)[0].backward()
    assert network.free.grad.abs().max() > 1e-4  # the test would notice


def test_a_small_error_of_the_map_has_a_small_gradient():
    """With a tiny constant in its weight, the gradient would have unit norm for an error of any size."""
    z = denoiser(X, at(0.5)).log()[0]
    grown = {}
    for c in (1e-6, EulerianDFM.Config().map_c):
        sizes = []
        for error in (0.1, 0.01):
            method = run_of(EulerianDFM, map_c=c)
            network = method.network = exact(rows=1)
            target = (z + error * torch.tensor([1.0, 0.0, -1.0])).softmax(-1)
            trunk = z[None] + network.free
            free, w = torch.ones(1, 2, dtype=torch.bool), at(0.0)
            readout, adaptive = Readout(network, 0.0), (c, method.settings.r)
            batch = examples(ALL[:1])
            loss, _ = method.weighted(batch, readout, trunk, lambda i, p=target: p[i], free, w, adaptive)
            loss.backward()
            sizes.append(network.free.grad.norm().item())
        grown[c] = sizes[0] / sizes[1]
    assert grown[1e-6] < 1.2
    assert 9 < grown[EulerianDFM.Config().map_c] < 11


def test_the_denoisers_gradient_vanishes_where_weights_do_not_matter():
    """Without the adaptive weight the mean over the posterior is zero at D; with it the optimum is different."""
    for r, bound in ((0.0, 1e-10), (0.5, None)):
        method = run_of(DFM, r=r)
        network = method.network = exact()
        network.embed = lambda state, noise=None: (X, None)
        total = torch.zeros(1, 2, V, dtype=torch.float64)
        for sequence, weight in zip(ALL, posterior(X, at(0.6)), strict=True):
            network.zero_grad()
            method.denoiser(examples(sequence[None]), slice(0, None), at(0.6))[0].backward()
            total += weight * network.free.grad
        assert total.abs().max() < bound if bound else total.abs().max() > 1e-4


def test_positions_without_a_logarithm_are_left_out():
    """For a derivative so large that the argument is negative, the position is its own target."""
    method = run_of(EulerianDFM)
    network, left_out = exact(), torch.zeros(())
    z = denoiser(X, at(0.5)).log()
    dz = torch.tensor([[[0.0, 0.0, 0.0], [90.0, 0.0, 0.0]]], dtype=torch.float64)
    target = method.target(Readout(network, 0.0), z, z, dz, at(0.5), at(0.7), left_out)
    p = target(torch.arange(2))
    assert left_out == 1
    torch.testing.assert_close(p[0], z[0, 0].exp())
    torch.testing.assert_close(p[1], z[0, 1].exp())


def test_surgery_takes_out_what_points_against_the_first():
    x = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    first, against, along = x[0], -3 * x[0] + 2 * x[1], 3 * x[0] + 2 * x[1]
    for second, gradient, conflict in ((against, [1.0, 2.0], 1), (along, [4.0, 2.0], 0)):
        loss, found = without_conflict(first + 5, second + 1, [x])
        x.grad = None
        loss.backward()
        assert x.grad.tolist() == gradient
        assert (loss.item(), found.item()) == (6, conflict)


def test_the_learned_weight_has_its_optimum_at_the_log_of_the_loss():
    """d/dw (e^-w l + w) = 1 - e^-w l, and the network's gradient has the factor e^-w."""
    method = run_of(DFM)
    network = method.network = exact(rows=1)
    target = torch.full((2, V), 1 / V, dtype=torch.float64)
    free, grads = torch.ones(1, 2, dtype=torch.bool), []
    for w in (0.0, 1.0):
        weight = torch.tensor([w], dtype=torch.float64, requires_grad=True)
        network.zero_grad()
        trunk = network.hidden(X, times=(at(0.3), at(0.3)))[0]
        readout = Readout(network, 0.0)
        loss, terms = method.weighted(examples(ALL[:1]), readout, trunk, lambda i: target[i], free, weight, None)
        loss.backward()
        assert weight.grad.item() == pytest.approx(1 - torch.exp(-weight).item() * terms["map"].item())
        assert loss.item() == pytest.approx(torch.exp(-weight).item() * terms["map"].item() + w)
        grads.append(network.free.grad.clone())
    torch.testing.assert_close(grads[1], grads[0] * torch.exp(at(-1.0)))


@pytest.mark.parametrize("k", [1, 3])
def test_with_the_exact_map_every_number_of_steps_gives_the_law(k):
    trace = sampled(run_of(DFM), exact(learn=False), N, nfe=k)
    assert (trace.nfe == k).all()
    assert chi_square(trace.tokens, P) > 1e-4


def test_the_map_starts_with_the_last_fifth_of_a_run():
    for name in ("dfm", "dfm-esd"):
        config = override(recipe("markov").by(name), ["train.steps=10", "optim.warmup=1"])
        method = METHODS.get(name)(config)
        assert [method.phase(step)[0] for step in range(10)] == [0] * 8 + [1] * 2
        by_clock = METHODS.get(name)(override(config, [f"train.steps={OPEN}"]))
        with pytest.raises(UsageError, match=r"set method\.start"):
            by_clock.check_start(True)


def test_before_the_start_all_rows_learn_the_denoiser():
    method = run_of(DFM, start=5)
    assert [method.phase(step) for step in (4, 5)] == [(0,), (1,)]
    network = method.network = exact(learn=False)
    network.hidden = lambda h, times, plain=network.hidden: (seen.append(times), plain(h, times=times))[1]
    seen = []
    list(method.parts(examples(ALL)))
    ((s, t),) = seen
    assert torch.equal(s, t)
    assert len(s) == 9


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["dfm", "dfm-esd"])
def test_a_step_reaches_every_weight(name):
    method = method_of(name)
    terms = backward(method, replace(examples(torch.randint(0, 4, (6, 5))), step=LAST))
    assert terms["loss"].isfinite()
    assert not [key for key, p in method.network.named_parameters() if p.grad is None]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["dfm", "dfm-esd", "cfm"])
def test_the_objective_can_be_measured_without_gradients(name):
    method, tokens = method_of(name), torch.randint(0, 4, (6, 5))
    batch = replace(examples(tokens), step=LAST)
    want = sum(float(part.loss.detach()) for part in method.parts(batch))
    with torch.no_grad():
        assert sum(float(part.loss) for part in method.parts(batch)) == pytest.approx(want)


def test_a_step_costs_what_the_card_says():
    """Half of the rows count 3; the others 5 by two steps, or 5 and the tangent's scores by the derivative."""
    config = override(recipe("markov").by("dfm"), ["method.start=0"])
    assert count_passes(config) == {Pass("map", gradient=True): 64, Pass("map", gradient=False): 64}
    assert count_passes(override(config, ["method.start=10"])) == {Pass("map", gradient=True): 64}
    assert count_passes(override(recipe("markov").by("dfm-esd"), ["method.start=0"])) == {
        Pass("map", gradient=True): 32,
        Pass("map", gradient=True, tangent=True): 32,
        Pass("map", gradient=False): 32,
    }
