"""The interface of a task. Your own task is one small frozen dataclass:

    @register
    @dataclass(frozen=True)
    class Parity(Task):
        name = "parity"
        length: int = 8
        vocab: int = 2

        def batch(self, index):
            tokens = ...                      # (B, length) int64, a function of the indices only
            return Batch(tokens)

Its fields are its configuration: saved with the checkpoint, changed with `--set task.length=16`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.core.registry import TASKS


@dataclass(frozen=True)
class Batch:
    """Examples: tokens (B, L) int64, and the prompt mask (B, L) bool of given tokens; None if none are given."""

    tokens: np.ndarray
    prompt: np.ndarray | None = None


class Task:
    """Base class of tasks. `batch` must depend only on the sample indices, so that runs are reproducible."""

    name: ClassVar[str] = ""
    evaluation_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that only affect evaluations, so that a resumed run may change them."""
    vocab: int
    length: int

    def batch(self, index: np.ndarray) -> Batch:
        """The training examples with these global indices (0, 1, 2 ... over the whole run)."""
        raise UsageError(f"the task '{self.name}' has no training data")

    def data_sha256(self) -> str:
        """sha256 of the training data, wherever it is stored; empty if examples are generated."""
        return ""

    def position_ids(self) -> np.ndarray | None:
        """(L, axes) entries of the learned position tables `model.position_axes`, if the model has them."""
        return None

    def files(self) -> dict[str, str]:
        """{name: text} of small files for the checkpoint (a tokenizer); called before training begins."""
        return {}

    def with_files(self, files: Mapping[str, Path]) -> "Task":
        """This task with the checkpoint's files {name: path}, so that it needs no other files of the training run."""
        return self

    def preparation(self) -> str:
        """A line of the run's header about slow work before the first step; empty if there is none."""
        return ""

    def remark(self) -> str:
        """A line of the run's header about the data, once they are read; empty if there is nothing to say."""
        return ""

    def prepare_evaluation(self) -> None:
        """Load what evaluations need; called before training begins, so that errors do not come hours later."""

    def held_out_examples(self, n: int) -> Batch | None:
        """At most n held-out examples; None if the task has none."""
        return None

    def measure(self, tokens: np.ndarray, truth: Batch | None) -> dict[str, float]:
        """Metrics of generated rows, by name; 'score', if present, selects the best checkpoint.

        `truth` are the held-out examples whose prompts the rows were generated for; None without prompts.
        """
        return {}

    def text(self, tokens: np.ndarray) -> str:
        """One sample as text, (L,) tokens."""
        return " ".join(str(int(t)) for t in tokens)

    def split_row(self, text: str) -> list[str]:
        """The words of a user's row, each for `token`; words of one character need no spaces."""
        words = text.split()
        return list(text) if len(words) != self.length and len(text) == self.length else words

    def token(self, word: str) -> int | None:
        """The token of a user's word; None if there is none."""
        return int(word) if word.isdecimal() and word.isascii() and int(word[:18]) < self.vocab else None


register = TASKS.add
"""Decorator: register a task by its name, so that checkpoints trained on it can be loaded."""
