"""A user's rows as a task: `dbtm train own --data FILE`."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from io import StringIO
from pathlib import Path

import numpy as np

from dbtm.core import rng
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.tasks.base import Batch, Task, register
from dbtm.tasks.own.read import FILL, LONGEST_SYMBOL, Rows, read_rows

VOCABULARY = "vocabulary.json"  # in a checkpoint: the symbols in the order of their tokens
MOST_JSON = 8 << 20  # bytes
HELD_OUT = 71  # stream of random numbers


@lru_cache(maxsize=2)  # a batch may straddle two epochs
def _permutation(key: int, n: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(key)).permutation(n)


@register
@dataclass(frozen=True)
class Own(Task):
    """Rows of a file; a share of them, chosen at random, is held out."""

    name = "own"

    data: str = ""
    """A file of rows: .npy, .csv, .jsonl, .fasta or .txt."""
    vocab: int = 2
    """Tokens are 0..vocab - 1."""
    length: int = 1
    """Tokens per sequence."""
    prompt: int = 0
    """Number of leading positions that are given, not generated."""
    seed: int = 0
    """Seed of the order of sequences, and of the choice of held-out rows."""
    held_out: float = 0.05
    """Share of held-out rows; 0: none."""
    vocabulary: str = ""
    """File of the symbols; empty: those of `data`."""

    def __post_init__(self):
        if self.vocab < 2 or self.length < 1:
            raise UsageError(f"task.vocab={self.vocab} and task.length={self.length} must be at least 2 and 1")
        if not 0 <= self.prompt < self.length:
            raise UsageError(
                f"task.prompt={self.prompt} must be less than task.length={self.length}, to leave something to generate"
            )
        if not 0 <= self.held_out < 1:
            raise UsageError(f"task.held_out={self.held_out} must be at least 0 and below 1")

    def position_ids(self) -> np.ndarray:
        """Positions in a row matter, so each has its own entry."""
        return np.arange(self.length)[:, None]

    # -- rows ------------------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> Rows:
        """All rows, checked once; those of a .npy file are memory-mapped."""
        rows = read_rows(self.data, self.length)
        if rows.symbols is not None and rows.vocab != self.vocab:
            raise UsageError(f"{self.data} has {rows.vocab} symbols, but task.vocab is {self.vocab}: leave it out")
        if rows.vocab > self.vocab:
            raise UsageError(f"{self.data} has token {rows.vocab - 1}, outside 0..{self.vocab - 1} (task.vocab)")
        return rows

    @cached_property
    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices of training rows and of held-out rows; at least one of 20 is held out, none of fewer."""
        n = len(self.rows.tokens_NL)
        held = round(self.held_out * n) if n >= 20 else 0
        if not held:
            return np.arange(n), np.arange(0)
        order = _permutation(int(rng.fold(self.seed, HELD_OUT).item()) & (2**64 - 1), n)
        return np.sort(order[held:]), np.sort(order[:held])

    def training_rows(self) -> np.ndarray:
        """(N, L) tokens of the training rows."""
        return self.rows.tokens_NL[self.split[0]]

    def data_sha256(self) -> str:
        return sha256(Path(self.data))

    def order(self, index: np.ndarray) -> np.ndarray:
        """Rows for global sample indices: each epoch visits each row once, in a new order."""
        trained = self.split[0]
        epoch, place = np.divmod(index, len(trained))
        rows = np.empty_like(place)
        for e in np.unique(epoch):
            key = int(rng.fold(self.seed, int(e)).item()) & (2**64 - 1)
            rows[epoch == e] = trained[_permutation(key, len(trained))[place[epoch == e]]]
        return rows

    def batch(self, index: np.ndarray) -> Batch:
        return self._examples(self.order(np.asarray(index)))

    def held_out_examples(self, n: int) -> Batch | None:
        if not self.data:
            return None
        held = self.split[1]
        if not len(held):
            return None
        return self._examples(held[np.linspace(0, len(held), min(n, len(held)), endpoint=False, dtype=np.int64)])

    def remark(self) -> str:
        if not self.held_out or len(self.split[1]):
            return ""
        return f"{len(self.split[0])} rows are too few to hold out {100 * self.held_out:g} %: no validation loss"

    def _examples(self, rows: np.ndarray) -> Batch:
        tokens = self.rows.tokens_NL[rows]
        prompt = np.broadcast_to(np.arange(self.length) < self.prompt, tokens.shape)
        return Batch(tokens.astype(np.int64), prompt)

    # -- symbols ---------------------------------------------------------------------------------------------------

    @cached_property
    def symbols(self) -> tuple[str, ...] | None:
        """The symbols of the tokens, from the checkpoint or the data; None: numbers."""
        if not self.vocabulary:
            known = self.data and Path(self.data).suffix.lower() != ".npy" and Path(self.data).is_file()
            return self.rows.symbols if known else None
        return read_vocabulary(Path(self.vocabulary), self.vocab)

    def files(self) -> dict[str, str]:
        return {} if self.symbols is None else {VOCABULARY: json.dumps(self.symbols, ensure_ascii=False) + "\n"}

    def with_files(self, found: Mapping[str, Path]) -> "Own":
        return replace(self, vocabulary=str(found[VOCABULARY])) if VOCABULARY in found else self

    @property
    def delimiter(self) -> str:
        """Between the cells of a table; empty for other files."""
        return {".csv": ",", ".tsv": "\t"}.get(Path(self.data).suffix.lower(), "")

    def text(self, tokens: np.ndarray) -> str:
        """The row in the notation of the user's file: a line of a table, characters without spaces, else words."""
        if self.symbols is None:
            return super().text(tokens)
        if self.delimiter:
            line = StringIO()
            csv.writer(line, delimiter=self.delimiter, lineterminator="").writerow(self.symbols[int(t)] for t in tokens)
            return line.getvalue()
        words = [self.symbols[int(t)] for t in tokens]
        return ("" if self.characters else " ").join(word for word in words if word != FILL)

    def split_row(self, text: str) -> list[str]:
        """A line of a table if it has delimiters, else as for any task."""
        if not self.delimiter or self.delimiter not in text:
            return super().split_row(text)
        return [cell.strip() for cell in next(csv.reader([text], delimiter=self.delimiter), [])]

    @property
    def characters(self) -> bool:
        """Whether every symbol is one character."""
        return self.symbols is not None and all(len(word) <= 1 for word in self.symbols)

    def token(self, word: str) -> int | None:
        if self.symbols is None:
            return super().token(word)
        return self.symbols.index(word) if word in self.symbols else None


def read_vocabulary(path: Path, vocab: int) -> tuple[str, ...]:
    """The symbols in a checkpoint, which must be distinct short words, one per token."""
    try:
        if path.stat().st_size > MOST_JSON:
            raise ValueError
        words = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(words, list) or len(words) != vocab or len({*words}) != vocab:
            raise ValueError
        if not all(isinstance(word, str) and len(word) <= LONGEST_SYMBOL for word in words):
            raise ValueError
    except (OSError, ValueError, TypeError, RecursionError):
        raise UsageError(f"{path} is damaged: it must list {vocab} different symbols") from None
    return tuple(words)
