"""What a task is. Your own task is one small frozen dataclass:

    @register
    @dataclass(frozen=True)
    class Parity(Task):
        name = "parity"
        length: int = 8
        vocab: int = 2

        def batch(self, index):
            tokens = ...                      # (B, length) int64, a function of the indices alone
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
    """Some examples: tokens (B, L) int64, and the prompt mask (B, L) bool of what is given, None where nothing is."""

    tokens: np.ndarray
    prompt: np.ndarray | None = None


class Task:
    """Base of all tasks. `batch` must depend on the sample indices alone: that is what makes runs reproducible."""

    name: ClassVar[str] = ""
    evaluation_settings: ClassVar[tuple[str, ...]] = ()
    """Settings of evaluations alone: nothing is learned from them, so that a resumed run may have others."""
    vocab: int
    length: int

    def batch(self, index: np.ndarray) -> Batch:
        """The training examples with these global indices (0, 1, 2 ... over the whole run)."""
        raise UsageError(f"the task '{self.name}' has no training data")

    def data_sha256(self) -> str:
        """Of the data it learns from, wherever that lies; empty where examples are made as they come."""
        return ""

    def position_ids(self) -> np.ndarray | None:
        """(L, axes) entries of the learned position tables `model.position_axes`, where the model has them."""
        return None

    def files(self) -> dict[str, str]:
        """{name: text} of small files that a checkpoint carries (a tokenizer), asked for before training begins."""
        return {}

    def with_files(self, files: Mapping[str, Path]) -> "Task":
        """This task on what a checkpoint carries, {name: path}, so that it needs nothing from where it was trained."""
        return self

    def preparation(self) -> str:
        """What is made before the first step, where that takes long: a line of the run's header."""
        return ""

    def prepare_evaluation(self) -> None:
        """Get what evaluations need, or refuse it: asked for before training begins, not when hours have passed."""

    def held_out_examples(self, n: int) -> Batch | None:
        """At most n examples that are never trained on; None where the task has none."""
        return None

    def measure(self, tokens: np.ndarray, truth: Batch | None) -> dict[str, float]:
        """How good generated rows are, by name; 'score', where it is there, picks the best checkpoint.

        `truth` are the held-out examples whose prompts the rows were generated for, None where nothing was given.
        """
        return {}

    def text(self, tokens: np.ndarray) -> str:
        """One sample as text, (L,) tokens."""
        return " ".join(str(int(t)) for t in tokens)

    def token(self, word: str) -> int | None:
        """The token that a user writes so; None where there is none."""
        return int(word) if word.isdecimal() and word.isascii() and int(word[:18]) < self.vocab else None


register = TASKS.add
"""Make a task known by its name, so that checkpoints trained on it can be loaded; a decorator."""
