"""Planned rounds against all possible plans, and for distributions whose best plan is known."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch

from dbtm.simplex import plan_rounds, spread
from dbtm.simplex.commit import planned_count
from dbtm.simplex.plan import UNIT, falling, filled, known_counts, plans, round_costs


def compositions(L, k):
    """All ways to write L as k sizes."""
    for cuts in combinations(range(1, L), k - 1):
        yield tuple(b - a for a, b in pairwise((0, *cuts, L)))


def lost(H, sizes):
    """The sum of the rounds' total correlations, by definition."""
    total, m = 0.0, 0
    for size in sizes:
        total += max(0.0, sum(H[m, i] - H[i, i] for i in range(m, m + size)))
        m += size
    return total


@pytest.mark.parametrize("L", range(1, 9))
def test_no_plan_loses_less(L):
    """For any H: decreasing with the number of known places, as entropies are, or not, as estimates may be."""
    generator = np.random.default_rng(L)
    for monotone in (True, False):
        H = generator.random((L, L))
        H = np.sort(H, axis=0)[::-1] if monotone else H
        for k in range(1, L + 1):
            sizes = plan_rounds(H, k)
            assert (sum(sizes), len(sizes), min(sizes) >= 1) == (L, k, True)
            assert lost(H, sizes) <= min(lost(H, each) for each in compositions(L, k)) + L * UNIT
        assert plans(H, [1, 3, L, 20]) == {k: plan_rounds(H, k) for k in (1, 3, L, 20)}


@pytest.mark.parametrize("k", [1, 3, 5, 8, 20])
def test_a_product_law_loses_nothing_and_has_equal_rounds(k):
    H = np.tile(np.random.default_rng(0).random(8), (8, 1))
    assert round_costs(H).max() == 0
    left, sizes = 8, []
    while left:  # eq:commit-rule's floor
        sizes.append(-(-left // max(1, k - len(sizes))))
        left -= sizes[-1]
    assert plan_rounds(H, k) == tuple(sizes)


def test_from_as_many_rounds_as_places_on_each_commits_one():
    H = np.sort(np.random.default_rng(0).random((6, 6)), axis=0)[::-1]
    for k in (6, 7, 100):
        assert plan_rounds(H, k) == (1,) * 6
    assert plan_rounds(H, 1) == (6,)


def chain_entropies(L, stay, states=3):
    """H[m, i] of a stationary symmetric Markov chain in the spread order, exactly."""
    P = np.full((states, states), (1 - stay) / (states - 1)) + np.eye(states) * (stay - (1 - stay) / (states - 1))
    power = [np.linalg.matrix_power(P, d) for d in range(L + 1)]
    entropy = lambda p: float(-(p * np.log(p)).sum(-1).mean())  # noqa: E731
    order = (-spread(L)).argsort().tolist()
    H = np.zeros((L, L))
    for m in range(L):
        for i in range(m, L):
            left = max((at for at in order[:m] if at < order[i]), default=None)
            right = min((at for at in order[:m] if at > order[i]), default=None)
            if left is None and right is None:
                H[m, i] = np.log(states)
            elif left is None or right is None:
                H[m, i] = entropy(power[abs(order[i] - (right if left is None else left))][:1])
            else:  # p(x | a, b) for the neighbours' values a, b
                near, far = power[order[i] - left], power[right - order[i]]
                joint = near[:, :, None] * far[None]  # a, x, b
                law = joint / joint.sum(1, keepdims=True)
                H[m, i] = -(joint * np.log(law)).sum() / states
    return H


def test_the_entropies_of_a_chain_are_those_of_its_joint_law():
    """A test of the oracle: the entropies by the chain rule add up to that of the chain."""
    L, stay = 8, 0.8
    H = chain_entropies(L, stay)
    step = -(stay * np.log(stay) + (1 - stay) * np.log((1 - stay) / 2))
    assert np.trace(H) == pytest.approx(np.log(3) + (L - 1) * step, rel=1e-9)
    assert lost(H, (L,)) == pytest.approx(L * np.log(3) - np.trace(H), rel=1e-9)


@pytest.mark.parametrize("k", [3, 4, 5])
def test_rounds_of_a_chain_grow(k):
    """Early places lie far apart; late ones lie between known neighbours and depend only on these."""
    H = chain_entropies(32, 0.9)
    sizes = plan_rounds(H, k)
    assert [*sizes] == sorted(sizes)
    assert sizes[-1] > 32 / k > sizes[0]
    equal = plan_rounds(np.ones((32, 32)), k)
    assert lost(H, sizes) < 0.75 * lost(H, equal)


def test_entropies_between_rows_are_interpolated():
    assert known_counts(32) == [*range(32)]
    assert len(known_counts(128)) <= 16
    assert {0, 127} <= {*known_counts(128)}
    H = np.triu(np.random.default_rng(0).random((7, 7)))
    assert np.array_equal(filled({m: H[m, m:] for m in range(7)}), H)
    H = chain_entropies(64, 0.9)
    for k in (4, 8, 12):
        near = plan_rounds(filled({m: H[m, m:] for m in known_counts(64)}), k)
        assert lost(H, near) < 1.1 * lost(H, plan_rounds(H, k)) + 0.02


def test_estimates_that_rise_are_levelled():
    """The nearest decreasing column: rising entries are averaged with those before them; falling ones stay."""
    H = np.array([[3.0, 5.0, 6.0, 1.0], [0, 7.0, 2.0, 3.0], [0, 0, 4.0, 2.0], [0, 0, 0, 0.5]])
    want = np.array([[3.0, 6.0, 6.0, 2.0], [0, 6.0, 3.0, 2.0], [0, 0, 3.0, 2.0], [0, 0, 0, 0.5]])
    assert np.allclose(falling(H), want)
    exact = chain_entropies(16, 0.9)
    noisy = exact + np.triu(np.random.default_rng(0).normal(0, 0.05, exact.shape))
    assert np.allclose(falling(exact), exact, rtol=1e-12)
    assert np.square(falling(noisy) - exact).sum() < np.square(noisy - exact).sum()


def test_a_place_between_two_rows_falls_as_those_behind():
    """Rows 0, 2 and 3 of four places whose entropies halve when two places become known."""
    H = filled({0: np.array([2.0, 4.0, 6.0, 8.0]), 2: np.array([3.0, 4.0]), 3: np.array([1.0])})
    assert H[1, 1:].tolist() == [3.0, 4.5, 6.0]


@pytest.mark.parametrize("sizes", [(1,), (5, 1, 2), (12, 3, 2, 2, 1, 1, 1, 2)])
def test_a_plan_fits_any_number_of_positions(sizes):
    """Sizes scale with the number of positions, rounded up; no round is empty, and the last commits everything."""
    for free in range(1, 60):
        remaining, taken = torch.tensor([free]), []
        for r in range(1, len(sizes) + 1):
            count = planned_count(torch.tensor([free]), remaining, sizes, r).clamp(max=int(remaining))
            remaining = remaining - count
            taken.append(int(count))
            assert count >= 1
            assert sum(taken) >= free * sum(sizes[:r]) / sum(sizes)
            if not remaining:
                break
        assert sum(taken) == free
        if free == sum(sizes):
            assert tuple(taken) == sizes
