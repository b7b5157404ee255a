import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from dbtm.evals.intervals import wilson


@given(st.data(), st.integers(1, 5000), st.sampled_from([0.5, 0.95, 0.99]))
def test_wilson_is_scipys(data, total, confidence):
    successes = data.draw(st.one_of(st.just(0), st.just(total), st.integers(0, total)))
    expected = binomtest(successes, total).proportion_ci(confidence, method="wilson")
    assert wilson(successes, total, confidence) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_ends_are_exact():
    assert wilson(0, 7)[0] == 0
    assert wilson(7, 7)[1] == 1


@pytest.mark.parametrize(("successes", "total"), [(3, 2), (-1, 2), (0, 0)])
def test_what_is_no_share_is_refused(successes, total):
    with pytest.raises(ValueError, match="not a share"):
        wilson(successes, total)
