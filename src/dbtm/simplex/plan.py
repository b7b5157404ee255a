"""Planned rounds: how many positions each round commits, for a fixed order.

The positions of one round are drawn independently of each other, given those of earlier rounds. So a round that commits
places m .. n - 1 of the order (counted from 0) loses their total correlation given the first m places,

    cost(m, n) = sum_{m <= i < n} H[m, i] - H[i, i],         H[m, i] = H(x_i | x_0 .. x_{m-1}), averaged over data,

and a plan loses the sum over its rounds. The best plan is a shortest path from 0 to L over k edges. For a product
distribution every plan costs nothing. For a Markov chain in the spread order, a plan should commit few positions first
and many last, when they lie between known neighbours.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

MOST_PLACES = 4096  # largest number of rows and columns of the cost matrix
UNIT = 1e-6  # nats: plans whose costs differ by less count as equal


def round_costs(H: np.ndarray) -> np.ndarray:
    """cost(m, n) in nats, (L, L + 1). Information is never negative, so negative estimates count as 0."""
    L = len(H)
    lost = np.triu(H - np.diagonal(H))  # [m, i]: loss of place i if it is drawn with the first m known
    return np.concatenate((np.zeros((L, 1)), lost.cumsum(1)), 1).clip(min=0.0)


def plan_rounds(H: np.ndarray, k: int) -> tuple[int, ...]:
    """The sizes of min(k, L) rounds with the least loss, exact to `UNIT` per round; of equal plans, the most even."""
    return plans(H, [k])[k]


def plans(H: np.ndarray, budgets: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """`plan_rounds` for several budgets at the cost of the largest."""
    L, budgets = len(H), sorted({*budgets})
    steps = np.arange(L + 1) - np.arange(L)[:, None]
    # integers, so that ties are exact: the loss comes first, then the sum of squared sizes
    edges = np.round(round_costs(H) / UNIT).astype(np.int64) * (L * L + 1) + steps**2
    never = np.iinfo(np.int64).max // 4
    edges = np.where(steps > 0, edges, never)
    best, back, out = np.full(L + 1, never), list[np.ndarray](), {}
    best[0] = 0
    for k in range(1, min(max(budgets), L) + 1):
        total = best[:L, None] + edges
        back.append(L - 1 - total[::-1].argmin(0))  # the last one of equals: larger rounds come first
        best = np.minimum(total.min(0), never)
        if k in budgets:
            out[k] = _sizes(back, L)
    return {k: out[k] if k in out else (1,) * L for k in budgets}


def _sizes(back: Sequence[np.ndarray], end: int) -> tuple[int, ...]:
    """The rounds of the best path to `end`, from the predecessors `back`."""
    sizes = []
    for begins in reversed(back):
        sizes.append(end - int(begins[end]))
        end = int(begins[end])
    return tuple(reversed(sizes))


def known_counts(L: int, all_to: int = 32) -> list[int]:
    """The numbers of known places for which H is estimated: all for up to `all_to` places; for more places, powers of
    two, eighths and the last one, about 16.
    """
    if all_to >= L:
        return list(range(L))
    powers = (1 << i for i in range((L - 1).bit_length()))
    return sorted({0, L - 1, *powers, *(L * i // 8 for i in range(8))})


def falling(H: np.ndarray) -> np.ndarray:
    """The least-squares fit to H with decreasing columns: average entropies never rise as more becomes known. An
    estimate may rise, by noise or because the map is imperfect; its places would then seem to cost nothing.
    """
    from scipy.optimize import isotonic_regression

    H = H.copy()
    for i in range(1, len(H)):
        H[: i + 1, i] = isotonic_regression(H[: i + 1, i], increasing=False).x
    return H


def filled(rows: Mapping[int, np.ndarray]) -> np.ndarray:
    """H (L, L) from its rows H[m, m:] for some m, including 0 and L - 1; linear in m between them.

    A place that is known at the next row has no entropy there. Its entropy is assumed to fall by the same factor as
    that of the next unknown places.
    """
    counts = sorted(rows)
    L = counts[-1] + 1
    H = np.zeros((L, L))
    for m, entropy in rows.items():
        H[m, m:] = entropy
    for low, high in pairwise(counts):
        behind = slice(high, min(L, 2 * high - low))
        before = H[low, behind].sum()
        factor = H[high, behind].sum() / before if before > 0 else 1.0
        target = np.concatenate((factor * H[low, low:high], H[high, high:]))
        for m in range(low + 1, high):
            share = (m - low) / (high - low)
            H[m, m:] = ((1 - share) * H[low, low:] + share * target)[m - low :]
    return H
