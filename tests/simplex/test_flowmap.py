"""Maps along a flow: shares, steps and fresh noise against their definitions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dbtm.simplex.flowmap import advance, churn_target, churned, first_share, renoised

pytestmark = pytest.mark.usefixtures("double")
unit = st.floats(0.001, 0.999)


@given(st.lists(unit, min_size=3, max_size=3, unique=True))
def test_the_first_share_lies_between_0_and_1_and_adds_up(times):
    """Two steps equal one step whose delta is weighted by the shares, for any distributions."""
    s, u, t = (torch.tensor(x) for x in sorted(times))
    g = first_share(s, u, t)
    assert 0 <= g <= 1
    x, first, second = torch.randn(3), torch.rand(3), torch.rand(3)
    two_steps = advance(advance(x, first, s, u), second, u, t)
    torch.testing.assert_close(advance(x, g * first + (1 - g) * second, s, t), two_steps, atol=1e-9, rtol=1e-9)


def test_the_share_at_the_ends():
    one = torch.tensor(1.0)
    assert first_share(torch.tensor(0.2), torch.tensor(0.6), one) == 0
    s = torch.tensor(0.3)
    assert first_share(s, s + 5e-7, s + 1e-6) == pytest.approx(0.5, abs=1e-4)
    for clean in (first_share(one, one, one), first_share(s, s, s)):
        assert clean == 0  # the state does not move


def test_a_clean_token_stays():
    x, one = torch.randn(2, 3), torch.ones(2, 1)
    torch.testing.assert_close(advance(x, torch.rand(2, 3), one, one), x, rtol=0, atol=0)


def test_steps_start_and_end_where_they_should():
    x, delta = torch.randn(4), torch.rand(4)
    s, one = torch.tensor(0.4), torch.tensor(1.0)
    torch.testing.assert_close(advance(x, delta, s, s), x)
    torch.testing.assert_close(advance(x, delta, s, one), delta)


@pytest.mark.parametrize("churn", [0.0, 0.3, 0.99, 1.0])
@pytest.mark.parametrize(("now", "after"), [(0.0, 0.5), (0.3, 0.6)])
def test_fresh_noise_has_the_right_share_of_signal_and_noise(churn, now, after):
    """From x = (1 - now) e + now delta, the result is after delta + noise of scale 1 - after, old and new combined."""
    delta, old, new = torch.rand(5), torch.randn(5), torch.randn(5)
    x = (1 - now) * old + now * delta
    reached = churn_target(after, churn)
    want = after * delta + (1 - reached) * old + churn * (1 - after) * new
    torch.testing.assert_close(churned(x, delta, new, now, after, churn), want)
    assert (1 - reached) ** 2 + (churn * (1 - after)) ** 2 == pytest.approx((1 - after) ** 2)
    if churn == 0:
        times = (torch.tensor(now), torch.tensor(after))
        torch.testing.assert_close(churned(x, delta, new, now, after, 0.0), advance(x, delta, *times))


def test_going_back_by_fresh_noise_is_exact():
    """From t delta + (1 - t) e to an earlier time: the same signal, variances add up."""
    delta, old, new = torch.rand(5), torch.randn(5), torch.randn(5)
    got = renoised(0.8 * delta + 0.2 * old, new, 0.8, 0.5)
    a, b = 0.5 / 0.8 * 0.2, (0.5**2 - (0.5 / 0.8 * 0.2) ** 2) ** 0.5
    torch.testing.assert_close(got, 0.5 * delta + a * old + b * new)
    assert a**2 + b**2 == pytest.approx(0.25)
