"""What a task is. A task of one's own is one small frozen dataclass:

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

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dbtm.core.errors import UsageError, nearest

if TYPE_CHECKING:
    from dbtm.sampling.sampler import Sampler


@dataclass(frozen=True)
class Batch:
    """Some examples: tokens (B, L) int64, and the prompt mask (B, L) bool of what is given, None where nothing is."""

    tokens: np.ndarray
    prompt: np.ndarray | None = None


class Task:
    """Base of all tasks. `batch` must depend on the sample indices alone: that is what makes runs reproducible."""

    name: ClassVar[str] = ""
    of_evaluation: ClassVar[tuple[str, ...]] = ()
    """Settings of `evaluate` alone: nothing is learned from them, so that a resumed run may have others."""
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

    def with_files(self, found: Mapping[str, Path]) -> "Task":
        """This task on what a checkpoint carries, {name: path}, so that it needs nothing from where it was trained."""
        return self

    def prepare_evaluation(self) -> None:
        """Get what `evaluate` needs, or refuse it: asked for before training begins, not when hours have passed."""

    def evaluate(self, sampler: "Sampler", seed: int) -> dict[str, float]:
        """A quick measure of success for metrics.jsonl; the key 'score', where present, picks the best checkpoint."""
        return {}

    def text(self, tokens: np.ndarray) -> str:
        """One sample as text, (L,) tokens."""
        return " ".join(str(int(t)) for t in tokens)


_TASKS: dict[str, type[Task]] = {}
_BUILT_IN = {
    "categorical": "dbtm.tasks.toy",
    "gsm8k": "dbtm.tasks.gsm8k.task",
    "markov": "dbtm.tasks.toy",
    "own": "dbtm.tasks.own",
    "sudoku": "dbtm.tasks.sudoku.task",
    "text": "dbtm.tasks.text.task",
}


def register(cls: type[Task]) -> type[Task]:
    """Make a task known by its name, so that checkpoints trained on it can be loaded."""
    if not cls.name:
        raise UsageError(f"the task {cls.__name__} needs a name")
    _TASKS[cls.name] = cls
    return cls


def task_class(name: str) -> Any:
    """The class of a registered task; built-in ones are imported when first asked for."""
    if name not in _TASKS and name in _BUILT_IN:
        importlib.import_module(_BUILT_IN[name])
    if name not in _TASKS:
        hint = nearest(name, {*_TASKS, *_BUILT_IN})
        raise UsageError(f"unknown task '{name}'{hint} (a task of your own must be imported and registered first)")
    return _TASKS[name]
