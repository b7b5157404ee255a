"""The frontier against its definition, and interpolation on it against the paper's own table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbtm.evals.sweep.frontier import Point, best_near, frontier, lowest, perplexity_at

few = st.integers(0, 9).map(float)  # whole numbers, so that ties happen
points = st.lists(st.builds(Point, few, few.map(lambda x: x + 1)), max_size=12)


@given(points)
def test_what_is_kept_is_beaten_by_nothing_and_beats_the_rest(found):
    curve = frontier(found)
    assert [p.entropy for p in curve] == sorted({p.entropy for p in curve})
    assert [p.perplexity for p in curve] == sorted({p.perplexity for p in curve})
    for p in curve:
        assert not [q for q in found if q.entropy > p.entropy and q.perplexity < p.perplexity]
    for q in found:
        assert any(p.entropy >= q.entropy and p.perplexity <= q.perplexity for p in curve)


@given(points, st.floats(-1, 10))
def test_interpolation_stays_between_its_neighbours(found, entropy):
    curve = frontier(found)
    value = perplexity_at(entropy, curve)
    inside = bool(curve) and curve[0].entropy <= entropy <= curve[-1].entropy
    assert (value is not None) == inside
    if value is not None:
        below = max(p.perplexity for p in curve if p.entropy <= entropy)
        above = min(p.perplexity for p in curve if p.entropy >= entropy)
        assert below - 1e-9 <= value <= above + 1e-9
    for p in curve:
        assert perplexity_at(p.entropy, curve) == pytest.approx(p.perplexity)


def test_linear_as_in_the_papers_table():
    """tab:decode-frontier-owt, 1 NFE, DBTM + ril (attn): 423.6 at 5.35, 609.6 at 5.50, and what stands between."""
    curve = [Point(5.35, 423.6), Point(5.50, 609.6)]
    assert perplexity_at(5.40, curve) == pytest.approx(485.6)
    assert perplexity_at(5.45, curve) == pytest.approx(547.6)


def test_the_best_is_near_enough():
    found = [Point(1.0, 5.0), Point(3.0, 20.0), Point(3.1, 10.0), Point(3.3, 1.0)]
    assert best_near(3.0, found, 0.2) == found[2]
    assert best_near(2.0, found, 0.2) is None


@given(points)
def test_the_papers_best_is_the_frontiers_low_end(found):
    """tab:decode-frontier-lm1b: its entropy is where each row's range begins (44.2 at 3.832, range 3.83-4.47)."""
    curve = frontier(found)
    assert lowest(found) == (curve[0] if curve else None)
    assert lowest([Point(3.83, 44.2), Point(3.90, 46.6), Point(4.47, 200.0)]) == Point(3.83, 44.2)
