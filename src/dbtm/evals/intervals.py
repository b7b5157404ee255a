"""How far a share of successes can be trusted."""

from math import sqrt
from statistics import NormalDist


def wilson(successes: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion: the p with |successes / total - p| <= z sqrt(p (1 - p) / total).

    Unlike the usual p +- z sqrt(p (1 - p) / n), it keeps its coverage where nearly all or nearly none succeed, which is
    where solve rates live: 2000 of 2000 gives 99.8 to 100 %, not a certainty.
    """
    if not 0 <= successes <= total or total < 1:
        raise ValueError(f"{successes} of {total} is not a share")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, weight = successes / total, z * z / total
    centre = (rate + weight / 2) / (1 + weight)
    reach = sqrt(rate * (1 - rate) * weight + weight * weight / 4) / (1 + weight)
    # at the ends the interval touches 0 or 1 exactly, which rounding would miss by an ulp
    low = 0.0 if successes == 0 else centre - reach
    high = 1.0 if successes == total else centre + reach
    return low, high
