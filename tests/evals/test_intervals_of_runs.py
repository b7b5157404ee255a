"""Intervals and tests over runs, against the formulas."""

import math

import pytest
from scipy.stats import t

from dbtm.evals.intervals import over_seeds, welch


def test_students_interval():
    low, high = over_seeds([1.0, 2.0, 4.0])
    mean, deviation = 7 / 3, math.sqrt(((1 - 7 / 3) ** 2 + (2 - 7 / 3) ** 2 + (4 - 7 / 3) ** 2) / 2)
    half = t.ppf(0.975, 2) * deviation / math.sqrt(3)
    assert (low, high) == (pytest.approx(mean - half), pytest.approx(mean + half))


def test_one_run_has_no_interval_and_equal_runs_a_point():
    assert all(map(math.isnan, over_seeds([1.0])))
    assert over_seeds([2.0, 2.0]) == (2.0, 2.0)


def test_welchs_test():
    one, two = [1.0, 2.0, 3.0], [4.0, 6.0, 8.0]
    se = [1 / 3, 4 / 3]  # variance / n
    statistic = (6 - 2) / math.sqrt(sum(se))
    freedom = sum(se) ** 2 / (se[0] ** 2 / 2 + se[1] ** 2 / 2)
    assert welch(one, two) == pytest.approx(2 * t.sf(statistic, freedom))
    assert welch([1.0], two) is None
    assert welch([1.0, 1.0], [2.0, 2.0]) is None
