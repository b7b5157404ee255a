"""Properties of the commit rule for any scores (including ties, infinities and NaN)."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dbtm.simplex import commit, floor_count, spread

scores = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 0.9, 1.0, -math.inf, math.nan])


@st.composite
def rollout(draw):
    """Prompt, budget, threshold and one row of scores per round."""
    L = draw(st.integers(1, 12))
    k = draw(st.integers(1, 8))
    prompt = draw(st.lists(st.booleans(), min_size=L, max_size=L))
    rows = draw(st.lists(st.lists(scores, min_size=L, max_size=L), min_size=k, max_size=k))
    return torch.tensor([prompt]), k, draw(st.sampled_from([0.0, 0.5, 0.9, 2.0])), torch.tensor(rows)


@settings(max_examples=300, deadline=None)
@given(rollout())
def test_properties(case):
    prompt, k, kappa, rows = case
    committed = prompt
    for r in range(1, k + 1):
        score = rows[r - 1][None]
        after = commit(score, committed, r, k, kappa)
        new = after & ~committed
        remaining = int((~committed).sum())
        floor = math.ceil(remaining / (k - r + 1))
        assert (after | ~committed).all(), "monotone: committed positions stay committed"
        assert int(new.sum()) >= floor, "at least n_r per round"
        above = ~committed & (score >= kappa)
        assert (after | ~above).all(), "everything above the threshold"
        assert int(new.sum()) == max(floor, int(above.sum())), "nothing beyond threshold and floor"
        left = ~after & ~committed
        if left.any() and new.any():
            clear = torch.nan_to_num(score, nan=-math.inf, posinf=math.inf, neginf=-math.inf)
            assert clear[new].min() >= clear[left].max(), "the best first"
        assert (new & prompt).sum() == 0
        assert torch.equal(after, commit(score, committed, r, k, kappa)), "deterministic"
        committed = after
    assert committed.all(), "C_k is complete: never more than k rounds"


def test_ties_go_to_the_earlier_position():
    after = commit(torch.full((1, 6), 0.5), torch.tensor([[True, False, False, False, False, False]]), 1, 2, 0.9)
    assert after.tolist() == [[True, True, True, True, False, False]]


def test_floor_counts():
    assert floor_count(torch.tensor([0, 1, 7, 8, 9]), 1, 4).tolist() == [0, 1, 2, 2, 3]
    assert floor_count(torch.tensor([7]), 4, 4).tolist() == [7]


def test_rows_are_independent():
    torch.manual_seed(0)
    score, committed = torch.rand(5, 9), torch.rand(5, 9) < 0.3
    whole = commit(score, committed, 2, 4, 0.8)
    for b in range(5):
        assert torch.equal(whole[b : b + 1], commit(score[b : b + 1], committed[b : b + 1], 2, 4, 0.8))


def test_spread_halves_the_gaps_again_and_again():
    assert spread(8).argsort(descending=True).tolist() == [0, 4, 2, 6, 1, 5, 3, 7]
    committed = torch.zeros(1, 128, dtype=torch.bool)
    for r, step in ((1, 4), (2, 2)):
        committed = commit(spread(128)[None], committed, r, 4, kappa=0.01)
        assert committed[0].nonzero().flatten().tolist() == list(range(0, 128, step))


@given(st.integers(1, 300))
def test_spread_of_any_length(length):
    score = spread(length)
    assert len(set(score.tolist())) == length
    assert score.max() <= 0  # below every threshold
    for many in (length // 4, length // 2):  # no gap is over twice the least possible one
        if many:
            at = sorted(score.topk(many).indices.tolist())
            assert max(b - a for a, b in zip(at, [*at[1:], length], strict=True)) <= 2 * math.ceil(length / many)
