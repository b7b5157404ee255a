"""Verbatim overlap of samples with the training text: the longest run of tokens that occurs there.

A run of n tokens is in the corpus only if its first n - 1 are, so bisection finds the longest. Runs are compared by
64-bit hashes: with 10^8 runs of training text and 10^6 queries, an error has probability 10^-5.
"""

from typing import Protocol

import numpy as np

_FACTOR = np.uint64(0x9E3779B97F4A7C15 | 1)
_ROWS = 1 << 16  # of training text that are hashed at a time


class Corpus(Protocol):
    """(N, L) tokens, indexed by rows."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: np.ndarray) -> np.ndarray: ...


def longest_matches(tokens_BL: np.ndarray, corpus: Corpus) -> np.ndarray:
    """(B,) the length of each sample's longest run that occurs in a row of the corpus."""
    low_B, high_B = np.zeros(len(tokens_BL), dtype=np.int64), np.full(len(tokens_BL), tokens_BL.shape[1])
    while (low_B < high_B).any():
        middle_B = (low_B + high_B + 1) // 2
        for n in np.unique(middle_B[low_B < high_B]):
            asked = np.flatnonzero((middle_B == n) & (low_B < high_B))
            found = _occurs(tokens_BL[asked], corpus, int(n))
            low_B[asked[found]] = n
            high_B[asked[~found]] = n - 1
    return low_B


def _occurs(tokens_BL: np.ndarray, corpus: Corpus, n: int) -> np.ndarray:
    """(B,) bool: whether one of the sample's runs of n tokens is in the corpus."""
    asked_BR = run_hashes(tokens_BL, n)
    wanted = np.unique(asked_BR)
    present = np.zeros(len(wanted), dtype=bool)
    for first in range(0, len(corpus), _ROWS):
        rows = corpus[np.arange(first, min(first + _ROWS, len(corpus)))]
        if rows.shape[1] < n:
            break
        hashes = run_hashes(rows, n).ravel()
        at = np.searchsorted(wanted, hashes).clip(max=len(wanted) - 1)
        present[at[wanted[at] == hashes]] = True
    return np.any(present[np.searchsorted(wanted, asked_BR)], axis=1)


def run_hashes(tokens_BL: np.ndarray, n: int) -> np.ndarray:
    """(B, L - n + 1) a hash of every run of n tokens: sum of mixed(token) * factor^place, modulo 2^64."""
    mixed = _mixed(tokens_BL.astype(np.uint64))
    hashes = np.zeros((len(mixed), mixed.shape[1] - n + 1), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for place in range(n):
            hashes = hashes * _FACTOR + mixed[:, place : place + hashes.shape[1]]
    return hashes


def _mixed(x: np.ndarray) -> np.ndarray:
    """Tokens as random-looking 64-bit numbers (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
