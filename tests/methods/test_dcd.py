"""Duo+DCD: the coupling of a path's two points, their distribution, and the optimum of the student."""

import numpy as np
import pytest
import torch

from dbtm.methods.dcd import DCD
from dbtm.simplex import gaussian
from tests.methods.reference import ALL, Formula, P, V, examples, run_of
from tests.methods.test_duo import exact, leave_one_out

N = 60_000


def draw(n, seed=0):
    return ALL[torch.multinomial(P.flatten(), n, replacement=True, generator=torch.Generator().manual_seed(seed))]


def constant(value):
    return torch.full((N,), value, dtype=torch.float64)


def test_the_coupling_sample_by_sample():
    """A token that is clean at t is clean at s < t, and at s there is no third token."""
    x = draw(N)
    z_t, z_s, time_t, time_s = run_of(DCD).pair(examples(x), constant(0.6), constant(0.4))
    assert (z_s[z_t == x] == x[z_t == x]).all()
    assert ((z_s == x) | (z_s == z_t)).all()
    assert ((z_s == x) & (z_t != x)).any()
    assert (time_t > time_s).all()


@pytest.mark.parametrize("t", [0.3, 0.8])
def test_noisy_tokens_have_the_uniform_law_that_the_network_is_told(t):
    method, x = run_of(DCD), torch.full((N, 2), 1)
    z, _, time, _ = method.pair(examples(x), constant(t), constant(t - 0.1))
    alpha = torch.exp(-time[0]).item()
    want = np.full(V, (1 - alpha) / V)
    want[1] += alpha
    counts = np.bincount(z.flatten().numpy(), minlength=V)
    assert (np.abs(counts - 2 * N * want) < 4.5 * np.sqrt(2 * N * want)).all()


def test_the_published_range_follows_from_its_shares():
    method = run_of(DCD)
    object.__setattr__(method.shape, "vocab", 50_257)
    assert method.gammas == pytest.approx((-4, -1), abs=0.05)


def test_given_tokens_are_clean_at_both_points():
    prompt = torch.tensor([[True, False]]).expand(9, 2)
    z_t, z_s, *_ = run_of(DCD).pair(examples(ALL, prompt), constant(0.9)[:9], constant(0.8)[:9])
    assert torch.equal(z_t[:, 0], ALL[:, 0])
    assert torch.equal(z_s[:, 0], ALL[:, 0])


def loss_and_gradient(student_log_p, t, delta):
    """The objective and its gradient for every z_t, from our parts at one time."""
    method = run_of(DCD, rounds=1, grid=round(1 / delta))
    method.network, method.frozen["teacher"] = Formula(student_log_p), exact()
    x = draw(N, seed=3)
    pair = method.pair
    method.pair = lambda batch, t_B, s_B: pair(batch, constant(t), constant(t - delta))
    (part,) = method.parts(examples(x))
    part.loss.backward()
    return part.loss.item(), method.network.shift.grad


def test_the_optimum_is_the_geometric_mean_of_the_teacher_over_what_led_there():
    """E[log D_teacher(z_s) | z_t] by independent dense Gaussians."""
    t, delta, n = 0.7, 0.5, 400_000
    low, high = run_of(DCD).gammas
    rng = np.random.default_rng(0)
    choice = rng.choice(9, n, p=P.flatten().numpy())
    x, noise = ALL.numpy()[choice], rng.standard_normal((n, 2, V))
    states = {}
    for name, at in (("t", t), ("s", t - delta)):
        gamma = low + at * (high - low)
        states[name] = (np.eye(V)[x] * np.exp(-gamma / 2) + noise).argmax(-1)
    alpha = {at: gaussian.clean_share(torch.tensor(low + at * (high - low)), V)[0] for at in (t, t - delta)}
    log_q = leave_one_out(torch.from_numpy(states["s"]), alpha[t - delta].expand(n)).log()
    table = torch.zeros(9, 2, V, dtype=torch.float64)
    place = torch.from_numpy(states["t"][:, 0] * V + states["t"][:, 1])
    counts = torch.bincount(place, minlength=9)
    table.index_add_(0, place, log_q)
    best = (table / counts[:, None, None]).log_softmax(-1)
    at_best, gradient = loss_and_gradient(lambda ids, time: best[ids[:, 0] * V + ids[:, 1]], t, delta)
    elsewhere, other = loss_and_gradient(lambda ids, time: leave_one_out(ids, torch.exp(-time)).log(), t, delta)
    assert gradient.abs().max() < 1e-3
    assert other.abs().max() > 3e-3
    assert at_best < elsewhere


def test_a_student_that_equals_its_teacher_on_one_token_has_no_loss():
    """If the denoiser does not depend on z, as for one token, the two points agree."""
    method = run_of(DCD)
    same = lambda ids, *time: P.sum(1).log().expand(*ids.shape, V)  # noqa: E731
    method.network, method.frozen["teacher"] = Formula(same), Formula(same)
    (part,) = method.parts(examples(ALL))
    assert part.loss.item() == pytest.approx(0, abs=1e-14)


def test_the_distance_doubles_with_every_round():
    method = run_of(DCD, rounds=2, round_steps=5, grid=8)
    method.network, method.frozen["teacher"] = exact(), exact()
    seen = []
    method.pair = lambda batch, t_B, s_B: (seen.append((t_B - s_B).max().item()), DCD.pair(method, batch, t_B, s_B))[1]
    from dataclasses import replace

    for step in (0, 5):
        list(method.parts(replace(examples(ALL), step=step)))
    assert seen == pytest.approx([1 / 8, 1 / 4])
