"""Runs of a sample that the training text has word for word."""

import numpy as np
import pytest

from dbtm.evals import memorised
from dbtm.evals.memorised import longest_matches


def by_brute_force(sample: list[int], corpus: np.ndarray) -> int:
    runs = {tuple(row[i : i + n]) for row in corpus.tolist() for n in range(1, len(row) + 1) for i in range(len(row))}
    lengths = range(1, len(sample) + 1)
    return max((n for n in lengths for i in range(len(sample) - n + 1) if tuple(sample[i : i + n]) in runs), default=0)


@pytest.mark.parametrize(("vocab", "length"), [(2, 12), (5, 9), (50, 20)])
def test_the_longest_run_by_brute_force(vocab, length, monkeypatch):
    monkeypatch.setattr(memorised, "_ROWS", 7)  # several pieces
    generator = np.random.default_rng(vocab)
    corpus = generator.integers(0, vocab, (30, length))
    samples = generator.integers(0, vocab, (40, length))
    samples[0] = corpus[11]
    samples[1, 2:7] = corpus[29, 1:6]
    assert longest_matches(samples, corpus).tolist() == [by_brute_force(row, corpus) for row in samples.tolist()]


def test_longer_than_the_text_and_unknown_tokens():
    corpus = np.array([[1, 2, 3, 4]])
    samples = np.array([[1, 2, 3, 4, 5, 6], [9, 9, 9, 9, 9, 9], [3, 4, 1, 2, 9, 1]])
    assert longest_matches(samples, corpus).tolist() == [4, 0, 2]


def test_a_run_does_not_cross_rows():
    assert longest_matches(np.array([[2, 3]]), np.array([[1, 2], [3, 4]])).tolist() == [1]
