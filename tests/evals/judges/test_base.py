"""The protocol: what is scored, what is counted, and that batches and windows change neither."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dbtm.evals.judges.base import Judge, counted, windows

END = 0


class Bigram(Judge):
    """Letters a-y are 1-25 and z ends a sequence; a token's NLL is a function of it and the one before it."""

    name, ends, device, dtype = "bigram", frozenset({END}), torch.device("cpu"), torch.float32

    def __init__(self, context=1000):
        self.context, self.batches = context, []

    def encode(self, texts):
        return [[END if c == "z" else ord(c) - 96 for c in text] for text in texts]

    def token_nll(self, ids_BL):
        self.batches.append(tuple(ids_BL.shape))
        return (ids_BL[:, :-1] * 0.01 + ids_BL[:, 1:] * 0.1).float()

    def states(self, ids_BL):
        self.batches.append(tuple(ids_BL.shape))
        return torch.stack([ids_BL, ids_BL.cumsum(1)], -1).float()


def by_hand(ids):
    """The sum and the count of the protocol, token by token."""
    total, count, ended = 0.0, 0, bool(ids) and ids[0] == END
    for before, now in pairwise(ids):
        if now == END and ended:
            continue
        ended = ended or now == END
        total, count = total + 0.01 * before + 0.1 * now, count + 1
    return total, count


texts = st.lists(st.text("abcyz", max_size=30), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(texts, st.integers(2, 12))
def test_scores_are_those_of_each_text_alone(found, context):
    """Neither the other texts of a batch, nor windows, nor a smaller last batch change a sum or a count."""
    judge = Bigram(context)
    scores = judge.score(found)
    wanted = [by_hand(ids) for ids in judge.encode(found)]
    np.testing.assert_allclose(scores.nll_B, [total for total, _ in wanted], rtol=1e-5, atol=1e-6)
    assert scores.tokens_B.tolist() == [count for _, count in wanted]
    assert scores.windowed == sum(len(text) > context for text in found)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text("abcy", max_size=9), st.text("abcyz", max_size=9)), min_size=1, max_size=6))
def test_what_follows_a_beginning_is_scored_alone(halves):
    """The whole text's sum and count less those of its beginning, letter by letter."""
    judge = Bigram()
    scores = judge.score([first + second for first, second in halves], after=[first for first, _ in halves])
    wanted = []
    for first, second in halves:
        whole, before = (by_hand(ids) for ids in judge.encode([first + second, first]))
        wanted.append([whole[0] - before[0], whole[1] - before[1]])
    np.testing.assert_allclose(scores.nll_B, [total for total, _ in wanted], rtol=1e-5, atol=1e-6)
    assert scores.tokens_B.tolist() == [count for _, count in wanted]


@settings(max_examples=30, deadline=None)
@given(texts, st.integers(2, 12))
def test_features_are_the_last_states_of_each_text_alone(found, context):
    judge = Bigram(context)
    rows = [ids[:context] or [0] for ids in judge.encode(found)]
    assert judge.features(found).tolist() == [[ids[-1], sum(ids)] for ids in rows]


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        ([5, 6, 7], [0, 1, 1]),
        ([5, END, 7, END, END], [0, 1, 1, 0, 0]),
        ([END, 5, END], [0, 1, 0]),  # the first end has nothing before it; a later one is not the first
        ([END, END], [0, 0]),
        ([5], [0]),
        ([], []),
    ],
)
def test_all_that_is_no_end_counts_and_the_first_end(ids, wanted):
    assert counted(ids, frozenset({END})).tolist() == [bool(w) for w in wanted]


@given(st.integers(0, 200), st.integers(2, 30))
def test_windows_score_every_token_once_with_context_to_go_by(length, context):
    found = list(windows(0, length, context))
    fresh = [position for w in found for position in range(w.fresh, w.end)]
    assert fresh == list(range(1, length))
    for number, w in enumerate(found):
        assert w.end - w.start <= context
        assert w.fresh - w.start >= (context // 2 if number else 1)


def test_batches_are_bounded_and_of_like_length():
    judge = Bigram()
    lengths = [3, 900, 4, 850, 5, 3] * 20
    judge.score(["a" * length for length in lengths])
    assert sum(rows for rows, _ in judge.batches) == len(lengths)
    assert all(rows * length <= 2048 for rows, length in judge.batches)
    padded = sum(rows * length for rows, length in judge.batches)
    assert padded < 1.2 * sum(lengths), "short texts are not padded to the longest"


def test_progress_ends_at_the_total():
    told = []
    Bigram().score(["abc", "a", "", "yyyyz"], lambda done, total: told.append((done, total)))
    assert told[-1] == (9, 9)
    assert told == sorted(told)
