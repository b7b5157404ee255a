"""Arcs on the sphere: identities up to rounding, and the published values of the truncation."""

import itertools
import math

import pytest
import torch

from dbtm.simplex import sphere


def points(*shape, seed=0):
    return sphere.unit(torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))


def test_an_arc_has_its_ends_and_stays_on_the_sphere():
    n, e = points(20, 5), points(20, 5, seed=1)
    for alpha, want in ((0.0, n), (1.0, e)):
        torch.testing.assert_close(sphere.slerp(n, e, torch.tensor(alpha)), want, atol=1e-12, rtol=0)
    middle = sphere.slerp(n, e, torch.tensor(0.3, dtype=torch.float64))
    torch.testing.assert_close(middle.norm(dim=-1), torch.ones(20, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(sphere.angle(n, middle), 0.3 * sphere.angle(n, e), atol=1e-10, rtol=0)


def test_log_and_exp_are_inverse():
    x, e = points(20, 5), points(20, 5, seed=1)
    v = sphere.log_map(x, e)
    torch.testing.assert_close((v * x).sum(-1), torch.zeros(20, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(sphere.exp_map(x, v), e, atol=1e-10, rtol=0)
    torch.testing.assert_close(sphere.exp_map(x, torch.zeros_like(x)), x, atol=1e-15, rtol=0)


@pytest.mark.parametrize("partition", [[0.0, 0.5, 1.0], [0.0, 0.1, 0.15, 0.8, 0.95]])
def test_steps_towards_one_token_follow_its_arc_for_any_partition(partition):
    n, e = points(10, 4), points(10, 4, seed=1)
    x = n
    for a_t, a_s in itertools.pairwise(partition):
        x = sphere.exp_map(x, (a_s - a_t) / (1 - a_t) * sphere.log_map(x, e))
        want = sphere.slerp(n, e, torch.tensor(a_s, dtype=torch.float64))
        torch.testing.assert_close(x, want, atol=1e-10, rtol=0)


def test_the_mean_of_log_maps_is_their_sum():
    x, e = points(6, 4), points(9, 4, seed=1)
    p = torch.rand(6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).softmax(-1)
    want = (p[..., None] * sphere.log_map(x[:, None], e[None])).sum(1)
    torch.testing.assert_close(sphere.mean_log_map(x, p, e), want, atol=1e-12, rtol=0)


def test_coinciding_and_opposite_points_are_finite():
    x = points(3, 4)
    for e in (x, -x):
        assert sphere.log_map(x, e).isfinite().all()
        assert sphere.slerp(x, e, torch.tensor(0.4)).isfinite().all()
        assert sphere.mean_log_map(x, torch.ones(3, 3, dtype=torch.float64) / 3, e).isfinite().all()


@pytest.mark.parametrize(
    ("vocab", "width", "want"),
    [(12, 512, 0.093), (30_522, 768, 0.119), (49_152, 768, 0.121), (8_192, 768, 0.113), (8_192, 512, 0.139)],
)
def test_published_truncations(vocab, width, want):
    assert sphere.truncation(vocab, width) == pytest.approx(want, abs=5e-4)


def test_a_width_too_small_has_no_truncation():
    assert sphere.truncation(1_000, 4) == 1.0
    assert math.isclose(sphere.truncation(8, 64), 0.2570, abs_tol=5e-4)
