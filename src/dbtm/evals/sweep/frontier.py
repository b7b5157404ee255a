"""The trade-off of perplexity against entropy: what is worth having of a sweep, and perplexity at equal entropy.

A point (entropy, perplexity) is on the frontier where no other has both more entropy and less perplexity. Between two
neighbours on it perplexity is linear in entropy, as in the paper's tables (tab:decode-frontier-lm1b); outside of its
range there is nothing to say.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Point(NamedTuple):
    """One setting of a sweep."""

    entropy: float
    perplexity: float
    row: int = 0
    """Which row it is."""


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats, by rising entropy, and so by rising perplexity."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (-p.entropy, p.perplexity)):
        if not kept or point.perplexity < kept[-1].perplexity:
            kept.append(point)
    return kept[::-1]


def perplexity_at(entropy: float, curve: Sequence[Point]) -> float | None:
    """Perplexity of a frontier at an entropy, by linear interpolation; None outside of it."""
    for left, right in pairwise(curve):
        if left.entropy <= entropy <= right.entropy:
            share = (entropy - left.entropy) / (right.entropy - left.entropy)
            return left.perplexity + share * (right.perplexity - left.perplexity)
    alone = [point.perplexity for point in curve if point.entropy == entropy]
    return alone[0] if alone else None


def lowest(points: Sequence[Point]) -> Point | None:
    """The least perplexity at any entropy, the frontier's low end: "Best" in tab:decode-frontier-lm1b."""
    return min(points, key=lambda point: (point.perplexity, -point.entropy), default=None)


def best_near(entropy: float, points: Sequence[Point], within: float) -> Point | None:
    """The least perplexity among points whose entropy is near enough; None where none is."""
    near = [point for point in points if abs(point.entropy - entropy) <= within]
    return min(near, key=lambda point: point.perplexity, default=None)
