"""Continuations of unseen text: the model gets the first half of a text, and a judge scores its second half.

The judge scores only the continuation, given the first half, in the same way as the real second half. A continuation
is cut to the real one's length in the model's tokens.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.evals.estimates import Estimate, mean
from dbtm.evals.judges.base import Judge
from dbtm.evals.perplexity import perplexity
from dbtm.tasks.text.given import around, place
from dbtm.tasks.text.task import Text

FEWEST_WORDS = 8


@dataclass(frozen=True)
class Halves:
    """A text in two halves, as strings and as the model's sequence."""

    first: str
    second: str
    tokens_L: np.ndarray
    clean_L: np.ndarray
    """What is given: the first half."""
    length: int
    """Tokens of the second half."""

    def cut(self, tokens_L: np.ndarray) -> np.ndarray:
        """The continuation in a sequence, of the real one's length."""
        start = int(np.flatnonzero(~self.clean_L)[0])
        return tokens_L[start : start + self.length]


def halves_of(task: Text, texts: Iterable[str], n: int) -> list[Halves]:
    """The first n texts that have at least eight words and fit the model's sequences."""
    found: list[Halves] = []
    for text in texts:
        if len(found) == n:
            break
        words = text.split()
        if len(words) >= FEWEST_WORDS and (halves := _halves(task, words)) is not None:
            found.append(halves)
    if not found:
        raise UsageError(f"no text has {FEWEST_WORDS} words or more and fits the model's {task.length} tokens")
    return found


def _halves(task: Text, words: list[str]) -> Halves | None:
    first, second = " ".join(words[: len(words) // 2]), " " + " ".join(words[len(words) // 2 :])
    length = len(task.encode(second))
    if len(task.encode(first)) + length + 2 > task.length:  # and the tokens at the borders
        return None
    tokens_L, clean_L = place(task, around(first, ""))
    clean_L = np.cumprod(clean_L).astype(bool)  # an EOS around all blocks is left to the model
    return Halves(first, second, tokens_L, clean_L, length)


@dataclass(frozen=True)
class ContinuationScore:
    """The numbers of one set of continuations."""

    kind: str
    """samples, or real."""
    settings: dict[str, Any]
    n: int
    perplexity: Estimate
    """Of the continuations, given the first halves."""
    distinct: Estimate
    """Share of distinct tokens in a continuation, averaged: low for repetitive text."""
    nfe: float | None = None
    seconds: float | None = None

    def document(self) -> dict[str, Any]:
        numbers = self.perplexity.document("perplexity") | self.distinct.document("distinct")
        rest = {name: getattr(self, name) for name in ("kind", "settings", "n", "nfe", "seconds")}
        return rest | numbers


def score(
    halves: list[Halves], texts: list[str], tokens: list[np.ndarray], judge: Judge, kind: str, **about: Any
) -> ContinuationScore:
    """Second halves, as texts and as the model's tokens, given the first."""
    first = [each.first for each in halves]
    scores = judge.score([a + b for a, b in zip(first, texts, strict=True)], after=first)
    different_N = np.array([len(np.unique(row)) / max(1, len(row)) for row in tokens])
    return ContinuationScore(
        kind=kind,
        n=len(halves),
        perplexity=perplexity(scores.nll_B, scores.tokens_B),
        distinct=mean(different_N),
        **({"settings": {}} | about),
    )
