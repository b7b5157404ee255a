"""Pairs of times, and the target of two steps on the exact flow."""

from dataclasses import replace

import pytest
import torch

from dbtm.methods.flow.pairs import draw_pairs, two_steps
from dbtm.methods.flow.readout import Readout
from dbtm.simplex.flowmap import eulerian
from tests.methods.flow.exact import DELTA_2_7, Exact, X, denoiser, two_time
from tests.methods.reference import L, examples

N = 512


def batch(n=N):
    return replace(examples(torch.zeros(n, L, dtype=torch.int64)), place=torch.arange(n))


def test_every_second_row_has_one_time_and_the_others_a_step_inside_the_unit_interval():
    pairs = draw_pairs(batch(), N, edge=0.0)
    even = torch.arange(N) % 2 == 0
    assert torch.equal(pairs.s[even], pairs.t[even])
    assert torch.equal(pairs.s[pairs.same], pairs.s[even])
    assert (pairs.s < pairs.t)[~even].all()
    assert (pairs.t <= 1).all()
    assert (pairs.s >= 0).all()


def test_distances_are_even_and_starts_even_given_the_distance():
    """E d = 1/2 and E s = E (1 - d) / 2 = 1/4, over many steps' batches."""
    drawn = [
        draw_pairs(replace(batch(), step=step, sample_key=batch().sample_key + step), N, 0.0) for step in range(20)
    ]
    s, d = (torch.cat([x[1::2] for x in values]) for values in zip(*((p.s, p.t - p.s) for p in drawn), strict=True))
    assert d.mean() == pytest.approx(0.5, abs=0.02)
    assert s.mean() == pytest.approx(0.25, abs=0.02)
    share = s / (1 - d)
    assert share.mean() == pytest.approx(0.5, abs=0.02)
    assert torch.corrcoef(torch.stack((share, d)))[0, 1].abs() < 0.05


def test_rows_from_anywhere_in_the_batch_have_both_kinds():
    pairs = draw_pairs(replace(batch(4), place=torch.tensor([0, 128, 256, 384])), N, edge=0.0)
    assert torch.equal(pairs.s[pairs.same], pairs.t[pairs.same])
    assert (pairs.s < pairs.t)[pairs.apart].all()


def test_some_rows_go_all_the_way():
    pairs = draw_pairs(batch(), N, edge=1 / 4)
    whole = (pairs.s == 0) & (pairs.t == 1)
    assert not whole[pairs.same].any()
    assert 40 <= whole[pairs.apart].sum() <= 90  # a quarter of 256: 64


@pytest.mark.parametrize("cut", [1, 3, 64])
def test_a_split_batch_has_the_same_pairs(cut):
    whole = batch(96)
    want = draw_pairs(whole, 96, 1 / 32)
    for first in range(0, 96, cut):
        rows = slice(first, first + cut)
        part = replace(
            whole,
            tokens=whole.tokens[rows],
            prompt=whole.prompt[rows],
            sample_key=whole.sample_key[rows],
            place=whole.place[rows],
        )
        got = draw_pairs(part, 96, 1 / 32)
        assert torch.equal(got.s, want.s[rows])
        assert (got.s[got.same] == got.t[got.same]).all()
        assert len(got.s[got.same]) + len(got.s[got.apart]) == len(got.s)


@pytest.mark.parametrize(("s", "u", "t"), [(0.2, 0.45, 0.7), (0.0, 0.3, 0.9), (0.5, 0.6, 0.62)])
def test_two_exact_steps_are_one(s, u, t):
    network = Exact(lambda x, a, b: two_time(x, a, b, steps=500), learn=False)
    times = tuple(torch.tensor([x], dtype=torch.float64) for x in (s, u, t))
    linear = tuple(x[:, None].expand(1, L) for x in times)
    read = lambda h, times: network.hidden(h, times=times)[0]  # noqa: E731
    target = two_steps(read, Readout(network, 0.0), X, times, linear)(torch.arange(L))
    want = two_time(X, times[0], times[2], steps=1_000)[0]
    torch.testing.assert_close(target, want, atol=1e-10, rtol=0)
    if (s, t) == (0.2, 0.7):
        torch.testing.assert_close(target, DELTA_2_7[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize(("s", "t"), [(0.2, 0.7), (0.05, 0.95), (0.4, 0.41)])
def test_the_eulerian_teacher_is_the_exact_map(s, t):
    """Derivatives of log delta by central differences of the exact flow; logits are known up to a constant."""
    s, t = (torch.tensor([x], dtype=torch.float64) for x in (s, t))
    want, log = two_time(X, s, t, steps=500), lambda *inputs: two_time(*inputs, steps=500).log()
    d = denoiser(X, s)
    b, e = (d - X) / (1 - s), 1e-5
    dz = (log(X + e * b, s + e, t) - log(X - e * b, s - e, t)) / (2 * e)
    got, least = eulerian(d.log(), want.log() + 3.0, dz - 1.7, s, t)
    torch.testing.assert_close(got, want, atol=2e-9, rtol=0)
    assert least.min() > 0
