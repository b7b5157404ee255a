"""The trade-off of perplexity against entropy: the frontier of a sweep, and perplexity at equal entropy.

A point (entropy, perplexity) is on the frontier if no other has both higher entropy and lower perplexity. Between
neighbours perplexity is interpolated linearly in entropy, as in the paper's tables (tab:decode-frontier-lm1b); there
is no extrapolation.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Point(NamedTuple):
    """One setting of a sweep."""

    entropy: float
    perplexity: float
    row: int = 0
    """Index of its row."""


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other dominates, by rising entropy and perplexity."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (-p.entropy, p.perplexity)):
        if not kept or point.perplexity < kept[-1].perplexity:
            kept.append(point)
    return kept[::-1]


def perplexity_at(entropy: float, curve: Sequence[Point]) -> float | None:
    """Perplexity of a frontier at an entropy, by linear interpolation; None outside its range."""
    for left, right in pairwise(curve):
        if left.entropy <= entropy <= right.entropy:
            share = (entropy - left.entropy) / (right.entropy - left.entropy)
            return left.perplexity + share * (right.perplexity - left.perplexity)
    alone = [point.perplexity for point in curve if point.entropy == entropy]
    return alone[0] if alone else None


def lowest(points: Sequence[Point]) -> Point | None:
    """The lowest perplexity at any entropy, the frontier's low end: "Best" in tab:decode-frontier-lm1b."""
    return min(points, key=lambda point: (point.perplexity, -point.entropy), default=None)


def best_near(entropy: float, points: Sequence[Point], within: float) -> Point | None:
    """The lowest perplexity among points with an entropy near this one; None if there are none."""
    near = [point for point in points if abs(point.entropy - entropy) <= within]
    return min(near, key=lambda point: point.perplexity, default=None)
