"""S-FLM on the reference problem: calibration of the exact denoiser, the flow's samples, the clock in a run's state."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from dbtm.core import rng
from dbtm.methods.sflm import SFLM
from dbtm.simplex import sphere
from tests.methods.reference import ALL, SECOND, Identity, L, P, V, examples, run_of, sampled

WIDTH = 3
E = sphere.unit(torch.randn(V, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(5)))


def exact(x_BLD, alpha_B, prior=P):
    """D_k proportional to P(k) prod_l [sin(theta / (1 - alpha)) / sin theta]^(D - 2), marginalised to (B, L, V)."""
    theta = torch.acos((x_BLD @ E.T).clamp(-1, 1)).clamp(min=1e-6)  # (B, L, V)
    wide = theta / (1 - alpha_B[:, None, None])
    weight = torch.where(wide < math.pi, (torch.sin(wide) / torch.sin(theta)) ** (WIDTH - 2), 0.0)
    joint = prior * weight[:, 0, :, None] * weight[:, 1, None, :]
    joint = joint / joint.sum((1, 2), keepdim=True).clamp(min=1e-300)
    return torch.stack((joint.sum(2), joint.sum(1)), 1)


class Exact(nn.Module):
    """Replaces the network: directions E, the exact denoiser as logits, a clock without effect."""

    def __init__(self, prior=P):
        super().__init__()
        self.prior, self.head = prior, Identity()
        self.clock = torch.linspace(0, 1, 1_001, dtype=torch.float64)

    def all_directions(self):
        return E

    def directions(self, tokens_BL):
        return E[tokens_BL]

    def read_direction(self, x_BLD, signal_B):
        return exact(x_BLD, signal_B, self.prior).clamp(min=1e-300).log()


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_the_exact_denoiser_is_calibrated_on_our_noise(alpha):
    """E[(e_x - D(x)) g(x)] = 0 for every g, so D is the minimiser of the cross-entropy; tested for g = D."""
    method, n = run_of(SFLM), 60_000
    object.__setattr__(method.config.model, "width", WIDTH)  # rotary pairs need an even width, the sphere does not
    method.network = Exact()
    choice = torch.multinomial(P.flatten(), n, replacement=True, generator=torch.Generator().manual_seed(0))
    tokens = ALL[choice]
    alpha_B = torch.full((n,), alpha, dtype=torch.float64)
    x = method.noised(examples(tokens), alpha_B)
    D = exact(x, alpha_B)
    error = nn.functional.one_hot(tokens, V) - D  # (n, L, V)
    gradient = error[..., None] * D[:, :, None, :]
    spread = gradient.std(0) / n**0.5
    assert (gradient.mean(0).abs() < 5 * spread).all()
    wrong = nn.functional.one_hot(tokens, V) - exact(x, alpha_B * 0.5)  # the test would notice
    assert (wrong[..., None] * D[:, :, None, :]).mean(0).abs().max() > 5 * spread.max()


def law(k, n=6_000, **options):
    method = run_of(SFLM, truncate=False)
    trace = sampled(method, Exact(), n, nfe=k, **options)
    assert (trace.nfe == k).all()
    assert len(trace.rounds) == k
    return trace, np.bincount(trace.tokens[:, 0] * V + trace.tokens[:, 1], minlength=9) / n


def distance(frequencies):
    return 0.5 * np.abs(frequencies - P.flatten().numpy()).sum()


def test_many_steps_of_the_exact_flow_give_the_law():
    assert distance(law(64)[1]) < 0.04
    assert distance(law(2)[1]) > 0.1


def test_one_evaluation_gives_the_most_likely_tokens_of_a_single_position():
    """At pure noise D is close to the marginals, so any noise gives their argmax: one step is not enough."""
    _, frequencies = law(1)
    assert frequencies[0 * V + 2] > 0.9  # argmax p1 = 0, argmax p2 = 2


def test_the_tail_may_draw_and_steps_may_follow_one_token():
    _, drawn = law(1, tail="sample")
    independent = (P.sum(1)[:, None] * P.sum(0)).flatten().numpy()
    assert 0.5 * np.abs(drawn - independent).sum() < 0.03
    # one token drawn per step: its mean is the exact velocity, so many small steps have the same distribution
    assert distance(law(128, n=3_000, velocity="sample")[1]) < 0.06
    _, top = law(8, velocity="top")
    assert distance(top) > 0.1


def test_given_tokens_stay_and_are_believed():
    n = 4_000
    told = torch.zeros_like(P)
    told[:, 1] = P[:, 1]
    clean = torch.zeros(n, L, dtype=torch.bool)
    clean[:, 1] = True
    method = run_of(SFLM, truncate=False)
    trace = sampled(method, Exact(told), n, tokens=torch.full((n, L), 1), clean=clean, nfe=48)
    assert (trace.tokens[:, 1] == 1).all()
    np.testing.assert_allclose(np.bincount(trace.tokens[:, 0], minlength=V) / n, P[:, 1] / SECOND[1], atol=0.05)
    everything = torch.ones(3, L, dtype=torch.bool)
    assert (sampled(method, Exact(), 3, tokens=torch.full((3, L), 1), clean=everything, nfe=4).nfe == 0).all()


def test_the_signal_runs_from_the_truncation_to_almost_nothing():
    method = run_of(SFLM)
    ends = method.signal(torch.tensor([0.0, 1.0]))
    assert ends.tolist() == pytest.approx([sphere.truncation(V, 8), 1e-3])
    assert run_of(SFLM, truncate=False).signal(torch.zeros(1)).item() == pytest.approx(1.0)


def test_the_loss_reaches_the_embedding_through_the_state_and_spares_the_prompt():
    method = run_of(SFLM).start()
    with torch.no_grad():
        method.network.head.weight.normal_()
        method.network.trunk.modulation.bias.normal_()
    prompt = torch.tensor([[True, False]]).expand(9, 2)
    x = method.noised(examples(ALL, prompt), torch.full((9,), 0.2, dtype=torch.float64))
    torch.testing.assert_close(x[:, 0], method.network.directions(ALL)[:, 0])
    (part,) = method.parts(examples(ALL, prompt))
    part.loss.backward()
    assert method.network.embedding.grad.abs().sum() > 0


def test_the_clock_is_fitted_from_what_was_seen_and_goes_into_the_average():
    import copy

    method = run_of(SFLM).start()
    ema = copy.deepcopy(method.network)
    for step in range(951, 1_001):
        rows = (torch.arange(9) + rng.uniform(torch.tensor([step]), 9)[0]) / 9
        method.network.latest.copy_(torch.stack((rows, torch.sigmoid((rows - 0.5) / 0.1)), -1))
        method.after_step(step, ema)
        assert int(method.network.fits) == int(step == 1_000)
    assert torch.equal(ema.clock, method.network.clock)
    assert method.network.clock[500].item() == pytest.approx(0.5, abs=0.05)
    assert method.network.clock[250].item() > 0.3  # times are dense where the loss rises
    (part,) = method.parts(examples(ALL))
    assert part.loss.isfinite()
    assert {"clock", "density", "fits", "seen"} <= method.network.state_dict().keys()


def test_without_the_adaptive_clock_nothing_is_remembered():
    method = run_of(SFLM, adaptive=False).start()
    list(method.parts(examples(ALL)))
    method.after_step(1, method.network)
    assert not method.network.latest.any()
    assert not method.network.seen.any()
