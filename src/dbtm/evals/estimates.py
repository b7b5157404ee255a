"""Sample estimates with 95 % intervals."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from dbtm.evals.intervals import wilson

_Z = NormalDist().inv_cdf(0.975)


class Estimate(NamedTuple):
    """A number and its 95 % interval; NaN if unavailable."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def through(self, rising: Callable[[float], float]) -> "Estimate":
        """The estimate of an increasing function of the number."""
        return Estimate(*map(rising, self))

    def document(self, name: str) -> dict[str, Any]:
        """NAME, NAME_low and NAME_high for JSON: NaN becomes null."""
        value, low, high = (x if math.isfinite(x) else None for x in self)
        return {name: value, f"{name}_low": low, f"{name}_high": high}


def ratio_of_sums(total_B: np.ndarray, count_B: np.ndarray) -> Estimate:
    """sum(total) / sum(count) over independent samples, with the delta method's interval."""
    total, count, n = total_B.sum(), count_B.sum(), len(total_B)
    if not count:
        return Estimate(math.nan)
    rate = float(total / count)
    if n < 2:
        return Estimate(rate)
    error = math.sqrt(n / (n - 1) * ((total_B - rate * count_B) ** 2).sum()) / count
    return Estimate(rate, rate - _Z * error, rate + _Z * error)


def share(hits_B: np.ndarray) -> Estimate:
    """Average of values that are 0 or 1, with Wilson's interval, which stays within 0 and 1."""
    hits, n = int(hits_B.sum()), len(hits_B)
    return Estimate(hits / n, *wilson(hits, n))


def mean(values_B: np.ndarray) -> Estimate:
    """Average with its normal interval."""
    average = float(values_B.mean())
    if len(values_B) < 2:
        return Estimate(average)
    error = float(values_B.std(ddof=1)) / math.sqrt(len(values_B))
    return Estimate(average, average - _Z * error, average + _Z * error)
