"""Confidence intervals of a proportion, and of a mean over runs."""

import math
from collections.abc import Sequence
from statistics import fmean


def wilson(successes: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion: the p with |successes / total - p| <= z sqrt(p (1 - p) / total).

    Unlike the usual p +- z sqrt(p (1 - p) / n), it keeps its coverage if nearly all or nearly none succeed, as for
    many solve rates: 2000 of 2000 gives 99.8 to 100 %. At the ends it reaches 0 or 1 exactly.
    """
    if not 0 <= successes <= total or total < 1:
        raise ValueError(f"{successes} of {total} is not a share")
    from scipy.stats import binomtest  # takes about a second to import

    interval = binomtest(successes, total).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def over_seeds(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval of the mean over runs of different seeds; NaN for a single run.

    It includes all differences between runs, also those of sampling. With three runs its half-width is 2.5 standard
    deviations of a run.
    """
    if len(values) < 2:
        return math.nan, math.nan
    from scipy.stats import sem, t

    center, error = fmean(values), float(sem(values))
    if not error:
        return center, center
    low, high = t.interval(confidence, len(values) - 1, loc=center, scale=error)
    return float(low), float(high)


def welch(one: Sequence[float], other: Sequence[float]) -> float | None:
    """p of Welch's test that two sets of runs have the same mean; None if one has a single run, or none vary."""
    if len(one) < 2 or len(other) < 2 or len({*one}) == len({*other}) == 1:
        return None
    from scipy.stats import ttest_ind

    return float(ttest_ind(one, other, equal_var=False).pvalue)
