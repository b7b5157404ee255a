"""Common part of reasoning tasks: problems from keys, a given part and an answer; any valid answer counts."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
import torch

from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_COUNT
from dbtm.tasks.base import Batch, Task

HELD_OUT = 1 << 32  # added to a seed, it gives held-out problems
_CHUNK = 16  # problems that a worker makes at a time


class Reasoning(Task, ABC):
    """A task whose tokens hold a problem and its answer, so that an answer is judged by its tokens alone."""

    evaluation_settings = ("evaluate_n",)
    seed: int
    evaluate_n: int

    @abstractmethod
    def make(self, keys_B: np.ndarray) -> np.ndarray:
        """Problems with one answer each, tokens (B, L) int64; a row is a function of its uint64 key alone."""

    @abstractmethod
    def answer(self) -> np.ndarray:
        """(L,) bool: the positions that hold the answer."""

    @abstractmethod
    def complaint(self, tokens_L: np.ndarray) -> str | None:
        """What is wrong with an answer, in one line; None if it is valid."""

    @abstractmethod
    def parse(self, text: str) -> np.ndarray:
        """The tokens (L,) of a problem in a user's text; the answer's positions have arbitrary values."""

    @abstractmethod
    def problem(self, tokens: np.ndarray) -> str:
        """The problem of (L,) tokens as text that `parse` reads."""

    def check_counts(self) -> None:
        if not 0 <= self.seed < HELD_OUT:
            raise UsageError(f"task.seed={self.seed} must be from 0 to {HELD_OUT - 1}: larger ones are for evaluation")
        if not 1 <= self.evaluate_n <= MOST_COUNT:
            raise UsageError(f"task.evaluate_n={self.evaluate_n} must be from 1 to {MOST_COUNT}")

    @staticmethod
    def keys(seed: int, index: np.ndarray) -> np.ndarray:
        """A key per example."""
        return rng.fold(seed, torch.from_numpy(np.asarray(index, dtype=np.int64))).numpy().view(np.uint64)

    def given(self, tokens_BL: np.ndarray) -> Batch:
        """Problems, with their given part as the prompt."""
        return Batch(tokens_BL, np.broadcast_to(~self.answer(), tokens_BL.shape))

    def batch(self, index: np.ndarray) -> Batch:
        return self.given(self.make(self.keys(self.seed, index)))

    def held_out_examples(self, n: int) -> Batch:
        return self.given(self.new(np.arange(n)))

    def new(self, index: np.ndarray) -> np.ndarray:
        """Held-out problems by number: tokens (B, L)."""
        return self.make(self.keys(self.seed + HELD_OUT, index))

    @cached_property
    def held_out(self) -> Batch:
        """The problems of the quick evaluation."""
        return self.held_out_examples(self.evaluate_n)

    def prepare_evaluation(self) -> None:
        _ = self.held_out  # impossible settings are refused before training begins

    def solved(self, tokens_BL: np.ndarray) -> np.ndarray:
        """Which rows hold a valid answer to their problem, (B,) bool."""
        return np.array([self.complaint(row_L) is None for row_L in tokens_BL])

    def measure(self, tokens: np.ndarray, truth: Batch | None) -> dict[str, float]:
        solved = float(self.solved(tokens).mean())
        return {"solved": solved, "score": solved}


def in_threads(make: Callable[[np.ndarray], np.ndarray], keys_B: np.ndarray) -> np.ndarray:
    """`make` of the keys, (B,) or (B, ...), in parallel chunks: compiled code runs without the interpreter's lock.

    A row is a function of its key, so the result does not depend on the number of workers. The first chunk, which
    compiles for seconds, runs in the calling thread, so that Ctrl-C stops it at once.
    """
    chunks = [keys_B[i : i + _CHUNK] for i in range(0, len(keys_B), _CHUNK)]
    workers = min(len(chunks), os.cpu_count() or 1)
    if workers <= 1:
        return make(keys_B)
    first = make(chunks[0])
    with ThreadPoolExecutor(workers) as pool:
        return np.concatenate([first, *pool.map(make, chunks[1:])])
