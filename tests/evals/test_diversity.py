"""Repetition statistics against counts by hand."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbtm.evals import diversity

rows = st.integers(1, 12).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(0, 3), min_size=length, max_size=length), min_size=1, max_size=4
    )  # few tokens, so that much repeats
)


@given(rows)
def test_entropy_is_that_of_the_counts(found):
    wanted = [-sum(c / len(row) * math.log(c / len(row)) for c in Counter(row).values()) for row in found]
    np.testing.assert_allclose(diversity.entropies(np.array(found)), wanted, atol=1e-12)


def test_entropy_ends_at_zero_and_at_log_length():
    np.testing.assert_allclose(diversity.entropies(np.array([[7] * 8, [*range(8)]])), [0, math.log(8)], atol=1e-12)


@given(rows, st.integers(1, 4))
def test_distinct_is_the_share_of_different_ngrams(found, n):
    got = diversity.distinct(np.array(found), n)
    for share, row in zip(got, found):
        grams = [tuple(row[i : i + n]) for i in range(len(row) - n + 1)]
        assert math.isnan(share) if not grams else share == pytest.approx(len(set(grams)) / len(grams))


@given(rows)
def test_the_longest_repeat_is_the_longest_string_that_occurs_twice(found):
    for got, row in zip(diversity.longest_repeats(np.array(found)), found):
        text = "".join(map(str, row))
        twice = (
            length
            for length in range(len(text) - 1, 0, -1)
            for at in range(len(text) - length)
            if text.find(text[at : at + length], at + 1) >= 0
        )
        assert got == next(twice, 0)


def test_equal_samples_are_noticed_though_each_is_varied():
    tokens = np.tile(np.arange(16), (4, 1))
    assert diversity.unique_share(tokens) == 0.25
    assert diversity.unique_share(tokens + np.arange(4)[:, None]) == 1
