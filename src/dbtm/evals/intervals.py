"""How far a share of successes can be trusted."""


def wilson(successes: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion: the p with |successes / total - p| <= z sqrt(p (1 - p) / total).

    Unlike the usual p +- z sqrt(p (1 - p) / n), it keeps its coverage where nearly all or nearly none succeed, which is
    where solve rates live: 2000 of 2000 gives 99.8 to 100 %, not a certainty. At the ends it touches 0 or 1 exactly.
    """
    if not 0 <= successes <= total or total < 1:
        raise ValueError(f"{successes} of {total} is not a share")
    from scipy.stats import binomtest  # takes about a second to import

    interval = binomtest(successes, total).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)
