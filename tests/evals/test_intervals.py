import subprocess
import sys
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbtm.evals.intervals import wilson


@settings(deadline=None)  # the first interval imports scipy.stats
@given(st.data(), st.integers(1, 5000), st.sampled_from([0.5, 0.95, 0.99]))
def test_wilson_solves_its_equation(data, total, confidence):
    """The ends are the two p with (k/n - p)^2 = z^2 p (1 - p) / n, a quadratic in p."""
    successes = data.draw(st.one_of(st.just(0), st.just(total), st.integers(0, total)))
    rate, weight = successes / total, NormalDist().inv_cdf((1 + confidence) / 2) ** 2 / total
    roots = np.roots([1 + weight, -2 * rate - weight, rate**2])
    assert wilson(successes, total, confidence) == pytest.approx(sorted(roots.real), abs=1e-9)


def test_a_published_interval():
    """Newcombe (1998), Statistics in Medicine 17, table I, method 3: 81 of 263, 15 of 148, 1 of 29."""
    for successes, total, wanted in (
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (1, 29, (0.0061, 0.1718)),
    ):
        assert wilson(successes, total) == pytest.approx(wanted, abs=5e-5)


def test_the_ends_are_exact():
    assert wilson(0, 7)[0] == 0
    assert wilson(7, 7)[1] == 1
    assert all(type(end) is float for end in wilson(0, 7)), "JSON takes no NumPy numbers"


@pytest.mark.parametrize(("successes", "total"), [(3, 2), (-1, 2), (0, 0)])
def test_what_is_no_share_is_refused(successes, total):
    with pytest.raises(ValueError, match="not a share"):
        wilson(successes, total)


def test_scipy_is_imported_with_the_first_interval_only():
    code = "import sys, dbtm.evals.intervals; assert 'scipy.stats' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
