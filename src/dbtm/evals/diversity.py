"""Repetition within and among samples: a model that repeats itself can reach any perplexity."""

import numpy as np


def entropies(tokens_BL: np.ndarray) -> np.ndarray:
    """Entropy of each sample's token frequencies, in nats, (B,): from 0 for one token L times to log L."""
    rows, length = tokens_BL.shape
    ordered_BL = np.sort(tokens_BL, axis=1)
    first_BL = np.ones((rows, length), dtype=bool)
    first_BL[:, 1:] = ordered_BL[:, 1:] != ordered_BL[:, :-1]
    starts = np.flatnonzero(first_BL)  # of runs of equal tokens; every row starts one, so none crosses a row
    p = np.diff(starts, append=rows * length) / length
    return np.bincount(starts // length, weights=-p * np.log(p), minlength=rows)


def distinct(tokens_BL: np.ndarray, n: int) -> np.ndarray:
    """Different n-grams of each sample over all its n-grams, (B,); NaN for samples shorter than n."""
    length = tokens_BL.shape[1]
    if length < n:
        return np.full(len(tokens_BL), np.nan)
    grams = np.lib.stride_tricks.sliding_window_view(tokens_BL, n, axis=1)
    return np.array([len(np.unique(grams_LN, axis=0)) for grams_LN in grams]) / (length - n + 1)


def longest_repeats(tokens_BL: np.ndarray) -> np.ndarray:
    """Length of the longest run of tokens that occurs twice in each sample, overlaps allowed, (B,): `abcabca` has 4."""
    longest_B = np.zeros(len(tokens_BL), dtype=np.int64)
    for shift in range(1, tokens_BL.shape[1]):
        same = tokens_BL[:, shift:] == tokens_BL[:, :-shift]
        place = np.arange(same.shape[1])
        last_difference = np.maximum.accumulate(np.where(same, -1, place), axis=1)
        longest_B = np.maximum(longest_B, (place - last_difference).max(1))
    return longest_B


def unique_share(tokens_BL: np.ndarray) -> float:
    """Different samples over all samples."""
    return len(np.unique(tokens_BL, axis=0)) / len(tokens_BL)
