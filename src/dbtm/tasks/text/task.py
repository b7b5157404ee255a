"""Text as a task: blocks of a prepared set, all of them generated."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dbtm.core import rng
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_COUNT
from dbtm.tasks.base import Batch, Task, register
from dbtm.tasks.text.borders import BORDERS, Borders
from dbtm.tasks.text.places import manifest_sha256, on_this_machine, opened
from dbtm.tasks.text.shards import MANIFEST, Blocks, Prepared, spread

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@lru_cache(maxsize=2)  # a batch may straddle two epochs
def _permutation(seed: int, epoch: int, n: int) -> np.ndarray:
    """An order of n blocks by our own random numbers, independent of library versions."""
    return np.argsort(rng.bits(rng.fold(seed, epoch)[None], n)[0].numpy(), kind="stable")


@register
@dataclass(frozen=True)
class Text(Task):
    """Blocks of `length` tokens from the folder that `dbtm data text` wrote; a new order per epoch."""

    name = "text"
    evaluation_settings = ("evaluate_n", "evaluate_nfe", "judge")

    data: str = ""
    """Folder of the prepared set, or its URL (s3://...); several are separated by semicolons."""
    vocab: int = 8192
    """Entries of the tokenizer."""
    length: int = 128
    """Tokens per block."""
    seed: int = 0
    """Seed of the order of blocks."""
    tokenizer: str = ""
    """File of the tokenizer; empty: the one in `data`."""
    evaluate_n: int = 256
    """Samples of the quick evaluation."""
    evaluate_nfe: tuple[int, ...] = (1, 4)
    """Budgets of the quick evaluation."""
    judge: str = ""
    """Judge of the quick evaluation's samples, as in `dbtm eval text --judge`; empty: no perplexity over training."""

    def __post_init__(self):
        if self.vocab < 2 or self.length < 1:
            raise UsageError(f"task.vocab={self.vocab} and task.length={self.length} must be at least 2 and 1")
        if not 1 <= self.evaluate_n <= MOST_COUNT or self.seed < 0:
            raise UsageError(
                f"task.evaluate_n={self.evaluate_n} must be from 1 to {MOST_COUNT}, task.seed={self.seed} at least 0"
            )
        if not self.evaluate_nfe or min(self.evaluate_nfe) < 1:
            raise UsageError(f"task.evaluate_nfe={list(self.evaluate_nfe)} must be budgets, each at least 1")

    # -- data ------------------------------------------------------------------------------------------------------

    @cached_property
    def prepared(self) -> Prepared:
        if not self.data:
            words = self.tokenizer or "train:8192"
            raise UsageError(
                f"no text: prepare some (`dbtm data text`, tokenizer {words}, length {self.length}) and set "
                "task.data to its folder"
            )
        prepared = opened(self.data)
        if (prepared.vocab, prepared.length) != (self.vocab, self.length):
            raise UsageError(
                f"{self.data} has vocabulary {prepared.vocab} and length {prepared.length}, but "
                f"task.vocab={self.vocab} and task.length={self.length}: prepare it again, or change these"
            )
        return prepared

    @property
    def train(self) -> Blocks:
        return self.prepared.train

    @property
    def held_out(self) -> Blocks:
        """Blocks of held-out documents; there may be none."""
        return self.prepared.validation

    def source(self) -> dict[str, str]:
        """The source of the blocks: the folder, and the sha256 of its manifest, which lists those of all files."""
        return {"data": self.data, "sha256": self.data_sha256()}

    def data_sha256(self) -> str:
        return sha256(Path(self.data, MANIFEST)) if on_this_machine(self.data) else manifest_sha256(self.prepared)

    def at(self, data: str) -> "Text":
        """The same task with its data at a new path; data of another tokenizer is refused."""
        from dbtm.tasks.text import tokenizer as tokenizers

        moved = replace(self, data=data)
        if tokenizers.load_file(str(moved.prepared.folder)).get_vocab() != moved.words.get_vocab():
            raise UsageError(f"{data} was prepared with another tokenizer than this model's, {self.tokenizer}")
        return moved

    def validation(self, n: int) -> np.ndarray:
        """n held-out blocks spread over the split (or all, if there are fewer), (B, L) tokens."""
        return self.held_out[spread(n, len(self.held_out))]

    def order(self, index: np.ndarray) -> np.ndarray:
        """Blocks for global sample indices: each epoch visits each block once."""
        n = len(self.train)
        epoch, place = np.divmod(index, n)
        rows = np.empty_like(place)
        for e in np.unique(epoch):
            rows[epoch == e] = _permutation(self.seed, int(e), n)[place[epoch == e]]
        return rows

    def batch(self, index: np.ndarray) -> Batch:
        return Batch(self.train[self.order(np.asarray(index))])

    # -- words -----------------------------------------------------------------------------------------------------

    @cached_property
    def words(self) -> "Tokenizer":
        from dbtm.tasks.text import tokenizer as tokenizers

        data = self.data
        if data and not on_this_machine(data):  # a checkpoint without its tokenizer fetches nothing
            data = str(self.prepared.folder) if "prepared" in self.__dict__ else ""
        if not self.tokenizer and not data:
            raise UsageError("this model's tokenizer is missing: set task.tokenizer to its file")
        tokenizer = tokenizers.load_file(self.tokenizer or data)
        if tokenizers.size(tokenizer) != self.vocab:
            raise UsageError(
                f"the tokenizer in {self.tokenizer or self.data} has {tokenizers.size(tokenizer)} entries, but "
                f"task.vocab={self.vocab}: it belongs to another model"
            )
        return tokenizer

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, without any special ones."""
        from dbtm.tasks.text import tokenizer as tokenizers

        words = self.words
        with tokenizers.guarded(self.tokenizer or self.data):
            return words.encode(text, add_special_tokens=False).ids

    def decode(self, tokens_BL: np.ndarray) -> list[str]:
        """The texts of many samples, special tokens spelled out."""
        from dbtm.tasks.text import tokenizer as tokenizers

        words = self.words
        with tokenizers.guarded(self.tokenizer or self.data):
            return words.decode_batch(np.asarray(tokens_BL).tolist(), skip_special_tokens=False)

    def text(self, tokens: np.ndarray) -> str:
        return self.decode(np.asarray(tokens)[None])[0]

    @cached_property
    def borders(self) -> Borders:
        """The tokens at the borders of blocks, from the checkpoint or the data, else the end of text by its name."""
        from dbtm.tasks.text import tokenizer as tokenizers

        carried = Path(self.tokenizer).with_name(BORDERS) if self.tokenizer else None
        if carried is not None and carried.is_file():
            return Borders.read(carried, self.vocab)
        if "prepared" in self.__dict__ or (self.data and Path(self.data, MANIFEST).is_file()):
            return self.prepared.borders
        return Borders(*tokenizers.edges(self.words), around=False)

    def files(self) -> dict[str, str]:
        from dbtm.tasks.text import tokenizer as tokenizers

        return {tokenizers.FILE: self.words.to_str(), BORDERS: self.borders.text()}

    def with_files(self, files: Mapping[str, Path]) -> "Text":
        from dbtm.tasks.text import tokenizer as tokenizers

        return replace(self, tokenizer=str(files[tokenizers.FILE])) if tokenizers.FILE in files else self

    # -- held-out text ---------------------------------------------------------------------------------------------

    def prepare_evaluation(self) -> None:
        _ = len(self.held_out)

    def held_out_examples(self, n: int) -> Batch | None:
        return Batch(self.validation(n)) if len(self.held_out) else None
