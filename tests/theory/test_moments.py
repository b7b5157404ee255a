"""The quadrature behind the field, against closed forms and 30-digit integration."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erfcx

from dbtm.theory.moments import log_moment_pair


def exact_log_moment(z: float, L: float, m: float) -> float:
    """log M_m(z, L) in 30 digits, scaled by the peak so that nothing overflows."""
    with mp.workdps(30):
        z, L, m = mp.mpf(z), mp.mpf(L), mp.mpf(m)
        peak = max((z + mp.sqrt(z * z + 4 * m)) / 2, L)
        spread = 1 / mp.sqrt(1 + m / (peak * peak + mp.mpf(10) ** -40))
        cuts = [L] + [
            c for c in (peak - 8 * spread, peak - 2 * spread, peak, peak + spread / 8, peak + 3, peak + 30) if c > L
        ]

        def log_f(y):
            return (m * mp.log(y) if m else 0) - y * y / 2 + z * y

        top = log_f(peak) if peak > 0 else mp.mpf(0)
        return float(mp.log(mp.quad(lambda y: mp.exp(log_f(y) - top) if y > 0 else mp.mpf(m == 0), cuts)) + top)


@pytest.mark.parametrize("V", [2, 3, 10, 5000])
@pytest.mark.parametrize("a", [1.0, 1.5, 3.0])
def test_moments_match_high_precision_integration(V: int, a: float) -> None:
    cases = [(z, L) for z in (-10.0, -0.3, 1.0) for L in (1e-9, 1.0, 2.0 * np.sqrt(V))]
    z, L = np.array(cases).T
    low, high = log_moment_pair(z, L, V - 1 - 1 / a, 1 / a)
    for k, (zk, Lk) in enumerate(cases):
        assert low[k] == pytest.approx(exact_log_moment(zk, Lk, V - 1 - mp.mpf(1) / a), abs=2e-11, rel=1e-14)
        assert high[k] == pytest.approx(exact_log_moment(zk, Lk, V - 1), abs=2e-11, rel=1e-14)


@settings(deadline=None, max_examples=50)
@given(z=st.floats(-3, 3), L=st.floats(0, 20))
def test_first_moments_match_the_error_function(z: float, L: float) -> None:
    """M_0 and M_1 have closed forms: f(L) sqrt(pi/2) erfcx((L - z)/sqrt 2), and f(L) + z M_0."""
    log_0, log_1 = log_moment_pair(np.array([z]), np.array([L]), 0.0, 1.0)
    mills = np.sqrt(np.pi / 2) * erfcx((L - z) / np.sqrt(2))
    assert log_0[0] == pytest.approx(L * (z - L / 2) + np.log(mills), abs=1e-10)
    assert log_1[0] == pytest.approx(L * (z - L / 2) + np.log(1 + z * mills), abs=1e-9)
