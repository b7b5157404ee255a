"""Data of the views: a grid or a text after one round of a sampler. None for what a method does not have."""

from typing import NamedTuple

import numpy as np

MOST_ROUNDS = 12  # shown of a trace in a terminal


class GridState(NamedTuple):
    """A Sudoku after one round; C cells in reading order."""

    values_C: np.ndarray
    """The model's digit per cell; 0 for none."""
    committed_C: np.ndarray | None = None
    """Whether the cell is committed, i.e. does not change any more."""
    score_C: np.ndarray | None = None
    """The model's confidence in the digit, in [0, 1]."""
    time: float | None = None
    """Of the method's own clock."""

    def settled(self) -> "GridState":
        """As the last state of a trace: what says nothing of commits is committed, since nothing comes after it."""
        return self if self.committed_C is not None else self._replace(committed_C=np.ones(len(self.values_C), bool))


class TextState(NamedTuple):
    """A text after one round, token by token."""

    parts_L: list[str]
    """Each token's part of the text (dbtm.viz.spell)."""
    committed_L: np.ndarray | None = None
    """Whether the token is committed, i.e. does not change any more."""
    score_L: np.ndarray | None = None
    """The model's confidence in the token, in [0, 1]."""
    time: float | None = None
    """Of the method's own clock."""
    blank_L: np.ndarray | None = None
    """Positions without a token yet."""

    def settled(self) -> "TextState":
        """As the last state of a trace: what says nothing of commits is committed, since nothing comes after it."""
        return self if self.committed_L is not None else self._replace(committed_L=np.ones(len(self.parts_L), bool))


def spaced(rounds: int, most: int = MOST_ROUNDS) -> list[int]:
    """Numbers, from 1, of the rounds shown in a terminal: all, or `most`, evenly spaced, with the first and last."""
    if rounds <= most:
        return list(range(1, rounds + 1))
    return [1 + round(i * (rounds - 1) / (most - 1)) for i in range(most)]


def left_out(rounds: int, most: int = MOST_ROUNDS) -> str:
    """A note if not all rounds are shown; else empty."""
    return f"{most} of {rounds} rounds, evenly spaced" if rounds > most else ""


def progress_of(committed: int | None, free: int, time: float | None) -> str:
    """Progress of a round, after its number: commits and time, if the method has them."""
    commits = "" if committed is None else f"  {committed}/{free} committed"
    return commits + ("" if time is None else f"  t = {time:.3g}")


def scores(score: np.ndarray | None) -> list[float | None] | None:
    """Scores for JSON, without values that are not numbers."""
    return None if score is None else [round(float(s), 4) if np.isfinite(s) else None for s in score]
